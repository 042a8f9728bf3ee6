"""A credit method of one's own: one function, checked by the library's contract, held against exact truth.

    python examples/add_a_method.py

GRPO whose baseline leaves the best rollout of the group out. In a package of yours it becomes known to the
command line through the entry point `apportion.methods`. Needs nothing but the base install.
"""

import numpy as np

import apportion as ap
from apportion.bench.compare.world import World
from apportion.testing import check_method


@ap.register(
    "example/without_best", unit="episode", family="example", reads=("reward_S",), source="none",
    holds=("scale_equivariant", "shift_invariant", "local_to_group"),
)  # fmt: skip
def without_best(units: ap.Units) -> ap.Credit:
    """Each trajectory's outcome against the mean of its group without the group's best."""
    baseline_N = np.zeros(len(units.group_of_N))
    for group in np.unique(units.group_of_N):
        members = np.flatnonzero((units.group_of_N == group) & units.valid_N)
        outcomes = np.sort(units.outcome_N[members])
        baseline_N[members] = outcomes[:-1].mean() if len(members) > 1 else outcomes.sum()
    return ap.Credit((units.outcome_N - baseline_N)[units.traj_of_S], units)


def main():
    check_method("example/without_best")  # purity, forks, unknown members, parts, the laws that it says it holds, …
    print("the contract holds")
    world = World("keydoor", "weak", budget=4000, n=8, seeds=1)  # rollouts of a game whose truth is known
    rollouts, batch = world.batches[0]
    for method in ("example/without_best", "grpo", "grpo + 0.5*example/without_best"):
        credit = ap.assign(method, ap.by_step(batch))
        corr = np.corrcoef(credit.advantage_S, world.right(rollouts))[0, 1]
        print(f"{method}: correlation with the exact advantage {corr:.3f}")
    return credit


if __name__ == "__main__":
    main()
