"""iStar: an implicit reward per step, compared with all steps of the group, on top of the episode's credit.

    r[s] = beta sum_{t in s} log pi_prm / pi_old
    A[s] = (R_i - mean R) + w (r[s] - mean r over all steps of the group)

Use       for agents, with a reward model that learns online from pairs of good and bad trajectories; its
          log-probabilities stand in the column ``prm_logp``. The reference is the policy that sampled.
Source    arXiv:2509.19199.
Compared  by reading, with Tongyi-ConvAI/Qwen-Character at 1de87a2, `CharacterRL-iStar/istar/core_istar.py`.
Deviates  1. The code's step baseline knows only the *first* row of each trajectory, by accident of its duplicate check,
             and yet scales every step as a member: ``baseline="first"``.
          2. ``scale="std"`` adds no epsilon unless told; the code adds 1e-6.
          3. Steps without tokens have no row and no vote.
          4. Its token granularity, here the cut by_token, loses the last token of each step
             (``last_token="zero"``).
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.notes import group_notes
from apportion.methods.process_reward import largest_return, one_of
from apportion.methods.registry import register
from apportion.numerics import BoolArray, FloatArray, centre, seg_count, seg_mean, seg_std
from apportion.units import Units

SCALES = ("none", "std", "rloo")


@register(
    "istar",
    unit="step",
    units=("step", "turn", "token"),
    family="log-ratio",
    reads=("reward_S", "column:prm_logp", "logp_S"),
    source="arXiv:2509.19199",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
    wide={"normalise": ("batch",)},
)
def istar(
    units: Units,
    *,
    beta: float = 0.05,
    step_weight: float = 1.0,
    scale: str = "none",
    ddof: int = 1,
    epsilon: float = 0.0,
    baseline: str = "all",
    normalise: str = "none",
    last_token: str = "keep",
) -> Credit:
    """Credit every step with its episode and its own implicit reward.

    Args:
        units: S steps, turns or tokens. Reads outcome_N (reward units), the column prm_logp and logp_S (nats).
        beta: reward per nat of the implicit model.
        step_weight: w above; 0 leaves plain outcome credit.
        scale: of both parts: "none" subtracts the mean, "std" also divides by the std, "rloo" multiplies the difference
            by n / (n - 1), n being the members of the baseline.
        ddof: of that std.
        epsilon: added to it.
        baseline: "all" steps of the group as in the paper, or the "first" of each trajectory: the code's.
        normalise: "batch" divides the step rewards by their largest sum to the end over the batch plus 1e-6.
        last_token: of the cut by_token only: "zero" leaves the last token of each step without reward, for parity.

    Returns:
        Credit with the parts "episode" and "step".
    """
    one_of("istar", "scale", scale, SCALES)
    one_of("istar", "baseline", baseline, ("all", "first"))
    one_of("istar", "normalise", normalise, ("none", "batch"))
    one_of("istar", "last_token", last_token, ("keep", "zero"))
    if last_token == "zero" and units.level != "token":
        raise ConfigError(f"istar: last_token='zero' is of tokens, the units are {units.level}s; cut with by_token")
    assert units.logp_S is not None
    reward_S = beta * (units.columns["prm_logp"] - units.logp_S)
    if last_token == "zero":
        reward_S = np.where(np.append(units.step_of_S[1:] != units.step_of_S[:-1], True)[: len(units)], 0.0, reward_S)
    if normalise == "batch":
        reward_S = reward_S / (largest_return(reward_S, units) + 1e-6)
    row_S = units.valid_S & (units.tokens_S > 0)
    votes_S = row_S if baseline == "all" else row_S & _first(row_S, units)
    step_S = step_weight * np.where(row_S, _against(reward_S, units, votes_S, scale, ddof, epsilon), 0.0)
    episode_S = centre(
        units.outcome_N,
        units.group_of_N,
        scale="std" if scale == "std" else "none",
        ddof=ddof,
        epsilon=epsilon if scale == "std" else 0.0,
        where=units.valid_N,
        leave_one_out=scale == "rloo",
    )[units.traj_of_S]
    parts = {"episode": episode_S, "step": step_S}
    return Credit(episode_S + step_S, units, parts=parts, notes=group_notes(units))


def _first(row_S: BoolArray, units: Units) -> BoolArray:
    """The first row of each trajectory; of tokens all those of its first step."""
    at = np.flatnonzero(row_S)[::-1]
    step_N = np.full(len(units.group_of_N), -1, dtype=np.int64)
    step_N[units.traj_of_S[at]] = units.step_of_S[at]  # reversed order: the first one stays
    first: BoolArray = units.step_of_S == step_N[units.traj_of_S]
    return first


def _against(x_S: FloatArray, units: Units, votes_S: BoolArray, scale: str, ddof: int, epsilon: float) -> FloatArray:
    """Values against the voters of their group; 0 where there is one voter, or none."""
    group_S = units.group_of_S
    n_S = seg_count(group_S, where=votes_S)[group_S]
    out = x_S - seg_mean(x_S, group_S, where=votes_S)[group_S]
    if scale == "rloo":
        out = out * n_S / np.maximum(n_S - 1, 1)
    elif scale == "std":
        std_S = seg_std(x_S, group_S, ddof=ddof, where=votes_S)[group_S]
        out = np.divide(out, std_S + epsilon, out=np.zeros(len(out)), where=std_S > 0)
    return np.where(n_S > 1, out, 0.0)
