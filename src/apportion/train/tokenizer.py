"""A tokenizer made from the text of an environment.

Choice actions: one token per word, and one token per whole action, so that deciding takes one step of the model.
Free text: byte-level BPE, which can write anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from apportion.envs import TextEnv

PAD, UNKNOWN, STOP, ACT = "<pad>", "<unk>", "<stop>", "<act>"
SPECIAL = (PAD, UNKNOWN, STOP, ACT)


def word_tokenizer(texts: Iterable[str], actions: Iterable[str]) -> Any:
    """One token per word or punctuation mark of the texts, and one per action.

    Actions of several words are entries of the vocabulary, which splitting at blanks never produces: the same
    words in an observation remain words.
    """
    split = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")])
    words: dict[str, None] = {}
    whole = list(dict.fromkeys(actions))
    for text in (*texts, *whole):
        words.update(dict.fromkeys(word for word, _ in split.pre_tokenize_str(text)))
    tokens = dict.fromkeys((*SPECIAL, *whole, *sorted(words)))
    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = split
    return _fast(tokenizer)


def bpe_tokenizer(texts: Iterable[str], size: int = 512) -> Any:
    """Byte-level BPE of at most ``size`` tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _fast(tokenizer)


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


def _fast(tokenizer: Tokenizer) -> Any:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=STOP,
        additional_special_tokens=[ACT],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
