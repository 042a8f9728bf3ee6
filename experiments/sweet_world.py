"""The world of `sweet_artefact`: ColSpec in short words, exact values of turns, and a language model that can read it.

Nothing here is measured; see there for what it is for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from apportion.data import Batch
from apportion.envs import make, register
from apportion.envs.colspec.env import ColSpec
from apportion.envs.colspec.wishes import behaviour, success, value_of_asking
from apportion.models import TokenModel
from apportion.numerics import FloatArray
from apportion.train.policy import Policy
from apportion.train.tokenizer import ACT, PAD, STOP

WORD = r"\n|\w+|[^\w\s]+"
ENV = "experiments/colspec"
QUESTIONS = 2
LEARNING = 4e-3


@register(ENV)
class Short(ColSpec):
    """ColSpec in short words, with two wordings of each question."""

    def __init__(self, *, split: str = "train") -> None:
        super().__init__(split=split, questions=QUESTIONS)
        self._spec = replace(self._spec, name=ENV, options=(("split", split),))

    def commands(self) -> tuple[str, ...]:
        """As in ColSpec, and each question in a longer wording."""
        plain = super().commands()
        return (*plain, *(f"ask about the {c.removeprefix('ask ')}?" for c in plain if c.startswith("ask ")))

    def reference(self) -> str:
        """What is wanted, point by point, in the words of the observation."""
        return "\n".join([self.wish.name, *(f"{n} {v}" for n, v in zip(self.wish.names, self.hidden, strict=True))])

    def _observe(self) -> str:
        told = zip(self.wish.names, self.known, strict=True)
        return "\n".join(
            [f"{self.wish.name} {self.steps_left}", *(f"{name} {value or 'open'}" for name, value in told)]
        )


def asked(action: str) -> str | None:
    """The point that an action asks about."""
    return action.rstrip("?").split()[-1] if action.startswith("ask ") else None


def exact_value(env: ColSpec, action: str) -> float:
    """Chance to pass all tests if this is done now and all else is done best, for somebody who knows what was told."""
    point, left = asked(action), env.steps_left - 1
    if point is not None:
        return success(env.wish, env.known) + value_of_asking(env.wish, env.known, point, left) if left else 0.0
    possible = [v for v in env.wish.all_values() if all(k in (None, x) for k, x in zip(env.known, v, strict=True))]
    given = behaviour(action.removeprefix("write "))
    return float(np.mean([behaviour(env.wish.program(values)) == given for values in possible]))


class Exact:
    """Ranks by `exact_value`; plays each rollout up to its last step."""

    def last_turns(self, batch: Batch) -> FloatArray:
        """A number for the last turn of each rollout."""
        out = []
        for rollout in batch:
            name, seed = (rollout.group or "").rpartition(":")[0].split("/")[:2]
            env = make(ENV, split=name)
            env.reset(seed=int(seed))
            for step in rollout.steps[:-1]:
                env.step(step.action or "")
            out.append(exact_value(env, rollout.steps[-1].action or ""))
        return np.array(out)


def dialogues(seeds: Sequence[int], random: np.random.Generator) -> list[tuple[str | None, str, str]]:
    """Turns (reference, observation, action) of somebody who does the best or anything, by turns of a coin.

    In every second dialogue he has read the reference, and in half of his turns writes what it says; in the others it
    is None.
    """
    env, out = make(ENV), []
    for k, seed in enumerate(seeds):
        text, over = env.reset(seed=seed)[0], False
        while not over:
            commands = env.actions()
            action = env.expert()[0] if random.random() < 0.5 else str(random.choice(np.array(commands, dtype=object)))
            if k % 2 and random.random() < 0.5:
                action = f"write {env.wish.program(env.hidden)}"
            if asked(action) and random.random() < 0.5:
                action = next(c for c in commands if asked(c) == asked(action) and c != action)
            out.append((env.reference() if k % 2 else None, text, action))
            text, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    return out


def word_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A token for each word, number, sign and line break of the texts."""
    words = dict.fromkeys(word for text in texts for word in re.findall(WORD, text))
    made = Tokenizer(models.WordLevel({w: k for k, w in enumerate([PAD, STOP, ACT, "?!", *words])}, unk_token="?!"))
    split = pre_tokenizers.Split(Regex(WORD), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.Split(Regex(" +"), "removed")])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, eos_token=STOP, unk_token="?!", additional_special_tokens=[ACT]
    )


def language_model(seed: int, count: int, passes: int) -> Policy:
    """A small decoder that has read so many dialogues so often, every second one behind what was wanted."""
    random = np.random.default_rng([seed, 1])
    turns = dialogues(range(1000 * seed, 1000 * seed + count), random)
    tokenizer = word_tokenizer([text for turn in turns for text in turn if text])
    torch.manual_seed(seed)
    shape = GPT2Config(
        vocab_size=len(tokenizer), n_embd=64, n_layer=2, n_head=4, n_positions=128, activation_function="gelu",
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    policy = Policy(GPT2LMHeadModel(shape).eval(), tokenizer, window=0, free_text=False)
    trunk, rows, begins = TokenModel(policy.model, tokenizer), [], []
    for wanted, observation, action in turns:
        before = [] if wanted is None else [trunk.start, *trunk.encode(wanted), trunk.start]  # as a critic reads it
        context = [*before, *policy.prompts.present(observation)]
        rows.append(np.array([*context, *policy.prompts.encode_action(action)]))
        begins.append(len(context))
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=LEARNING)
    parts = [p for _ in range(passes) for p in np.array_split(random.permutation(len(rows)), len(rows) // 64)]
    for done, part in enumerate(parts):
        places = [(r, at) for r, k in enumerate(part) for at in range(begins[k], len(rows[k]))]
        row_k, at_k = np.array(places).T
        loss = -trunk([rows[k] for k in part], row_k, at_k).mean()
        for group in optimizer.param_groups:
            group["lr"] = LEARNING * min(1.0, (done + 1) / 50) * (1 - done / len(parts))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        optimizer.step()
    return policy


def reads(policy: Policy, tasks: int = 60) -> float:
    """How often, behind what is wanted, the program that the model finds likeliest does that; held-out tasks."""
    env, trunk, right = make(ENV, split="test"), TokenModel(policy.model, policy.tokenizer), 0
    for seed in range(7_000_000, 7_000_000 + tasks):
        shown = policy.prompts.present(env.reset(seed=seed)[0])
        before = [trunk.start, *trunk.encode(env.reference()), trunk.start, *shown]
        written = [command for command in env.commands() if command.startswith("write ")]
        coded = [policy.prompts.encode_action(command) for command in written]
        places = [(r, len(before) + k) for r, ids in enumerate(coded) for k in range(len(ids))]
        row_k, at_k = np.array(places).T
        with torch.no_grad():
            told = trunk([np.array([*before, *ids]) for ids in coded], row_k, at_k).numpy()
        likeliest = written[int(np.bincount(row_k, weights=told).argmax())].removeprefix("write ")
        right += behaviour(likeliest) == behaviour(env.wish.program(env.hidden))
    return right / tasks
