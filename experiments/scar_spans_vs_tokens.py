"""Do spans reach the credit that SCAR gives token by token, at a seventh of its evaluations?

A reward model is trained on a planted task: responses of six sentences whose worth is a sum over words and over pairs
of words, in one sentence or in two. So the Shapley value of every word is known. SCAR then credits held-out responses
with the trained model, by word and by sentence, and the two are compared by rank correlation inside each response:

    words    credit per sentence, spread over its words, against the words' own credit, word by word: the claim as it is
             written, and what is lost inside sentences is held against it
    spans    the same against the words' own credit summed in each sentence and spread alike: do the sentences get what
             their words got?

Run it from the repository's root with the extra ``train``:  ``python experiments/scar_spans_vs_tokens.py``
It writes ``experiments/results/scar_spans_vs_tokens.md`` and ``.json``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import apportion as ap
from apportion.asks import Score
from apportion.bench.intervals import t_interval
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.data.atomic import atomic_write
from apportion.data.words import words
from apportion.methods.red import ranks
from apportion.numerics import FloatArray
from apportion.resources import Asker, BaseResource, Load, Reply, Request
from apportion.units import Units, by_segment, by_token

SENTENCES, SHORTEST, LONGEST = 6, 7, 9
VOCABULARY, CARRIERS, PAIRS = 120, 40, 60
GAP = 1  # id of a word that is not there; 0 is padding
WIDTH = 80
POOL = 12_000


@dataclass(frozen=True)
class Planted:
    """A task: worth of each word, and of pairs of words wherever both are in the response."""

    word: FloatArray
    pair: dict[tuple[int, int], float]

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Planted:
        """A task at random."""
        word = np.zeros(VOCABULARY)
        word[rng.choice(VOCABULARY, CARRIERS, replace=False)] = rng.normal(0.0, 0.6, CARRIERS)
        pairs = {tuple(sorted(rng.choice(VOCABULARY, 2, replace=False).tolist())) for _ in range(PAIRS)}
        return cls(word, {(a, b): float(rng.normal(0.0, 0.8)) for a, b in sorted(pairs)})

    def shapley(self, ids: Sequence[int]) -> FloatArray:
        """Of each position; a word counts once, however often it is there, and equal words share."""
        at: dict[int, list[int]] = {}
        for k, i in enumerate(ids):
            at.setdefault(i, []).append(k)
        assert max(map(len, at.values())) == 1, "responses use each word once, so that this is a sum of unanimity games"
        out = np.array([self.word[i] for i in ids])
        for (a, b), weight in self.pair.items():
            if a in at and b in at:
                out[[at[a][0], at[b][0]]] += weight / 2
        return out

    def worth(self, there_BV: FloatArray) -> FloatArray:
        """Of responses as rows of ones and zeros, one column per word."""
        among = np.zeros((VOCABULARY, VOCABULARY))
        for (a, b), weight in self.pair.items():
            among[a, b] = weight
        return np.asarray(there_BV @ self.word + np.einsum("bv,vw,bw->b", there_BV, among, there_BV))


def sentence_words(rng: np.random.Generator) -> list[list[int]]:
    """Sentences of different words."""
    sizes = rng.integers(SHORTEST, LONGEST + 1, size=SENTENCES)
    ids = rng.permutation(VOCABULARY)[: sizes.sum()]
    return [part.tolist() for part in np.split(ids, np.cumsum(sizes)[:-1])]


def text_of(sentences: Sequence[Sequence[int]]) -> str:
    """The response as a reader sees it."""
    return " ".join(" ".join(f"w{i:03d}" for i in ids) + "." for ids in sentences)


def ids_of(text: str) -> list[int]:
    """Words as ids, and one gap for every five blanks: what a tokenizer makes of a text with holes."""
    out: list[int] = []
    for piece in re.findall(r"w\d{3}| {2,}", text):
        out += [int(piece[1:]) + 2] if piece[0] == "w" else [GAP] * max(1, len(piece) // 5)
    return out[:WIDTH]


class RewardModel(nn.Module):
    """A small transformer with a scalar head on the mean of its states."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.word = nn.Embedding(VOCABULARY + 2, hidden, padding_idx=0)
        layer = nn.TransformerEncoderLayer(hidden, 4, 2 * hidden, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        empty = ids == 0
        states = self.body(self.word(ids), src_key_padding_mask=empty)
        there = (~empty).unsqueeze(-1)
        total = (self.head(states) * there).sum(1)
        return total.squeeze(-1)


def padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Rows of ids as one tensor; one without any is a single gap."""
    width = max(1, max(map(len, rows)))
    return torch.tensor([[*row, *[0] * (width - len(row))] if row else [GAP] + [0] * (width - 1) for row in rows])


def trained(task: Planted, rng: np.random.Generator, steps: int, noise: float = 0.3) -> tuple[RewardModel, float]:
    """A reward model of the task, and its R² on whole held-out responses.

    It sees noisy scores. Half of its responses have words or whole sentences missing, so that holes are nothing new.
    """
    model = RewardModel()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    rows, worth = examples(task, rng, POOL, holes=0.5)
    ids, goals = padded(rows), torch.tensor(worth, dtype=torch.float32)
    goals += noise * torch.randn(len(goals))
    model.train()
    for _ in range(steps):
        picked = torch.from_numpy(rng.integers(POOL, size=64))
        loss = nn.functional.mse_loss(model(ids[picked]), goals[picked])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        rows, goal = examples(task, rng, 512, holes=0.0)
        told = model(padded(rows)).numpy()
    return model, float(1 - ((told - goal) ** 2).mean() / goal.var())


def examples(task: Planted, rng: np.random.Generator, many: int, *, holes: float) -> tuple[list[list[int]], FloatArray]:
    """Responses as ids, and what they are worth; a share of them has words or whole sentences missing."""
    rows, there = [], np.zeros((many, VOCABULARY))
    for k in range(many):
        sentences = sentence_words(rng)
        keep = rng.random() if rng.random() < holes else 1.0
        if rng.random() < 0.5:
            flags = [np.full(len(own), rng.random() < keep) for own in sentences]
        else:
            flags = [rng.random(len(own)) < keep for own in sentences]
        ids, kept = np.concatenate(sentences), np.concatenate(flags)
        rows.append(np.where(kept, ids + 2, GAP).tolist())
        there[k, ids[kept]] = 1.0
    return rows, task.worth(there)


class Scored(BaseResource):
    """The reward model as a resource: texts with blanks in, scores out, many at a time."""

    name = "planted reward model"
    kinds = frozenset({"score"})
    batch = 512

    def __init__(self, model: RewardModel, seed: int) -> None:
        self.model, self.identity, self.calls = model, f"planted:{seed}", 0

    def load(self, request: Request) -> Load:
        return Load()

    def answer(self, requests: Sequence[Request]) -> list[Any]:
        self.calls += len(requests)
        rows = [ids_of(with_holes(request)) for request in requests]
        with torch.no_grad():
            return [Reply(float(score)) for score in self.model(padded(rows))]


def with_holes(request: Request) -> str:
    """The response with as many blanks as the absent words had characters."""
    ask = request.ask
    assert isinstance(ask, Score)
    pieces = words(request.trajectory.steps[0].action or "")
    for span in ask.absent:
        for t in range(span.first, span.last):
            pieces[t] = " " * len(pieces[t])
    return "".join(pieces)


def rank_correlation(x: FloatArray, y: FloatArray) -> float:
    """Spearman's, NaN where one side does not vary."""
    a, b = ranks(x.round(12)), ranks(y.round(12))
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else float("nan")


def per_word(credit: Credit) -> FloatArray:
    """Credit of every word: a unit's is shared equally."""
    tokens = credit.to_tokens(spread="divide")
    return tokens.advantage_T[credit.units.unit_of_T >= 0]


def per_sentence(x_W: FloatArray, spans: Units) -> FloatArray:
    """Summed in each sentence, and spread over its words."""
    sentence = spans.unit_of_T[spans.unit_of_T >= 0]
    total = np.bincount(sentence, weights=x_W)
    return np.asarray((total / np.bincount(sentence))[sentence])


ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "words, 16 orders and their reverse": ("words", {"estimator": "permutation", "orders": 16, "max_evals": 10_000}),
    "words, balanced tree": ("words", {"estimator": "owen", "max_evals": 10_000}),
    "words, one order and its reverse": ("words", {"estimator": "permutation", "orders": 1}),
    "words, tree cut at 1/7": ("words", {"estimator": "owen", "max_evals": 210}),
    "sentences, exact": ("spans", {"estimator": "exact"}),
    "sentences, balanced tree": ("spans", {"estimator": "owen"}),
    "sentences, one order and its reverse": ("spans", {"estimator": "permutation", "orders": 1}),
}
FULL, TREE, CHEAP = "words, 16 orders and their reverse", "words, balanced tree", "words, one order and its reverse"
SPANS = "sentences, exact"
COLUMNS = ("words", "spans", "truth by word", "truth by span")


def one_seed(seed: int, responses: int, steps: int) -> dict[str, Any]:
    """Train one model and credit its responses with every estimator."""
    rng = np.random.default_rng([seed, 417])
    torch.manual_seed(seed)
    task = Planted.drawn(rng)
    began = time.process_time()
    model, fit = trained(task, rng, steps)
    took = time.process_time() - began
    drawn = [sentence_words(rng) for _ in range(responses)]
    batch = Batch.from_trajectories(
        [Trajectory([Step(observation="Write six sentences.", action=text_of(own))]) for own in drawn]
    )
    units = {"words": by_token(batch), "spans": by_segment(batch, by="sentence")}
    assert len(units["spans"]) == SENTENCES * responses
    of_word = units["words"].traj_of_S
    truth = np.concatenate([task.shapley([i for own in sentences for i in own]) for sentences in drawn])
    credit, evaluations = {}, {}
    for name, (cut, how) in ESTIMATORS.items():
        resource = Scored(model, seed)
        credit[name] = per_word(ap.assign("scar", units[cut], alpha=1.0, seed=seed, ask=Asker(resource), **how))
        evaluations[name] = resource.calls / responses
    rows = {}
    for name in ESTIMATORS:
        rows[name] = {
            "evaluations": evaluations[name],
            "spans": [both(credit[name], credit[FULL], units["spans"], of_word, n, True) for n in range(responses)],
            "words": [both(credit[name], credit[FULL], units["spans"], of_word, n, False) for n in range(responses)],
            "truth by span": [both(credit[name], truth, units["spans"], of_word, n, True) for n in range(responses)],
            "truth by word": [both(credit[name], truth, units["spans"], of_word, n, False) for n in range(responses)],
        }
    spent = time.process_time() - began - took
    sys.stdout.write(f"seed {seed}: R² {fit:.3f} after {took:.0f} s of CPU, credit in {spent:.0f} s\n")
    return {"seed": seed, "fit": fit, "rows": rows}


def both(x: FloatArray, y: FloatArray, spans: Units, of_word: Any, n: int, by_span: bool) -> float:
    """Rank correlation inside response n."""
    if by_span:
        x, y = per_sentence(x, spans), per_sentence(y, spans)
    own = of_word == n
    return rank_correlation(x[own], y[own])


def interval(by_seed: list[list[float]]) -> list[float]:
    """Mean over the responses of each seed, then over seeds, with Student's 95% interval over seeds."""
    means = [float(np.nanmean(responses)) for responses in by_seed]
    return [float(np.mean(means)), *map(float, t_interval(means))]


def summary(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mean and interval of every estimator and column."""
    out: dict[str, dict[str, Any]] = {}
    for name in ESTIMATORS:
        own: dict[str, Any] = {"evaluations": float(np.mean([r["rows"][name]["evaluations"] for r in results]))}
        for column in COLUMNS:
            own[column] = interval([r["rows"][name][column] for r in results])
        out[name] = own
    return out


def written(results: list[dict[str, Any]], table: dict[str, dict[str, Any]], responses: int, steps: int) -> str:
    """The page with the table."""
    fits = [r["fit"] for r in results]
    lines = [
        "# SCAR by sentence and by word",
        "",
        "Made by `python experiments/scar_spans_vs_tokens.py`. A reward model trained on a planted task; rank "
        f"correlation inside each response, mean over {responses} responses of each of {len(results)} seeds (a task, a "
        "model and responses each) with Student's 95% interval over seeds. The models explain "
        f"{min(fits):.2f} to {max(fits):.2f} of the variance of whole held-out responses ({steps} steps of training on "
        "noisy scores).",
        "",
        "*words* compares, word by word, with the words' own credit by 16 orders and their reverse: this is the claim "
        "as it is written. *spans* compares with what the words of each sentence got together. The last two columns "
        "compare with the task's own Shapley values in these two ways, so the first row tells what the yardstick is "
        "worth.",
        "",
        "| credit | evaluations per response | words | spans | truth by word | truth by span |",
        "|---|---|---|---|---|---|",
    ]
    for name, own in table.items():
        cells = ["{:.3f} ({:.3f} to {:.3f})".format(*own[column]) for column in COLUMNS]
        lines.append(f"| {name} | {own['evaluations']:.0f} | {' | '.join(cells)} |")
    lines += ["", "## What it says", "", verdict(table), ""]
    return "\n".join(lines)


def verdict(table: dict[str, dict[str, Any]]) -> str:
    """The claim and what the numbers say of it, in words."""
    spans, tree, full, cheap = (table[name] for name in (SPANS, TREE, FULL, CHEAP))
    (word, word_low, _), (span, span_low, _) = spans["words"], spans["spans"]
    cost = spans["evaluations"]
    told = [
        f"The claim: sentences reach the credit of words, at a rank correlation of 0.95 or more after spreading, at a "
        f"seventh of the evaluations or fewer. Sentences take {cost:.0f}, 1/{tree['evaluations'] / cost:.0f} of the "
        f"words' balanced tree and 1/{full['evaluations'] / cost:.0f} of the words' orders.",
        f"Word by word the claim {held(word, word_low)}: {word:.3f}. A sentence's credit is one number, and which of "
        "its words earned it is not in it."
        if word < 0.95
        else f"Word by word the claim {held(word, word_low)}: {word:.3f}.",
        f"Of what each sentence's words got together it {held(span, span_low)}: {span:.3f}.",
        f"The price of words is a matter of the estimator: one order and its reverse take {cheap['evaluations']:.0f} "
        f"evaluations and reach {cheap['words'][0]:.3f} word by word, {cheap['spans'][0]:.3f} by sentence.",
        f"Against the task's own values sentences stand at {spans['truth by span'][0]:.3f} by sentence and "
        f"{spans['truth by word'][0]:.3f} by word; words by 16 orders at {full['truth by span'][0]:.3f} and "
        f"{full['truth by word'][0]:.3f}.",
    ]
    return "\n\n".join(told)


def held(mean: float, low: float) -> str:
    """What an interval says of the threshold."""
    return "holds" if low >= 0.95 else "holds on average, and not beyond doubt" if mean >= 0.95 else "fails"


def main() -> None:
    """Run all seeds and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--responses", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--out", type=Path, default=Path("experiments/results"))
    parser.add_argument("--work", type=Path, default=Path("runs/scar_spans_vs_tokens"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    results = []
    for seed in range(args.seeds):
        kept = args.work / f"seed-{seed}-{args.responses}-{args.steps}.json"
        if not kept.is_file():
            made = one_seed(seed, args.responses, args.steps)
            with atomic_write(kept) as file:
                file.write(json.dumps(made).encode())
        results.append(json.loads(kept.read_text()))
    table = summary(results)
    args.out.mkdir(parents=True, exist_ok=True)
    text = written(results, table, args.responses, args.steps)
    (args.out / "scar_spans_vs_tokens.md").write_text(text, encoding="utf-8")
    fits = [result["fit"] for result in results]
    found = {"seeds": len(results), "responses": args.responses, "steps": args.steps, "fits": fits, "table": table}
    (args.out / "scar_spans_vs_tokens.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
