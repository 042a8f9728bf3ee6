"""Writes one small file of every kind that apportion keeps, as the present version writes it.

    python -m tests.compatibility.write FOLDER

Run it when a schema gets a new version, *before* the change, into `stored/<old version>`; the files stay for good, and
`test_stored_files.py` reads them with every later version.
"""

from __future__ import annotations

import sys
from pathlib import Path

import apportion as ap


def rollouts() -> list[ap.Trajectory]:
    """Two groups, each with a good and a bad rollout; every kind of field."""
    out = []
    for n in range(4):
        good = float(n % 2)
        first = ap.Step(
            observation="a locked door", action="take the key" if good else "wait",
            prompt_ids=[1, 2, 3], ids=[10, 11 + n % 2], logp=[-0.25, -1.5], ref_logp=[-0.5, -1.0],
            entropy=[0.5, 0.75], value=0.25, token_values=[0.25, 0.5],
            columns={"prm_reward": [0.0, 0.125]}, reward=0.0, rewards={"tool": 1.0}, state="door", agent="walker",
            actions=["take the key", "wait"], extra={"clicks": [1, 2]},
        )  # fmt: skip
        last = ap.Step(
            observation="still a door", action="open it", prompt_ids=[4, 5], ids=[12], logp=[-0.125], ref_logp=[-0.25],
            entropy=[0.25], value=0.5, token_values=[0.5], columns={"prm_reward": [0.5]}, reward=good,
            rewards={"tool": 0.0}, state="door again", agent="opener", actions=["open it"], terminated=True,
        )  # fmt: skip
        out.append(
            ap.Trajectory(
                [first, last], group=f"task-{n // 2}", id=f"r{n}", outcome=good, outcomes={"short": 0.5},
                final_observation="a room", reference="take the key, open it", meta={"seed": n, "ü": None},
            )
        )  # fmt: skip
    return out


def write(folder: Path) -> None:
    """Every kind; what needs an extra is left out without it."""
    from apportion.adapters.memory import write_memory
    from apportion.adapters.volume import assign_files
    from apportion.assign import assign_carrying
    from apportion.data.pairs import TurnPair, write_pairs
    from apportion.grams import starter, write_grams
    from apportion.resources.cache import Cache, Speed
    from apportion.resources.protocol import Reply

    folder.mkdir(parents=True, exist_ok=True)
    batch = ap.Batch.from_trajectories(rollouts())
    credit = ap.assign("gigpo + 0.5*grpo", ap.by_step(batch))
    for suffix in ("jsonl", "parquet", "arrow"):
        ap.write(folder / f"rollouts.{suffix}", batch)
    for suffix in ("jsonl", "parquet"):
        ap.write(folder / f"credit.{suffix}", credit)
    assign_files([folder / "rollouts.parquet"], folder / "volume", method="gigpo")
    write_grams(folder / "grams.json", starter())
    write_pairs(folder / "pairs.jsonl", [TurnPair(prompt_ids=(1, 2), chosen_ids=(10, 11), rejected_ids=(12,))])
    _, memory = assign_carrying("pooled", ap.by_step(batch))
    write_memory(folder, memory)
    cache = Cache(folder / "answers.cache")
    cache.put("score", "a key", Reply(0.75, 12, 3))
    cache.note_speed("somebody", Speed(2, 24, 6, 1.5))
    cache._db.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    cache.close()
    _write_torch(folder, batch)


def _write_torch(folder: Path, batch: ap.Batch) -> None:
    import torch

    from apportion.models.checkpoint import save_checkpoint

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    save_checkpoint(folder / "checkpoints", 7, model, optimizer, {"episodes": 14})
    trunk = ap.models.Backbone("small", vocabulary=20, tune="none")  # what is not tuned is not stored
    head = ap.models.ValueHead.fit(batch, backbone=trunk, level="step", epochs=1, held_out=0.0)
    head.save(folder / "model")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
