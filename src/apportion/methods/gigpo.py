"""GiGPO: episode credit inside a task group plus step credit inside an anchor state.

    A[s] = (R_i - mean_group R) + w (G[s] - mean_anchor G)      G[s] = sum_k gamma^k r[s+k]

Use       when states recur inside a group (games, web pages, tools). With no repeats it is GRPO.
Source    arXiv:2505.10978, eqs. 3 and 5-8. It is the sum ``dr_grpo + w*anchor`` under one name.
Compared  by reading, with verl-agent gigpo/core_gigpo.py, modes "mean_norm" and "mean_std_norm".
Deviates  1. A trajectory counts once in the group mean; the code counts it once per step (``votes="row"``).
          2. A lone trajectory gets episode part 0; the code returns its raw outcome (``group_of_one="raw"``).
          3. scale="std" adds no epsilon; the code adds 1e-6 (``epsilon``).
          4. Equal states are equal texts; the code's similarity mode is the cut ``by_step(batch, state="blocks")``.
          5. Ports pool states over the batch (``scope="batch"``); the code's first version left the step itself out of
             the mean (``baseline="others"``).
          6. A penalty for an action that was not valid belongs into the rewards; the code adds it after discounting,
             to its own step only, and to that row's outcome (``undiscounted``, with ``votes="row"``).
"""

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.anchor import anchor_part, late_part
from apportion.methods.groups import outcome_compared
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "gigpo",
    unit="step",
    units=("step", "turn"),
    family="monte-carlo",
    reads=("reward_S", "state_S"),
    source="arXiv:2505.10978",
    holds=("scale_equivariant", "local_to_group", "relabel_invariant"),
    chain=True,
    wide={"scope": ("batch",)},
)
def gigpo(
    units: Units,
    *,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    scale: str = "none",
    ddof: int = 1,
    repeats: str = "all",
    votes: str = "trajectory",
    group_of_one: str = "zero",
    epsilon: float = 0.0,
    baseline: str = "members",
    scope: str = "group",
    undiscounted: str = "",
) -> Credit:
    """Credit every step of every trajectory.

    Args:
        units: S steps of N trajectories. Reads reward_S, outcome_N (reward units) and state_S (equal keys are
            one anchor state, compared inside one group only).
        gamma: discount per step, not per token, in [0, 1].
        step_weight: w above; 0 leaves plain outcome credit.
        scale: "none" keeps reward units; "std" divides each part by its std (no unit).
        ddof: of that std; the authors' code uses 1.
        repeats: visits of one trajectory to one state count "all", or "once" with their mean; see `anchor`.
        votes: who has one in the episode statistics, each "trajectory" or each "row" (unit), for parity.
        group_of_one: episode part of a lone vote, "zero" or its "raw" outcome, for parity.
        epsilon: added to every std, for parity.
        baseline: of the step part, the mean of all "members" of a state or of the "others"; see `anchor`.
        scope: equal states are one inside a "group", or over the "batch", for parity.
        undiscounted: named part of the rewards that joins the return of its own step after discounting, and with
            ``votes="row"`` the outcome of its row, for parity; "" = none.

    Returns:
        Credit with the parts "episode" and "step", which add up to it.

    Raises:
        DataError: the units carry no states or are not steps or turns.
    """
    for name, value, choices in (
        ("scale", scale, ("none", "std")),
        ("votes", votes, ("trajectory", "row")),
        ("group_of_one", group_of_one, ("zero", "raw")),
    ):
        if value not in choices:
            raise ConfigError(f"gigpo: {name} is {value!r}; give {choices[0]!r} or {choices[1]!r}")
    late_S = late_part(units, "gigpo", undiscounted)
    episode_S = outcome_compared(
        units, scale=scale, ddof=ddof, epsilon=epsilon, group_of_one=group_of_one, votes=votes, late_S=late_S
    )
    step_S, notes = anchor_part(
        units,
        gamma=gamma,
        scale=scale,
        ddof=ddof,
        repeats=repeats,
        epsilon=epsilon,
        baseline=baseline,
        scope=scope,
        late_S=late_S,
    )
    step_S = step_weight * step_S
    parts = {"episode": episode_S, "step": step_S}
    return Credit(episode_S + step_S, units, parts=parts, notes={**group_notes(units), **notes})
