"""Credit as sequences of tokens, the shape that trainers without a notion of a rollout take.

    steps   p0 a0 | o1 a1 | q2 a2 (its prompt was rewritten)   →   p0 a0 o1 a1      q2 a2

A step whose context extends the tokens before it goes on with their sequence; any other begins one of its own, with its
whole prompt in front. Each sampled token is in exactly one sequence as such, and in others as context.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from apportion.credit import Credit
from apportion.errors import DataError
from apportion.numerics import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """L tokens of one rollout.

    Attributes:
        traj: the rollout's place in the batch. steps: which of its steps were sampled here.
        ids_L: token ids. sampled_L: what the policy sampled here.
        logp_L: log-probability under the sampler, nats, 0 on context; None where a step has none.
        advantage_L, weight_L: as in `TokenAdvantages`.
    """

    traj: int
    steps: tuple[int, ...]
    ids_L: IntArray
    sampled_L: BoolArray
    logp_L: FloatArray | None
    advantage_L: FloatArray
    weight_L: FloatArray


def sequences(credit: Credit, *, spread: str = "copy") -> Iterator[Sequence]:
    """The sequences of every rollout, in order.

    Args:
        credit: of rollouts with token ids. spread: as in `Credit.to_tokens`.

    Raises:
        DataError: rollouts of text alone, whose words no trainer knows.
    """
    batch = credit.units.batch
    if not batch.has_ids:
        raise DataError("these rollouts are text without token ids, and a trainer needs the ids that were sampled")
    for n, (trajectory, part) in enumerate(zip(batch, credit.to_tokens(spread=spread).split(), strict=True)):
        sizes = [
            (0 if s.prompt_ids is None else len(s.prompt_ids), 0 if s.ids is None else len(s.ids))
            for s in trajectory.steps
        ]
        ends = np.cumsum([context + own for context, own in sizes]).tolist()
        logp = np.zeros(len(part.ids))
        chains: list[list[int]] = []  # steps whose tokens follow one another
        before: list[list[int]] = []  # the steps that are context of each
        path: list[list[int]] = []  # of each step: the steps that it extends, itself last
        for s, step in enumerate(trajectory.steps):
            parent = s - 1 if step.parent is None else step.parent
            past = [] if step.fresh or parent < 0 else path[parent]
            path.append([*past, s])
            if past and chains and chains[-1][-1] == parent:
                chains[-1].append(s)
            else:
                chains.append([s])
                before.append(past)
            if step.logp is not None and step.ids is not None:
                logp[ends[s] - len(step.ids) : ends[s]] = step.logp
        for steps, past in zip(chains, before, strict=True):
            at = np.concatenate([np.arange(ends[s] - sum(sizes[s]), ends[s]) for s in (*past, *steps)])
            own = np.arange(len(at)) >= sum(sum(sizes[s]) for s in past)
            told = all(trajectory.steps[s].logp is not None for s in steps)
            yield Sequence(
                n,
                tuple(steps),
                part.ids[at],
                part.sampled[at] & own,
                np.where(own & part.sampled[at], logp[at], 0.0) if told else None,
                np.where(own, part.advantage[at], 0.0),
                np.where(own, part.weight[at], 0.0),
            )
