"""Reading rollouts from JSONL into a checked batch, against `json` line by line and the arrays that come of it.

The peer is what one writes without this library: parse a line, keep the text, turn lists of numbers into arrays, join
them at the end. It checks nothing. A second comparison holds our whole reader against parsing alone.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from apportion.bench.speed.batches import jsonl_of_steps, jsonl_of_tokens
from apportion.bench.speed.compare import Comparison, Contender, Peer, Run, under
from apportion.bench.speed.registry import Setting, case
from apportion.data import Batch, read
from apportion.data.simd import VARIABLE, fast_lines
from apportion.numerics import Array

JSON = "json, equal arrays"
MEGABYTES = 32


@case("reading")
def reading_cases(setting: Setting) -> Iterator[Comparison]:
    """Text of an agent's steps; token ids with log-probabilities."""
    size = MEGABYTES * 1_000_000 // (8 if setting.quick else 1)
    with tempfile.TemporaryDirectory() as folder:
        for kind, make, peer, value, floor in (
            ("text", jsonl_of_steps, _text_by_json, _text_values, 1.6),
            ("token arrays", jsonl_of_tokens, _tokens_by_json, _token_values, 4.0),
        ):
            whole, half = Path(folder) / f"{kind}.jsonl", Path(folder) / f"half of {kind}.jsonl"
            steps = make(whole, size)
            make(half, size // 2)
            yield _against_equal_arrays(kind, whole, half, steps, peer, value, floor)
            if kind == "text":
                yield _against_parsing(whole, steps)


def _against_equal_arrays(
    kind: str,
    whole: Path,
    half: Path,
    items: int,
    peer: Callable[[Path], tuple[Array, ...]],
    value: Callable[[Batch], tuple[Array, ...]],
    floor: float,
) -> Comparison:
    fast = fast_lines() is not None

    def values(batch: Batch) -> Array:
        return np.concatenate(value(batch))

    contenders = {
        "read": Contender(
            run=lambda: read(whole),
            value=values,
            floor={JSON: floor} if fast else {},
            half=lambda: read(half),
            compiled=False,
        )
    }
    if fast:
        contenders["read, standard library"] = Contender(
            run=without_simdjson(lambda: read(whole)), value=values, compiled=False
        )
    return Comparison(
        kernel="JSONL to a batch" + ("" if fast else " (pysimdjson absent: pip install 'apportion[fast]')"),
        batch=f"{kind}, {whole.stat().st_size / 1e6:.0f} MB",
        items=items,
        item="step" if kind == "text" else "token",
        peers={JSON: Peer(lambda: peer(whole), np.concatenate)},
        contenders=contenders,
        tolerance=0.0,
    )


def _against_parsing(path: Path, steps: int) -> Comparison:
    return Comparison(
        kernel="JSONL to a batch",
        batch=f"text, {path.stat().st_size / 1e6:.0f} MB",
        items=steps,
        item="step",
        peers={
            "json.loads alone": Peer(
                lambda: list(_records(path)),
                lambda records: np.array([step["reward"] for record in records for step in record["steps"]]),
            )
        },
        contenders={"read": Contender(run=lambda: read(path), value=lambda batch: batch.reward_S, compiled=False)},
        tolerance=0.0,
    )


def without_simdjson(run: Run) -> Run:
    """The same call with the standard library's parser."""
    return under(VARIABLE, "0", run)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as file:
        for line in file:
            record = json.loads(line)
            if "steps" in record:
                yield record


def _text_by_json(path: Path) -> tuple[Array, ...]:
    """Words that each step saw and wrote, as masks over all words; rewards; returns."""
    size: list[int] = []
    reward: list[float] = []
    outcome: list[float] = []
    state: list[str] = []
    for record in _records(path):
        outcome.append(record["outcome"])
        for step in record["steps"]:
            seen, said = step["observation"], step["action"]
            size.append(len(seen.split()) + seen[-1:].isspace())
            size.append(len(said.split()) + said[-1:].isspace())
            reward.append(step["reward"])
            state.append(seen)
    sizes = np.array(size)
    return (
        np.repeat(np.arange(len(size)) % 2 == 1, sizes),
        np.repeat(np.arange(len(reward)), sizes.reshape(-1, 2).sum(axis=1)),
        np.array(reward),
        np.array(outcome),
    )


def _text_values(batch: Batch) -> tuple[Array, ...]:
    return batch.sampled_T, batch.step_of_T, batch.reward_S, batch.outcome_N


def _tokens_by_json(path: Path) -> tuple[Array, ...]:
    """Ids, which of them were sampled, and their log-probabilities; returns."""
    ids: list[Array] = []
    logp: list[Array] = []
    size: list[int] = []
    outcome: list[float] = []
    for record in _records(path):
        outcome.append(record["outcome"])
        for step in record["steps"]:
            ids += [np.array(step["prompt_ids"], np.int64), np.array(step["ids"], np.int64)]
            size += [len(ids[-2]), len(ids[-1])]
            logp.append(np.array(step["logp"], np.float64))
    sampled = np.repeat(np.arange(len(size)) % 2 == 1, size)
    spread = np.zeros(len(sampled))
    spread[sampled] = np.concatenate(logp)
    return np.concatenate(ids), sampled, spread, np.array(outcome)


def _token_values(batch: Batch) -> tuple[Array, ...]:
    assert batch.logp_T is not None
    return batch.ids_T, batch.sampled_T, batch.logp_T, batch.outcome_N
