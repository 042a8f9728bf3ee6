"""GiGPO piece by piece, then whole, against verl-agent."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from apportion.assign import assign
from apportion.bench.speed.batches import StepRows, step_rows
from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.peers import Peers, quietly
from apportion.bench.speed.registry import Setting, case
from apportion.data import Batch, Step, Trajectory
from apportion.numerics import Array, IntArray, centre, labels, to_go
from apportion.units import Units, by_step

PEER = "verl-agent"
GAMMA = 0.95
EPSILON = 1e-6


@case("gigpo")
def gigpo_cases(setting: Setting) -> Iterator[Comparison]:
    """Step returns, exact grouping, step normalisation, the whole advantage on tokens."""
    rows = step_rows(2 if setting.quick else 16, 8, 50)
    peer: Any = setting.beside_torch(Peers.gigpo)
    yield _returns(rows, peer)
    yield _grouping(rows, peer)
    yield _step_norm(rows, peer)
    yield _whole(rows, peer, tokens=64 if setting.quick else 512)


def step_returns(rows: StepRows) -> Array:
    """Rows in any order: brought together by trajectory, discounted, and put back."""
    traj = labels(rows.traj_R)
    order = np.argsort(traj, kind="stable")
    out = np.empty(len(traj))
    out[order] = to_go(rows.reward_R[order], traj[order], gamma=GAMMA)
    return out


def _returns(rows: StepRows, peer: Any) -> Comparison:
    half = rows.first_half()

    def theirs() -> Peer | str:
        if isinstance(peer, str):
            return peer
        import torch

        batch = SimpleNamespace(
            non_tensor_batch={
                "rewards": rows.reward_R.astype(object),
                "traj_uid": rows.traj_R,
                "active_masks": np.ones(len(rows.reward_R), dtype=object),
            },
            batch={"input_ids": torch.zeros(1)},
        )
        return Peer(lambda: peer.compute_step_discounted_returns(batch, GAMMA), lambda result: result.numpy())

    return _comparison(
        "GiGPO step returns",
        rows,
        theirs(),
        Contender(
            run=lambda: step_returns(rows),
            value=lambda result: result,
            floor={PEER: 200.0},
            half=lambda: step_returns(half),
            steepest=2.3,
        ),
    )


def _grouping(rows: StepRows, peer: Any) -> Comparison:
    half = rows.first_half()
    theirs: Peer | str = peer
    if not isinstance(peer, str):
        build = quietly(peer.build_step_group)
        theirs = Peer(lambda: build(rows.state_R, rows.task_R), lambda result: labels(result))
    return _comparison(
        "GiGPO exact grouping",
        rows,
        theirs,
        Contender(
            run=lambda: labels(rows.task_R, rows.state_R),
            value=lambda result: result,
            floor={PEER: 5.0},
            half=lambda: labels(half.task_R, half.state_R),
            compiled=False,
        ),
    )


def _step_norm(rows: StepRows, peer: Any) -> Comparison:
    anchor = labels(rows.task_R, rows.state_R)
    names = np.array([f"group-{i:06d}" for i in anchor], dtype=object)
    x = np.random.default_rng(0).standard_normal(len(anchor))
    half = len(x) // 2

    def ours(names: Array, x: Array) -> Array:
        return centre(x, labels(names), scale="std", epsilon=EPSILON)

    def theirs() -> Peer | str:
        if isinstance(peer, str):
            return peer
        import torch

        scores, mask = torch.from_numpy(x.astype(np.float32)), torch.ones(len(x), 1)
        return Peer(
            lambda: peer.step_norm_reward(scores, mask, names, remove_std=False),
            lambda result: result[:, 0].numpy(),
        )

    return _comparison(
        "GiGPO step norm",
        rows,
        theirs(),
        Contender(
            run=lambda: ours(names, x),
            value=lambda result: result,
            floor={PEER: 80.0},
            half=lambda: ours(names[:half], x[:half]),
        ),
        tolerance=2e-3,  # a float32 mean of equal numbers leaves a residue that the peer divides by its std
    )


def _whole(rows: StepRows, peer: Any, *, tokens: int) -> Comparison:
    """``assign`` and ``to_tokens`` on a prepared batch, against the peer's function on its prepared tensors.

    Equal because every trajectory has the same number of steps (the peer's group mean counts steps) and its
    default mode divides by no std. Ours also makes the step returns; the peer is given them.
    """
    units, half = (_units(r, tokens) for r in (rows, rows.first_half()))

    def run(units: Units) -> Array:
        return assign("gigpo", units, gamma=GAMMA).to_tokens().advantage_T

    def theirs() -> Peer | str:
        if isinstance(peer, str):
            return peer
        import torch

        outcome = np.repeat(rows.reward_R[rows.steps - 1 :: rows.steps], rows.steps)
        reward = torch.zeros(len(outcome), tokens)
        reward[:, -1] = torch.from_numpy(outcome)
        mask = torch.ones_like(reward)
        returns = torch.from_numpy(step_returns(rows).astype(np.float32))
        whole = quietly(peer.compute_gigpo_outcome_advantage)
        return Peer(
            lambda: whole(reward, returns, mask, rows.state_R, rows.task_R, rows.traj_R),
            lambda result: result[0].numpy().reshape(-1),
        )

    return Comparison(
        kernel="GiGPO whole, on tokens",
        batch=f"{len(rows.reward_R):,} steps × {tokens}",
        items=len(rows.reward_R) * tokens,
        item="token",
        peers={PEER: theirs()},
        contenders={
            "assign and to_tokens": Contender(
                run=lambda: run(units),
                value=lambda result: result,
                floor={PEER: 25.0},
                half=lambda: run(half),
            )
        },
    )


def _units(rows: StepRows, tokens: int) -> Units:
    ids: IntArray = np.arange(tokens)
    steps = [
        Step(state=state, reward=float(reward), ids=ids, prompt_ids=ids[:0])
        for state, reward in zip(rows.state_R, rows.reward_R, strict=True)
    ]
    k = rows.steps
    return by_step(
        Batch.from_trajectories(
            Trajectory(steps[at : at + k], group=str(rows.task_R[at])) for at in range(0, len(steps), k)
        )
    )


def _comparison(
    kernel: str, rows: StepRows, peer: Peer | str, contender: Contender, *, tolerance: float = 1e-5
) -> Comparison:
    return Comparison(
        kernel=kernel,
        batch=f"{len(rows.reward_R):,} steps",
        items=len(rows.reward_R),
        item="step",
        peers={PEER: peer},
        contenders={"ours": contender},
        tolerance=tolerance,
    )
