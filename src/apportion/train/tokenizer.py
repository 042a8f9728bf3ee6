"""A tokenizer made from the text of an environment: byte-pair encoding that merges across blanks.

The texts of an environment repeat themselves, so whole phrases ("wall 2 forward") become one token and prompts a
third as long as in words. Merges never cross a punctuation mark. Any text can be written, and comes back exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from apportion.envs import TextEnv

PAD, STOP, ACT = "<pad>", "<stop>", "<act>"
SPECIAL = (PAD, STOP, ACT)


def action_token(action: str) -> str:
    """Name of the one token that stands for a whole action; text never contains it by chance."""
    return f"<|{action}|>"


def train_tokenizer(texts: Iterable[str], actions: Iterable[str] = (), size: int = 512) -> Any:
    """Byte-pair encoding of the texts with at most ``size`` tokens, and one token more for each action.

    Args:
        texts: what the environment says, and free text that the policy may write.
        actions: admissible actions; each becomes one token, so that a decision takes one step of the model.
        size: bytes and merges together, at least 260.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[^\w\s]"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[*SPECIAL, *(action_token(a) for a in dict.fromkeys(actions))],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=STOP,
        additional_special_tokens=[ACT],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def play_for_text(env: TextEnv, seeds: Sequence[int], seed: int = 0) -> tuple[list[str], list[str]]:
    """Observations and actions met by a player who follows the expert half of the time."""
    random = Random(seed)
    texts: dict[str, None] = {}
    actions: dict[str, None] = {}
    for k, task in enumerate(seeds):
        text, _ = env.reset(seed=task)
        plan = env.expert() if k % 2 else None
        while True:
            texts[text] = None
            listed = env.actions()
            actions.update(dict.fromkeys(listed or ()))
            if plan:
                action = plan.pop(0)
                actions[action] = None
            elif listed:
                action = random.choice(listed)
            else:
                break
            text, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                texts[text] = None
                break
    return list(texts), list(actions)
