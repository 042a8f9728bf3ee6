"""One task under one policy: what is exactly true of it, and the same sampled rollouts for every method."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np

from apportion.bench.exact import Exact, Rollouts, advantage_of, exact, improve, policy_gradient, sample, uniform
from apportion.bench.oracle import told
from apportion.bench.tasks import task
from apportion.bench.ties import cores, tied, tied_gradient, ties
from apportion.data import Batch
from apportion.errors import ConfigError
from apportion.numerics import FloatArray, IntArray

POLICIES = ("weak", "strong")


@dataclasses.dataclass(frozen=True)
class World:
    """A task, its policy, and ``seeds`` independent draws of rollouts.

    The policy goes by what it reads (`tied`), and is of the task's first or last strength. Rollouts come in groups of
    ``n`` from one start state; a method gets as many as its budget allows, always the first ones.
    """

    name: str
    policy: str
    budget: int
    n: int
    seeds: int

    @cached_property
    def truth(self) -> Exact:
        """Values and advantages."""
        if self.policy not in POLICIES:
            raise ConfigError(f"bench: policy is {self.policy!r}; give {' or '.join(map(repr, POLICIES))}")
        one = task(self.name)
        strength = one.strengths[0 if self.policy == "weak" else -1]
        pi = improve(one.table, uniform(one.table), strength)
        return exact(one.table, tied(one.table, pi))

    @cached_property
    def place_K(self) -> IntArray:
        """Where a policy that reads texts has a logit for each slot."""
        return ties(self.truth.table)

    @cached_property
    def core_K(self) -> IntArray:
        """True state and action of each slot, without stamps."""
        return cores(self.truth.table)

    @cached_property
    def goal(self) -> FloatArray:
        """The exact gradient in these logits."""
        return tied_gradient(policy_gradient(self.truth), self.place_K)

    @cached_property
    def drawn(self) -> tuple[Rollouts, ...]:
        """Rollouts of each seed: more than the budget can pay."""
        groups = self.budget // self.n + 1
        return tuple(
            sample(self.truth.table, self.truth.policy, groups=groups, n=self.n, rng=np.random.default_rng([b, 77]))
            for b in range(self.seeds)
        )

    @cached_property
    def batches(self) -> tuple[tuple[Rollouts, Batch], ...]:
        """What a method gets that asks nobody: the whole groups that the budget pays for, at least one, per seed."""
        out = []
        for b in range(self.seeds):
            ends = np.cumsum(np.bincount(self.drawn[b].traj_of_S))[self.n - 1 :: self.n]
            groups = max(1, int(np.searchsorted(ends, self.budget, side="right")))
            out.append(self.first(b, groups * self.n))
        return tuple(out)

    def first(self, seed: int, rollouts: int, *, ids: bool = True) -> tuple[Rollouts, Batch]:
        """The first rollouts of a seed, as arrays and as the library sees them, see `told`."""
        drawn = self.drawn[seed]
        keep = drawn.traj_of_S < rollouts
        columns = {
            f.name: getattr(drawn, f.name)[keep] for f in dataclasses.fields(drawn) if f.name.endswith(("_S", "of_S"))
        }
        few = dataclasses.replace(drawn, **columns, group_of_N=drawn.group_of_N[:rollouts])
        return few, told(self.truth, few, ids=ids)

    def right(self, rollouts: Rollouts) -> FloatArray:
        """The exact advantage of each step."""
        return advantage_of(self.truth, rollouts)
