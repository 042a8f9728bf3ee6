"""Do spans reach the credit that SCAR gives token by token, at a seventh of its evaluations?

A reward model is trained on a planted task: responses of six sentences whose worth is a sum over words and over pairs
of words, in one sentence or in two. So the Shapley value of every word is known. SCAR then credits held-out responses
with the trained model, by word and by sentence, and the two are compared by rank correlation inside each response:

    spans    credit per sentence, spread over its words, against the words' own credit summed in each sentence and
             spread alike: do the sentences get what their words got?
    words    the same against the words' own credit, word by word: what is lost inside sentences is held against it

Run it from the repository's root with the extra ``train``:  ``python experiments/scar_spans_vs_tokens.py``
It writes ``experiments/results/scar_spans_vs_tokens.md`` and ``.json``.
"""

from __future__ import annotations

import argparse
import json
import re
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
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
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
FULL, TREE = "words, 16 orders and their reverse", "words, balanced tree"


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
    print(f"seed {seed}: R² {fit:.3f} after {took:.0f} s of CPU, credit in {spent:.0f} s")  # noqa: T201
    return {"seed": seed, "fit": fit, "rows": rows}


def both(x: FloatArray, y: FloatArray, spans: Units, of_word: Any, n: int, by_span: bool) -> float:
    """Rank correlation inside response n."""
    if by_span:
        x, y = per_sentence(x, spans), per_sentence(y, spans)
    own = of_word == n
    return rank_correlation(x[own], y[own])


def interval(by_seed: list[list[float]], rng: np.random.Generator) -> tuple[float, float, float]:
    """Mean over responses with a 95% percentile bootstrap that draws seeds, then responses of each."""
    table = np.array(by_seed)
    draws = []
    for _ in range(2000):
        rows = table[rng.integers(len(table), size=len(table))]
        picks = rng.integers(table.shape[1], size=table.shape)
        draws.append(np.nanmean(np.take_along_axis(rows, picks, axis=1)))
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(np.nanmean(table)), float(low), float(high)


def summary(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mean and interval of every estimator and column."""
    out: dict[str, dict[str, Any]] = {}
    for name in ESTIMATORS:
        rng = np.random.default_rng(1)
        own: dict[str, Any] = {"evaluations": float(np.mean([r["rows"][name]["evaluations"] for r in results]))}
        for column in ("spans", "words", "truth by span", "truth by word"):
            own[column] = interval([r["rows"][name][column] for r in results], rng)
        out[name] = own
    return out


def written(results: list[dict[str, Any]], table: dict[str, dict[str, Any]], responses: int, steps: int) -> str:
    """The page with the table."""
    fits = [r["fit"] for r in results]
    lines = [
        "# SCAR by sentence and by word",
        "",
        "Made by `python experiments/scar_spans_vs_tokens.py`. A reward model trained on a planted task; rank",
        f"correlation inside each response, mean over {responses} responses of each of {len(results)} seeds (a task,",
        "a model and responses each), with 95% bootstrap intervals over seeds and responses. The models explain",
        f"{min(fits):.2f} to {max(fits):.2f} of the variance of whole held-out responses ({steps} steps of training on",
        "noisy scores).",
        "",
        "*spans* and *words* compare with the words' credit by 16 orders and their reverse: *spans* with its sum in",
        "each sentence, *words* word by word. The last two columns compare with the task's own Shapley values in these",
        "two ways.",
        "",
        "| credit | evaluations per response | spans | words | truth by span | truth by word |",
        "|---|---|---|---|---|---|",
    ]
    for name, own in table.items():
        cells = [f"{m:.3f} [{lo:.3f}, {hi:.3f}]" for m, lo, hi in list(own.values())[1:]]
        lines.append(f"| {name} | {own['evaluations']:.0f} | {' | '.join(cells)} |")
    exact, tree = table["sentences, exact"], table[TREE]
    ratio = tree["evaluations"] / exact["evaluations"]
    lines += ["", "## What it says", "", verdict(table, ratio), ""]
    return "\n".join(lines)


def verdict(table: dict[str, dict[str, Any]], ratio: float) -> str:
    """The claim and what the numbers say of it, in words."""
    exact = table["sentences, exact"]
    (span, low, _), (word, _, _) = exact["spans"], exact["words"]
    cheap = f"Sentences need {exact['evaluations']:.0f} evaluations, 1/{ratio:.0f} of the words' balanced tree"
    cheap += f" and 1/{table[FULL]['evaluations'] / exact['evaluations']:.0f} of the words' orders. "
    sums = "reach" if low >= 0.95 else "reach on average, but not beyond doubt," if span >= 0.95 else "do not reach"
    told = f"They {sums} a rank correlation of 0.95 with what their words got together ({span:.3f}). "
    inside = f"Word by word they {'do too' if word >= 0.95 else 'do not'} ({word:.3f}): "
    lost = "a sentence's credit is one number, and which of its words earned it is not in it."
    return cheap + told + inside + (lost if word < 0.95 else "the words of a sentence earn alike here.")


def main() -> None:
    """Run all seeds and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--responses", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--out", type=Path, default=Path("experiments/results"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = [one_seed(seed, args.responses, args.steps) for seed in range(args.seeds)]
    table = summary(results)
    args.out.mkdir(parents=True, exist_ok=True)
    text = written(results, table, args.responses, args.steps)
    (args.out / "scar_spans_vs_tokens.md").write_text(text, encoding="utf-8")
    (args.out / "scar_spans_vs_tokens.json").write_text(
        json.dumps({"table": table, "seeds": results}), encoding="utf-8"
    )
    print(text)  # noqa: T201


if __name__ == "__main__":
    main()
