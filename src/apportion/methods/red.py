"""RED: each token gets what it changed in the reward model's score of the text so far.

    d[t] = Phi[t] - Phi[t-1]                           Phi[t] = score of everything up to token t, Phi[0] of the prompt
    A[t] = mix * d[t] + (1 - mix) * Phi[T] * 1[t = T]

Use       where a sequence reward model exists, to make its reward dense for a critic. One pass of a causal reward model
          serves all tokens of a rollout; here each boundary of units is one request.
Source    arXiv:2411.08302 (no code found); formula by secondary accounts that agree.
Compared  with worked numbers; on an enumerable task the gradient is that of the sparse reward, whatever Phi is.
Deviates  1. The KL penalty belongs to the trainer and is not subtracted here.
          2. What an observation changes in Phi is nobody's and is dropped (``env_delta`` in the notes).
          3. ``mix`` (the paper's β_c) could not be recovered; 0.5 is our choice.
          4. Reward models are trained on whole responses. The notes tell how far Phi at 25, 50 and 75 % of a response
             ranks the rollouts as its end does; near 0, the credit is noise.
"""

import numpy as np

from apportion.asks import Answer, Ask, Place, Score
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.groups import one_of
from apportion.methods.moments import spans
from apportion.methods.registry import register
from apportion.methods.told import Once, askable_N, count, numbers
from apportion.numerics import FloatArray
from apportion.units import Units

INITIAL = ("prompt", "zero")
SHARES = (0.25, 0.5, 0.75)


def plan(units: Units, *, mix: float, initial: str) -> list[Ask]:
    """The score at both ends of every run of tokens, each place once."""
    one_of("red", INITIAL, initial=initial)
    if not 0.0 <= mix <= 1.0:
        raise ConfigError(f"red: mix is {mix!r}; give a number from 0 to 1")
    once = Once()
    for run in _runs(units, initial):
        for place in run[1:3]:
            if isinstance(place, Place):
                once.add(_score(place))
    return once.asks


@register(
    "red",
    unit="token",
    family="extra scoring",
    needs=("reward_model",),
    source="arXiv:2411.08302",
    holds=("shift_invariant", "local_to_group", "local_to_trajectory"),
    chain=True,
    plan=plan,
)
def red(units: Units, answers: list[Answer], *, mix: float = 0.5, initial: str = "prompt") -> Credit:
    """Credit each unit with the change of the reward model's score over its tokens, mixed with the final score.

    Args:
        units: units along time, tokens as a rule. Rewards are not read: unscored rollouts get credit too.
        answers: one for each `Score` of the plan.
        mix: share of the dense part, from 0 (the sparse reward) to 1 (differences alone; add a sparse part of your own,
            ``"red(mix=1) + reinforce"``).
        initial: "prompt" begins from the score of the prompt, "zero" from 0, so that the first unit gets that too.

    Returns:
        Credit in the unit of the scores; the parts "dense" and "sparse" add up. Per rollout it sums to
        Phi[T] - mix * Phi[0], less what observations changed. A unit is unknown where a score of it could not be had.
    """
    phi = dict(zip(plan(units, mix=mix, initial=initial), numbers(answers).tolist(), strict=True))
    dense_S, sparse_S = np.zeros(len(units)), np.zeros(len(units))
    jumps: list[float] = []
    ends: dict[int, Place] = {}
    curve: dict[int, list[tuple[int, float]]] = {}
    for unit, begin, end, size in _runs(units, initial):
        low, high = 0.0 if begin is None else phi[_score(begin)], phi[_score(end)]
        dense_S[unit] += high - low
        before = ends.get(end.traj)
        if before is not None and before.step != end.step:
            jumps.append(low - phi[_score(before)])
        ends[end.traj] = end
        points = curve.setdefault(end.traj, [])
        points.append((size + (points[-1][0] if points else 0), high))
    last_S = units.last_S & askable_N(units)[units.traj_of_S]
    sparse_S[last_S] = [phi[_score(ends[n])] for n in units.traj_of_S[last_S].tolist()]
    parts = {"dense": mix * dense_S, "sparse": (1.0 - mix) * sparse_S}
    needed = [part for part, share in zip(parts.values(), (mix, 1.0 - mix), strict=True) if share > 0]
    known_S = askable_N(units)[units.traj_of_S] & np.isfinite(needed).all(axis=0)
    parts = {name: np.where(known_S & np.isfinite(part), part, 0.0) for name, part in parts.items()}
    seen = [jump for jump in jumps if np.isfinite(jump)]
    notes = count(
        observations_dropped=len(jumps),
        env_delta=float(np.mean(seen)) if seen else 0.0,
        units_without_score=int(np.count_nonzero(askable_N(units)[units.traj_of_S] & ~known_S)),
    )
    return Credit(
        np.asarray(sum(parts.values())), units, known_S=known_S, parts=parts, notes={**notes, **_agreement(curve)}
    )


def _runs(units: Units, initial: str) -> list[tuple[int, Place | None, Place, int]]:
    """Each run of a unit's tokens in time order: unit, where it begins (None: at score 0), where it ends, its size."""
    asked_S = askable_N(units)[units.traj_of_S]
    out: list[tuple[int, Place | None, Place, int]] = []
    seen: set[int] = set()
    for unit, own in enumerate(spans(units)):
        traj = int(units.traj_of_S[unit])
        for span in own if asked_S[unit] else ():
            begin = None if initial == "zero" and traj not in seen else Place(traj, span.step, span.first)
            seen.add(traj)
            out.append((unit, begin, Place(traj, span.step, span.last), span.last - span.first))
    return out


def _score(place: Place) -> Score:
    return Score(place.traj, upto=place)


def _agreement(curve: dict[int, list[tuple[int, float]]]) -> dict[str, float]:
    """Rank correlation over rollouts of the final score with that at the last boundary within each share of the tokens.

    ``curve``: tokens so far and score at each boundary of each rollout. Left out where fewer than three rollouts have
    such a boundary, or one side does not vary.
    """
    out: dict[str, float] = {}
    for share in SHARES:
        pairs = []
        for points in curve.values():
            (total, final) = points[-1]
            early = [score for tokens, score in points if tokens <= share * total]
            if early and np.isfinite(early[-1]) and np.isfinite(final):
                pairs.append((early[-1], final))
        if len(pairs) >= 3:
            x, y = (ranks(column) for column in np.array(pairs).T)
            if x.std() > 0 and y.std() > 0:
                out[f"rank_correlation_{round(100 * share)}"] = float(np.corrcoef(x, y)[0, 1])
    return out


def ranks(x: FloatArray) -> FloatArray:
    """Ranks from 0; equal values share the mean of theirs."""
    _, inverse, size = np.unique(x, return_inverse=True, return_counts=True)
    first = np.cumsum(size) - size
    return np.asarray((first + (size - 1) / 2)[inverse], dtype=np.float64)
