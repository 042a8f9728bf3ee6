"""The planted task of `scar_spans_vs_tokens`, and a reward model trained on it, as a resource."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from apportion.asks import Score
from apportion.data.words import words
from apportion.numerics import FloatArray
from apportion.resources import BaseResource, Load, Reply, Request

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
