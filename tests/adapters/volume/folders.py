"""Folders of rollouts for the tests of volume, and what is in the files that come out."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from apportion.data import Batch, write
from apportion.testing import random_trajectories


def rollouts(seed, groups=12, **changes):
    """Random rollouts of some groups, each group's together."""
    out = []
    while len({t.group for t in out}) < groups:
        drawn = random_trajectories(seed + 1000 * len(out), columns=("prm_logp", "prob_square"))
        label = len(out)
        out += [
            dataclasses.replace(
                t,
                id=f"{seed}-{label}-{t.id}",
                group=f"{seed}-{label}-{t.group}",
                steps=[
                    dataclasses.replace(step, turn=k, rewards=_more(step.rewards), **changes)
                    for k, step in enumerate(t.steps)
                ],
            )
            for t in sorted(drawn, key=lambda t: str(t.group))
        ]
    return out


def _more(rewards):
    """The named parts, some of them under the names that methods ask for by default."""
    return rewards and {**rewards, **dict.fromkeys(("score", "promise", "advantage"), rewards["work"])}


def folder_of(path, trajectories, files=3):
    """Write them into a few Parquet files, each group whole in one."""
    path.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(t.group for t in trajectories))
    for k in range(files):
        mine = set(names[k::files])
        write(path / f"part-{k}.parquet", [t for t in trajectories if t.group in mine])
    return path


def in_order(folder):
    """All rollouts of a folder, in the order of its files."""
    from apportion.data import read

    return [t for path in sorted(Path(folder).glob("*.parquet")) for t in read(path)]


def flat(folder, column):
    """A column of credit of all files, end to end; None where it is null."""
    rows = [row for path in sorted(Path(folder).rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return [x for row in rows for x in (row[column] if row[column] is not None else [None])]


def parts(folder):
    """The parts of credit, end to end, by name."""
    out = {}
    for path in sorted(Path(folder).rglob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            for name, values in (row.get("parts") or {}).items():
                out.setdefault(name, []).extend(values)
    return {name: np.array(values) for name, values in out.items()}


def tables(folder):
    """What is in the files of a folder, whatever their row groups."""
    return {path.name: pq.read_table(path).to_pylist() for path in sorted(Path(folder).rglob("*.parquet"))}


def contents(folder):
    """The bytes of the files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(Path(folder).rglob("*.parquet"))}


def batch_of(folder):
    """All rollouts of a folder as one batch."""
    return Batch.from_trajectories(in_order(folder))
