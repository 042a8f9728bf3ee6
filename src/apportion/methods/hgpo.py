"""HGPO: GiGPO's step part for longer and longer histories, averaged; longer ones weigh more.

    A[s] = sum_k w_k (G[s] - mean_k G) / sum_k w_k          w_k = (k + 1)^power,  k = 1 .. history + 1

mean_k is taken over the units of the group whose last k states are the same; only the k that have company count.

Use       when the state does not tell everything, so that equal observations after different pasts differ in value.
Source    HGPO (ICLR 2026), as released beside GiGPO (arXiv:2505.10978), recipe/hgpo.
Compared  by reading, with verl-agent recipe/hgpo; its numbers are reproduced by
          ``scale="std", ddof=0, epsilon=1e-6, skip_zeros=True``.
Deviates  1. A member that is exactly average counts as 0; the code drops it from the average (``skip_zeros``).
          2. scale="std" uses the sample std and no epsilon; the code the population std plus 1e-6.
          3. Time order is that of the trajectory; the code takes it from the order of rows in the batch.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.groups import return_to_go
from apportion.methods.notes import group_notes, size_histogram
from apportion.methods.registry import register
from apportion.numerics import centre, labels, seg_count, to_go
from apportion.units import Units


@register(
    "hgpo",
    unit="step",
    units=("step", "turn"),
    family="monte-carlo",
    reads=("reward_S", "state_S"),
    source="HGPO, verl-agent recipe/hgpo",
    holds=("scale_equivariant", "local_to_group", "relabel_invariant"),
    chain=True,
)
def hgpo(
    units: Units,
    *,
    gamma: float = 0.95,
    history: int = 2,
    power: float = 1.0,
    episode: bool = False,
    scale: str = "none",
    ddof: int = 1,
    epsilon: float = 0.0,
    skip_zeros: bool = False,
) -> Credit:
    """Credit each unit with what followed it, compared among equal histories of several lengths.

    Args:
        units: S steps or turns. Reads reward_S, outcome_N (reward units) and state_S (keys, inside one group).
        gamma: discount per unit, in [0, 1].
        history: states before the current one that a history may hold; 0 leaves `anchor`.
        power: of the weights; 0 weighs all lengths alike.
        episode: True adds the trajectory's outcome against its group as one more item, of weight 1.
        scale: "none" keeps reward units; "std" divides each item by the std of its set (no unit).
        ddof: of that std.
        epsilon: added to that std, for parity.
        skip_zeros: True leaves items that are exactly 0 out of the average, for parity.

    Returns:
        Credit; units without company at any length get 0 and are counted in the notes.
    """
    if scale not in ("none", "std"):
        raise ConfigError(f"hgpo: scale is {scale!r}; give 'none' or 'std'")
    if isinstance(history, bool) or not isinstance(history, int) or history < 0:
        raise ConfigError(f"hgpo: history is {history!r}; give a whole number from 0 on")
    assert units.state_S is not None
    valid_S, same_S = units.valid_S, np.append(False, units.traj_of_S[1:] == units.traj_of_S[:-1])[: len(units)]
    exact = scale == "std" or skip_zeros  # what is left of rewards that cancel is neither spread nor unlike 0
    return_S = (
        return_to_go(units.reward_S, units.traj_of_S, gamma=gamma)
        if exact
        else to_go(units.reward_S, units.traj_of_S, gamma=gamma)
    )
    key_S = labels(units.group_of_S, units.state_S)
    sizes = seg_count(key_S, where=valid_S)
    there_S = np.ones(len(units), dtype=bool)  # the trajectory is old enough for a history of this length
    total_S, weight_S = np.zeros(len(units)), np.zeros(len(units))
    company_S = full_S = np.zeros(len(units), dtype=bool)
    longest = int(seg_count(units.traj_of_S).max(initial=0))
    for k in range(1, min(history + 1, longest) + 1):
        if k > 1:
            there_S = same_S & np.append(False, there_S[:-1])[: len(units)]
            key_S = labels(np.append(-1, key_S[:-1])[: len(units)], units.state_S)
        who_S = there_S & valid_S
        full_S = who_S & (seg_count(key_S, where=who_S, n=len(units))[key_S] > 1)
        company_S = company_S | full_S
        item_S = centre(return_S, key_S, scale=scale, ddof=ddof, epsilon=epsilon, where=who_S)
        used_S = full_S & (item_S != 0.0) if skip_zeros else full_S
        total_S[used_S] += (k + 1.0) ** power * item_S[used_S]
        weight_S[used_S] += (k + 1.0) ** power
    if history + 1 > longest:
        full_S = np.zeros(len(units), dtype=bool)
    if episode:
        item_N = centre(units.outcome_N, units.group_of_N, scale=scale, ddof=ddof, epsilon=epsilon, where=units.valid_N)
        many_N = seg_count(units.group_of_N, where=units.valid_N, n=len(units.batch.group_names))[units.group_of_N] > 1
        used_S = (units.valid_N & many_N & ((item_N != 0.0) | (not skip_zeros)))[units.traj_of_S]
        total_S[used_S] += item_N[units.traj_of_S][used_S]
        weight_S[used_S] += 1.0
    advantage_S = total_S / np.where(weight_S > 0, weight_S, 1.0)
    valid = max(int(np.count_nonzero(valid_S)), 1)
    notes: dict[str, int | float | str] = {
        **group_notes(units),
        "state_sizes": size_histogram(sizes),
        "units_without_company": int(np.count_nonzero(valid_S & ~company_S)),
        "share_with_company": float(np.count_nonzero(company_S) / valid),
        "share_with_full_history": float(np.count_nonzero(full_S) / valid),
    }
    return Credit(advantage_S, units, notes=notes)
