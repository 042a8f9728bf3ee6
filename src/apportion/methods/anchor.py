"""Anchor: each unit's return to go against the units that acted in the same state of the same group.

    A[s] = G[s] - mean_anchor G          G[s] = sum_k gamma^k r[s+k]

What counts as one state is decided by the cut: ``by_step(batch, state="normalised")``, see `StateRule`.

Use       as a summand: it is GiGPO's step part. Alone it is 0 wherever a state was visited once.
Source    arXiv:2505.10978, eqs. 5-7.
Compared  by reading, with verl-agent gigpo/core_gigpo.py, `step_norm_reward`.
Deviates  1. scale="std" adds no epsilon; the code adds 1e-6 (``epsilon``).
          2. Equal texts are one state only inside a group; ROLL and Trinity pool them over the batch
             (``scope="batch"``).
          3. The mean holds the unit itself, as in the code; the paper calls it leave-one-out, and so was the code's
             first version (``baseline="others"``).
          4. A penalty for an action that was not valid belongs into the rewards; the code adds it after discounting,
             to its own step only (``undiscounted``).
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.groups import return_to_go
from apportion.methods.notes import size_histogram
from apportion.methods.registry import register
from apportion.numerics import BoolArray, FloatArray, IntArray, centre, labels, seg_count, seg_mean, seg_std, to_go
from apportion.units import Units


@register(
    "anchor",
    unit="step",
    units=("step", "turn"),
    family="monte-carlo",
    reads=("reward_S", "state_S"),
    source="arXiv:2505.10978",
    holds=("scale_equivariant", "local_to_group", "relabel_invariant"),
    chain=True,
    wide={"scope": ("batch",)},
)
def anchor(
    units: Units,
    *,
    gamma: float = 0.95,
    scale: str = "none",
    ddof: int = 1,
    repeats: str = "all",
    epsilon: float = 0.0,
    baseline: str = "members",
    scope: str = "group",
    undiscounted: str = "",
) -> Credit:
    """Credit each unit with what followed it, compared in its anchor state.

    Args:
        units: S steps or turns. Reads reward_S (reward units) and state_S (equal keys are one anchor state,
            compared inside one group only).
        gamma: discount per unit, in [0, 1].
        scale: "none" keeps reward units; "std" divides by the anchor group's std (no unit).
        ddof: of that std.
        repeats: "all" counts every visit to a state, as the paper does, so that a trajectory stuck in one state is
            compared with its own copies; "once" gives each trajectory one vote per state, its mean return there.
        epsilon: added to the std, for parity with a host.
        baseline: mean of all "members" of the state, or of the "others" (votes of other trajectories with
            ``repeats="once"``); the latter for ``scale="none"`` only.
        scope: equal keys are one state inside a "group", or over the "batch", for parity.
        undiscounted: named part of the rewards (Step.rewards) that joins the return of its own step alone, after
            discounting; "" = none.

    Returns:
        Credit; units without company get 0 and are counted in the notes.
    """
    advantage_S, notes = anchor_part(
        units,
        gamma=gamma,
        scale=scale,
        ddof=ddof,
        repeats=repeats,
        epsilon=epsilon,
        baseline=baseline,
        scope=scope,
        late_S=late_part(units, "anchor", undiscounted),
    )
    return Credit(advantage_S, units, notes=notes)


def late_part(units: Units, who: str, name: str) -> FloatArray | None:
    """The named part of the rewards, 0 where none was told; None without a name."""
    if not name:
        return None
    units.require(who, f"reward_parts:{name}")
    return np.nan_to_num(units.reward_parts[name])


def anchor_part(
    units: Units,
    *,
    gamma: float,
    scale: str,
    ddof: int,
    repeats: str,
    epsilon: float,
    baseline: str,
    scope: str,
    late_S: FloatArray | None,
) -> tuple[FloatArray, dict[str, int | float | str]]:
    """The step part and its notes: states and their sizes, units without company, visits that repeat one's own."""
    for name, value, choices in (
        ("scale", scale, ("none", "std")),
        ("repeats", repeats, ("all", "once")),
        ("baseline", baseline, ("members", "others")),
        ("scope", scope, ("group", "batch")),
    ):
        if value not in choices:
            raise ConfigError(f"anchor: {name} is {value!r}; give {choices[0]!r} or {choices[1]!r}")
    if baseline == "others" and scale == "std":
        raise ConfigError("anchor: baseline='others' has no std; give scale='none', or baseline='members'")
    assert units.state_S is not None
    valid_S = units.valid_S
    anchor_S = labels(units.state_S) if scope == "batch" else labels(units.group_of_S, units.state_S)
    if scale == "std":  # a std would blow up what is left of rewards that cancel
        return_S = return_to_go(units.reward_S, units.traj_of_S, gamma=gamma)
    else:
        return_S = to_go(units.reward_S, units.traj_of_S, gamma=gamma)
    if late_S is not None:
        return_S = return_S + late_S
    vote_S = labels(anchor_S, units.traj_of_S)  # a trajectory in a state
    visits_A = seg_count(anchor_S, where=valid_S)
    if repeats == "once":
        advantage_S, votes_A = _by_vote(
            return_S, anchor_S, vote_S, valid_S, scale, ddof, epsilon, others=baseline == "others"
        )
    else:
        advantage_S = centre(
            return_S,
            anchor_S,
            scale=scale,
            ddof=ddof,
            epsilon=epsilon,
            where=valid_S,
            leave_one_out=baseline == "others",
        )
        votes_A = visits_A
    total = int(np.count_nonzero(valid_S))
    alone = int(np.count_nonzero(votes_A[anchor_S[valid_S]] == 1))
    notes: dict[str, int | float | str] = {
        "states": int(np.count_nonzero(visits_A)),
        "state_sizes": size_histogram(visits_A),
        "units_without_company": alone,
        "share_with_company": (total - alone) / total if total else 0.0,
        "own_repeats": total - int(np.count_nonzero(seg_count(vote_S, where=valid_S))),
    }
    return advantage_S, notes


def _by_vote(
    return_S: FloatArray,
    anchor_S: IntArray,
    vote_S: IntArray,
    valid_S: BoolArray,
    scale: str,
    ddof: int,
    epsilon: float,
    *,
    others: bool,
) -> tuple[FloatArray, IntArray]:
    """Each return against the votes in its state, and the number of these votes."""
    n = int(anchor_S.max()) + 1 if len(anchor_S) else 0
    anchor_of_V = np.zeros(int(vote_S.max()) + 1 if len(vote_S) else 0, dtype=np.int64)
    anchor_of_V[vote_S] = anchor_S
    valid_V = np.zeros(len(anchor_of_V), dtype=bool)
    valid_V[vote_S] = valid_S
    vote_V = seg_mean(return_S, vote_S, n=len(anchor_of_V))
    votes_A = seg_count(anchor_of_V, where=valid_V, n=n)
    mean_A = seg_mean(vote_V, anchor_of_V, where=valid_V, n=n)
    mean_S = mean_A[anchor_S]
    if others:
        mean_S = mean_S + (mean_S - vote_V[vote_S]) / np.maximum(votes_A[anchor_S] - 1, 1)
    divisor_A = np.ones(n)
    if scale == "std":
        std_A = seg_std(vote_V, anchor_of_V, ddof=ddof, where=valid_V, n=n)
        divisor_A = np.where(std_A > 0, std_A + epsilon, np.inf)
    # one voter, or the same return in every visit: nothing to tell apart, rounding included
    constant_A = seg_std(return_S, anchor_S, ddof=0, where=valid_S, n=n) == 0
    divisor_A[(votes_A < 2) | constant_A] = np.inf
    return np.where(valid_S, (return_S - mean_S) / divisor_A[anchor_S], 0.0) + 0.0, votes_A
