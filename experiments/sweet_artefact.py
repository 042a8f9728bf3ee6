"""Does SWEET-RL's critic need the artefact, and does it need to divide by the length?

ColBench's stand-in (`colspec`) in short words, with two questions only: somebody wants a function and has told one of
its points; ask for others in a short or a long wording, then write it. What is wanted is hidden from the actor. One
small language model, made here, has read dialogues; every second one is of somebody who was told what is wanted, and that
stands in front of it, so that it has learned to read such a text. It is the actor, and what every critic starts from.
Its rollouts, paired by outcome, fit three critics, for as many tokens each:

    with the artefact       `SweetCritic`, behind what is wanted
    without it              the same, ``sees_reference=False``, with more passes
    not divided by length   as the first, ``normalise="none"``

Each ranks the same draws of 16 candidate turns, and the actor is trained on its pairs (`rank`, `prefer`); so it is on
pairs of the exact values, which are known here.

    python experiments/sweet_artefact.py [--seeds 5] [--work runs/sweet_artefact] [--only SEED]

One JSON file per seed; a stopped experiment goes on. Settings were chosen on seeds 100 and 101.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from apportion.bench.intervals import t_interval
from apportion.data import Batch
from apportion.data.atomic import atomic_write
from apportion.envs import make, register
from apportion.envs.colspec.env import ColSpec
from apportion.envs.colspec.wishes import behaviour, success, value_of_asking
from apportion.models import SweetCritic, TokenModel
from apportion.numerics import FloatArray
from apportion.train.candidates import candidate_rollouts, draw, turns_of
from apportion.train.player import TrainedPolicy
from apportion.train.policy import Policy
from apportion.train.preference import prefer
from apportion.train.ranking import rank
from apportion.train.rollout import Collector, Rollouts
from apportion.train.tokenizer import ACT, PAD, STOP

HERE = Path(__file__).parent
WORD = r"\n|\w+|[^\w\s]+"
ENV = "experiments/colspec"
TEST = 5_000_000  # tasks from here on are of the split that no rollout was of
DIALOGUES, PASSES, LEARNING = 1600, 8, 4e-3
TASKS, ROLLOUTS, CRITIC_PASSES = (24, 96), 6, 10
FRESH, RANKED, JUDGED, PLAYED = 48, 128, 48, 400
QUESTIONS = 2
CRITIC = {"beta": 1.0, "lr": 1e-3, "batch_tokens": 4096, "held_out": 0.0}
POLICY = {"lr": 5e-4, "batch_tokens": 2048, "held_out": 0.0, "epochs": 2}
CRITICS: dict[str, dict[str, Any]] = {
    "with the artefact": {},
    "without it": {"sees_reference": False},
    "not divided by length": {"normalise": "none"},
}
EXACT, ACTOR = "exact values", "the actor, untrained"
WITH, WITHOUT, UNDIVIDED = CRITICS


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


def language_model(seed: int) -> Policy:
    """A small decoder that has read dialogues, every second one behind what was wanted."""
    random = np.random.default_rng([seed, 1])
    turns = dialogues(range(1000 * seed, 1000 * seed + DIALOGUES), random)
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
    parts = [p for _ in range(PASSES) for p in np.array_split(random.permutation(len(rows)), len(rows) // 64)]
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


def played(policy: Policy, split: str, first: int, tasks: int, rollouts: int, seed: int) -> Rollouts:
    """Rollouts of tasks of a split; their names say of which, for `Exact`."""
    seeds = range(first, first + tasks)
    return Collector(ENV, {"split": split}).collect(
        policy, seeds, rollouts=rollouts, stream=(seed, first), name=f"{split}/"
    )


def judged(critic: Any, policy: Policy, batch: Batch, seed: int) -> dict[str, float]:
    """How a critic orders candidates of turns, against their exact values; means over turns where these differ."""
    places = turns_of(batch, share=min(1.0, JUDGED / len(batch.traj_of_S)), seed=seed)
    acts = draw(TrainedPolicy(policy), batch, places, count=16, seed=seed)
    right, best, length = [], [], []
    for place, of in zip(places, acts, strict=True):
        kinds = list({act.ids: act for act in of}.values())
        made = Batch.from_trajectories(candidate_rollouts(batch, place, kinds))
        told, true = critic.last_turns(made), Exact().last_turns(made)
        up, down = np.nonzero(true[:, None] > true[None] + 1e-9)
        if not len(up):
            continue
        right.append(float(np.mean((np.sign(told[up] - told[down]) + 1) / 2)))
        top = true[told >= told.max() - 1e-12].mean()
        best.append((top - true.mean()) / (true.max() - true.mean()))
        long_, short = (
            told[[bool(asked(a.action)) and a.action.endswith("?") == ends for a in kinds]] for ends in (True, False)
        )
        if len(long_) and len(short):
            length.append(float(np.mean(np.sign(long_[:, None] - short[None]) / 2 + 0.5)))
    return {"ordered": float(np.mean(right)), "best": float(np.mean(best)), "longer": float(np.mean(length))}


def score_of(policy: Policy, seed: int) -> dict[str, float]:
    """Success on tasks of the other split, and what turns look like."""
    got = played(policy, "test", TEST, PLAYED, 1, seed)
    turns = [step for t in got.trajectories for step in t.steps]
    asks = [step for step in turns if asked(step.action)]
    return {
        "success": float(np.mean(got.success_N)),
        "questions": len(asks) / len(got.trajectories),
        "tokens": float(np.mean([len(step.ids) for step in turns])),
        "long": float(np.mean([step.action.endswith("?") for step in asks])) if asks else float("nan"),
        "unwritten": float(np.mean([asked(t.steps[-1].action) is not None for t in got.trajectories])),
    }


def better(actor: Policy, critic: Any, ranked: Batch, seed: int) -> dict[str, Any]:
    """The actor after a training on pairs that a critic ranked."""
    policy = Policy(copy.deepcopy(actor.model), actor.tokenizer, window=0, free_text=False)
    found = rank(actor, critic, ranked, candidates=16, pairs=4, seed=seed)
    prefer(policy, found.pairs, seed=seed, **POLICY)
    return {**score_of(policy, seed), "pairs_trained_on": len(found.pairs)}


def fitted(actor: Policy, batch: Batch, how: dict[str, Any], seed: int) -> SweetCritic:
    """A critic that starts from the actor's weights; the one that reads less makes more passes."""
    trunk = TokenModel(copy.deepcopy(actor.model), actor.tokenizer)
    long_, own = (
        sum(map(len, SweetCritic(trunk, sees_reference=sees).rows(batch).ids))
        for sees in (True, how.get("sees_reference", True))
    )
    return SweetCritic.fit(
        batch, backbone=trunk, epochs=round(CRITIC_PASSES * long_ / own), seed=seed, **{**CRITIC, **how}
    )


def measured(seed: int) -> dict[str, Any]:
    """Everything of one seed."""
    torch.set_num_threads(1)
    began, actor = time.process_time(), language_model(seed)
    first = 1_000_000 + 1000 * seed
    own = played(actor, "train", first, max(TASKS), ROLLOUTS, seed).trajectories
    fresh = Batch.from_trajectories(played(actor, "test", TEST + 1000, FRESH, ROLLOUTS, seed).trajectories)
    ranked = Batch.from_trajectories(played(actor, "train", first + 500, RANKED, 1, seed).trajectories)
    arms: dict[str, Any] = {ACTOR: score_of(actor, seed), EXACT: better(actor, Exact(), ranked, seed)}
    for tasks in TASKS:
        batch = Batch.from_trajectories(own[: tasks * ROLLOUTS])
        for name, how in CRITICS.items():
            critic = fitted(actor, batch, how, seed)
            assert critic.fitted is not None
            arms[f"{name}, {tasks}"] = {
                "tokens_read": critic.fitted.tokens,
                "pairs_right": critic.measure(fresh)["pairs"][0],
                **judged(critic, actor, fresh, seed),
                **better(actor, critic, ranked, seed),
            }
    return {"seed": seed, "arms": arms, "cpu_seconds": time.process_time() - began}


def run(seed: int, work: Path) -> dict[str, Any]:
    """A seed from its file, or now."""
    path = work / f"{seed}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    done = measured(seed)
    work.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(json.dumps(done, indent=1).encode())
    return done


def interval(values: Sequence[float]) -> list[float]:
    """Mean and Student's interval over seeds."""
    low, high = t_interval(values)
    return [float(np.mean(values)), low, high]


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each measure of each arm, and the differences of critics, paired by seed."""
    arms = {
        arm: {name: interval([r["arms"][arm][name] for r in runs]) for name in found}
        for arm, found in runs[0]["arms"].items()
    }
    differences = {}
    for tasks in TASKS:
        for one, other in ((WITH, WITHOUT), (WITH, UNDIVIDED)):
            pair = [f"{name}, {tasks}" for name in (one, other)]
            differences[f"{one} − {other}, {tasks}"] = {
                name: interval([r["arms"][pair[0]][name] - r["arms"][pair[1]][name] for r in runs])
                for name in COLUMNS
                if name in arms[pair[0]]
            }
    return {
        "seeds": len(runs),
        "arms": arms,
        "differences": differences,
        "cpu_seconds": float(np.mean([r["cpu_seconds"] for r in runs])),
    }


COLUMNS = {
    "pairs_right": "pairs right", "ordered": "turns in order", "best": "best turn", "longer": "longer first",
    "success": "success", "questions": "questions", "unwritten": "never writes", "tokens": "tokens a turn",
    "long": "long wording",
}  # fmt: skip


def page(found: dict[str, Any]) -> str:
    """The tables in Markdown."""
    arms = found["arms"]
    lines = [
        "# SWEET-RL's critic with and without the artefact, and without the division by length",
        "",
        f"Made by `python experiments/sweet_artefact.py`. Mean over {found['seeds']} seeds (a language model, "
        "rollouts, critics and policies each) with Student's 95% interval. What the columns are stands below.",
    ]
    for title, names in (("the critics", list(COLUMNS)[:4]), ("the actor trained on their pairs", list(COLUMNS)[4:])):
        rows = [arm for arm in arms if names[0] in arms[arm]]
        lines += [
            "",
            f"## {title}",
            "",
            "| critic, tasks it was fitted to | " + " | ".join(COLUMNS[n] for n in names) + " |",
        ]
        lines += ["|---" * (len(names) + 1) + "|"]
        lines += [f"| {arm} | " + " | ".join(_cell(arms[arm][n]) for n in names) + " |" for arm in rows]
    names = ("pairs_right", "ordered", "best", "success", "tokens")
    lines += ["", "## differences, paired by seed", "", "| | " + " | ".join(COLUMNS[n] for n in names) + " |"]
    lines += ["|---" * (len(names) + 1) + "|"]
    for title, told in found["differences"].items():
        lines += [f"| {title} | " + " | ".join(_cell(told[n], "+.3f") for n in names) + " |"]
    read = {arm: f"{told['tokens_read'][0]:,.0f}" for arm, told in arms.items() if "tokens_read" in told}
    lines += [
        "",
        "Tokens that a critic read while it was fitted: " + "; ".join(f"{a}: {n}" for a, n in read.items()) + ".",
    ]
    return "\n".join(lines) + "\n\n" + WORDS


WORDS = """* **pairs right**: of two fresh rollouts of a held-out task, one of which succeeded, how often that one has the
  higher score; chance is .5.
* **turns in order**: of two candidate turns with different exact values, drawn at one turn of a fresh rollout of a
  held-out task, how often the better one has the higher score; mean over turns; chance is .5. The exact value is the
  chance to pass all tests if this is done and all else is done best, for somebody who knows what the actor knows.
* **best turn**: exact value of the turn that is ranked first, where the mean of the candidates is 0 and the best is 1.
* **longer first**: of a question in its long and its short wording, which are worth the same, how often the longer
  one scores higher; .5 is indifferent.
* **success**: of the actor, sampled, on 400 held-out tasks. **questions**: per episode, of 2 that are of use. **never
  writes**: share of episodes. **tokens a turn**, and **long wording**: share of the questions asked in it.
"""


def _cell(value: Sequence[float], form: str = ".3f") -> str:
    mean, low, high = (format(x, form) for x in value)
    return f"{mean} ({low} to {high})"


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", type=int, help="run this seed, and write no page")
    parser.add_argument("--work", type=Path, default=Path("runs/sweet_artefact"))
    parser.add_argument("--out", type=Path, default=HERE / "results")
    given = parser.parse_args()
    if given.only is not None:
        run(given.only, given.work)
        return
    found = summary([run(seed, given.work) for seed in range(given.seeds)])
    with atomic_write(given.out / "sweet_artefact.json") as file:
        file.write(json.dumps(found, indent=1).encode() + b"\n")
    with atomic_write(given.out / "sweet_artefact.md") as file:
        file.write(page(found).encode())
    sys.stdout.write(page(found))


if __name__ == "__main__":
    main()
