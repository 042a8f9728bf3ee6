"""SCAR: the reward model's score is divided among the parts of a response by Shapley value.

    v(S) = score of the response with the parts outside S blanked, the prompt whole
    phi[i] = sum_S |S|! (n - |S| - 1)! / n! * (v(S + i) - v(S))            sum phi = v(all) - v(none)
    A[i] = alpha * phi[i] + (1 - alpha) * v(all) * 1[i = last]

Use       where a sequence reward model exists and parts may do harm: credit has either sign. Sentences or phrases cost
          a fraction of what tokens do.
Source    arXiv:2505.20417 (no code found); the recursion over a tree as in shap/shap's partition explainer.
Compared  with worked numbers, and on games whose Shapley and Owen values are known.
Deviates  1. Sums to v(all) - v(none): a blank response has a score of its own. ``null`` says who gets it.
          2. ``alpha`` and the thresholds for the size of parts could not be recovered: 0.5, and the cut is yours.
          3. The KL penalty belongs to the trainer. Where in a part its credit lands is up to ``to_tokens(spread=...)``.
          4. The paper counts O(n²) evaluations for its trees; that holds for balanced ones, and a right-branching one
             needs 2^n. ``max_evals`` guards: groups that it does not reach share equally.
"""

import numpy as np

from apportion.asks import Answer, Ask, Score, Span
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.coalitions import Game, ask_all, balanced_over, game_of, seeds_of, values_of
from apportion.methods.groups import one_of
from apportion.methods.moments import spans
from apportion.methods.registry import register
from apportion.methods.told import askable_N, count, numbers
from apportion.numerics import BoolArray, FloatArray, IntArray, labels
from apportion.numerics.owen import Hierarchy, OwenPlan
from apportion.units import Units

NULLS = ("keep", "uniform", "terminal")
TREES = ("balanced", "step", "blocks")
EXACT_UP_TO = 12


def plan(
    units: Units,
    *,
    alpha: float,
    estimator: str,
    orders: int | None,
    antithetic: bool,
    tree: str,
    max_evals: int,
    null: str,
    filler: str,
    seed: int,
) -> list[Ask]:
    """Every coalition of every rollout, as a `Score` without the tokens of the absent units."""
    one_of("scar", NULLS, null=null)
    if not 0.0 <= alpha <= 1.0:
        raise ConfigError(f"scar: alpha is {alpha!r}; give a number from 0 to 1")
    runs, players = spans(units), _players(units)

    def ask(traj: int, there: BoolArray) -> Score:
        absent = [run for s in players[traj][~there].tolist() for run in runs[s]]
        return Score(traj, absent=_joined(absent), filler=filler)

    return ask_all(_games(units, estimator, orders, antithetic, tree, max_evals, seed), ask)


@register(
    "scar",
    unit="segment",
    family="extra scoring",
    needs=("reward_model",),
    source="arXiv:2505.20417",
    holds=("shift_invariant", "local_to_group", "local_to_trajectory"),
    chain=True,
    example={"max_evals": 64},
    plan=plan,
)
def scar(
    units: Units,
    answers: list[Answer],
    *,
    alpha: float = 0.5,
    estimator: str = "auto",
    orders: int | None = None,
    antithetic: bool = True,
    tree: str = "balanced",
    max_evals: int = 512,
    null: str = "keep",
    filler: str = "blank",
    seed: int = 0,
) -> Credit:
    """Credit each unit with its Shapley (or Owen) value in the reward model's score.

    Args:
        units: units along time: segments, steps, tokens. Those with tokens are the players of their rollout; one
            without gets 0. Rewards are not read: unscored rollouts get credit too.
        answers: one for each `Score` of the plan.
        alpha: share of the Shapley part; the rest of the score arrives with the last unit.
        estimator: "exact" (all coalitions), "permutation" (sampled orders), "owen" (along a tree), or "auto": exact for
            up to 12 players, else sampled orders, else the tree, the first that ``max_evals`` allows.
        orders: sampled orders of each rollout; None = as many as ``max_evals`` allows.
        antithetic: walk each sampled order backwards too.
        tree: for "owen": "balanced" halves the units again and again; "step" does so with steps, then inside each;
            "blocks" has two levels, steps and their units.
        max_evals: scores of one rollout at most. In a tree, groups that it does not reach share equally.
        null: who gets the score of the blank response: "keep" nobody, "uniform" all units alike, "terminal" the last.
        filler: what stands in for absent tokens: "blank", "delete" or "mask_token" (`apportion.asks.Score`).
        seed: of the sampled orders.

    Returns:
        Credit in the unit of the score; the parts "shapley" and "sparse" add up. A unit is unknown where a score that
        it hangs on could not be had; incomplete orders are left out. The notes tell the mean score of nothing at all
        and how many units have more credit, in size, than the whole: both warn of a reward model out of its depth.
    """
    games = _games(units, estimator, orders, antithetic, tree, max_evals, seed)
    players = _players(units)
    phi_S, sparse_S = np.zeros(len(units)), np.zeros(len(units))
    nothing: list[float] = []
    beyond: list[float] = []
    lost = 0
    for traj, value_C in values_of(games, numbers(answers)).items():
        game, own = games[traj], players[traj]
        none, whole = float(value_C[game.nobody]), float(value_C[game.everybody])
        phi = game.fold(value_C)
        lost += game.walks_lost(value_C)
        nothing.append(none)
        beyond += (np.abs(phi) > np.abs(whole - none) * (1 + 1e-9)).tolist() if np.isfinite(phi).all() else []
        phi_S[own] = phi + _null(none, len(own), null)
        sparse_S[_last(units, traj)] = whole
    parts = {"shapley": alpha * phi_S, "sparse": (1.0 - alpha) * sparse_S}
    needed = [part for part, share in zip(parts.values(), (alpha, 1.0 - alpha), strict=True) if share > 0]
    known_S = askable_N(units)[units.traj_of_S] & np.isfinite(needed).all(axis=0)
    parts = {name: np.where(known_S & np.isfinite(part), part, 0.0) for name, part in parts.items()}
    heard = [none for none in nothing if np.isfinite(none)]
    notes: dict[str, int | float] = {
        **({"score_of_nothing": float(np.mean(heard))} if heard else {}),
        **({"share_beyond_total": float(np.mean(beyond))} if beyond else {}),
        **count(
            rollouts_exact=sum(game.kind == "exact" for game in games.values()),
            rollouts_permutation=sum(game.kind == "permutation" for game in games.values()),
            rollouts_owen=sum(game.kind == "owen" for game in games.values()),
            groups_shared_equally=sum(g.plan.groups_whole for g in games.values() if isinstance(g.plan, OwenPlan)),
            orders_lost=lost,
            units_without_score=int(np.count_nonzero(askable_N(units)[units.traj_of_S] & ~known_S)),
        ),
    }
    return Credit(np.asarray(sum(parts.values())), units, known_S=known_S, parts=parts, notes=notes)


def _games(
    units: Units, estimator: str, orders: int | None, antithetic: bool, tree: str, max_evals: int, seed: int
) -> dict[int, Game]:
    one_of("scar", TREES, tree=tree)
    players, seeds = _players(units), seeds_of(units, seed)
    return {
        traj: game_of(
            "scar",
            len(own),
            estimator=estimator,
            orders=orders,
            antithetic=antithetic,
            max_evals=max_evals,
            seed=seeds[traj],
            exact_up_to=EXACT_UP_TO,
            tree=lambda own=own: _tree(units, own, tree),  # type: ignore[misc]
        )
        for traj, own in players.items()
    }


def _players(units: Units) -> dict[int, IntArray]:
    """The units with tokens of each rollout that can be asked about."""
    asked_S = askable_N(units)[units.traj_of_S] & (units.tokens_S > 0)
    own = np.flatnonzero(asked_S)
    traj, first = np.unique(units.traj_of_S[own], return_index=True)
    return dict(zip(traj.tolist(), np.split(own, first[1:]), strict=True)) if len(own) else {}


def _tree(units: Units, own: IntArray, tree: str) -> Hierarchy:
    if tree == "balanced":
        return balanced_over(list(range(len(own))))
    step = labels(units.step_of_S[own])
    blocks: list[Hierarchy] = [np.flatnonzero(step == b).tolist() for b in range(int(step.max()) + 1)]
    if tree == "blocks":
        return tuple(block[0] if len(block) == 1 else tuple(block) for block in blocks)  # type: ignore[index,arg-type]
    return balanced_over([balanced_over(list(block)) for block in blocks])  # type: ignore[arg-type]


def _joined(runs: list[Span]) -> tuple[Span, ...]:
    """Runs in time order, neighbours as one: equal texts are equal asks, however they were cut."""
    out: list[Span] = []
    for run in runs:
        if out and out[-1].step == run.step and out[-1].last == run.first:
            out[-1] = Span(run.step, out[-1].first, run.last)
        else:
            out.append(run)
    return tuple(out)


def _null(none: float, players: int, null: str) -> FloatArray:
    """What each player gets of the score of nothing."""
    if null == "uniform":
        return np.full(players, none / players)
    share = np.zeros(players)
    if null == "terminal":
        share[-1] = none
    return share


def _last(units: Units, traj: int) -> int:
    return int(np.searchsorted(units.traj_of_S, traj, side="right")) - 1
