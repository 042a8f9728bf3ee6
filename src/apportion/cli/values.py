"""``apportion values``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apportion.cli.asking import Asking, asks
from apportion.cli.asking_progress import asked_by, tell
from apportion.cli.cutting import checked_cut
from apportion.cli.output import emit_json, remark, table
from apportion.cli.params import method_params
from apportion.cli.sources import load
from apportion.errors import ConfigError, ResourceError

if TYPE_CHECKING:
    from apportion.asks import Place
    from apportion.assign.values import ValueQuality
    from apportion.data import Batch
    from apportion.resources import Asker

ACTIONS = 5
"""Next actions tried in each state, as VinePPO's authors did."""


@asks
def values(
    context: typer.Context,
    path: Path = typer.Argument(help="Rollouts: our JSONL or Parquet, or a chat log in a known format."),
    sources: str = typer.Option(
        "samples:1,samples:9",
        "--sources",
        help="Where values come from: data (a critic's, Step.value), samples:K (of the --resampler), model (the "
        "--judge's probability of success), judge:TEMPLATE (its verdicts).",
    ),
    truth: int = typer.Option(128, "--truth", min=1, help="Continuations from each state that stand for the truth."),
    states: int = typer.Option(64, "--states", min=1, help="States that are measured at most, drawn at random."),
    actions: int = typer.Option(
        None,
        "--actions",
        min=1,
        help=f"Next actions tried in each state, for the ranking; default {ACTIONS} for steps whose values are asked "
        "for, else those in the rollouts.",
    ),
    gap: float = typer.Option(0.05, "--gap", min=0.0, help="True values closer than this are not ranked."),
    unit: str = typer.Option(
        "step", "--unit", "-u", help="Where states lie: step, or segment or token, as for assign."
    ),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    group_by: str = typer.Option(None, "--group-by", help="As for assign."),
    outcome: str = typer.Option(None, "--outcome-field", help="As for assign."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    seed: int = typer.Option(0, "--seed", min=0, help="Of the choice of states; that of the samples is --ask-seed."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
    *,
    asking: Asking,
) -> None:
    """Say how good values of states are, against the mean return of many continuations, and how they rank actions.

    Who plays on is the --resampler: a server, a model, or a run of `apportion train` with its environment.

    Example: apportion values runs.jsonl --resampler http://127.0.0.1:8000/v1 --sources data,samples:9
    """
    names = [name.strip() for name in sources.split(",") if name.strip()]
    short = method_params(context.args)
    asking.take(short)
    if short:
        raise ConfigError(f"values takes no --{next(iter(short)).replace('_', '-')}; see apportion values --help")
    cut = checked_cut(unit, "exact")
    if not asking.resampler:
        raise ConfigError(
            "values asks a policy for the truth; say whom: --resampler with a server, a model's folder or a run of "
            "`apportion train`"
        )
    asking.check_installed()
    tried = _actions(actions, names, cut[0])
    batch = load(path, form=form, group_by=group_by, outcome=outcome, skip_bad=skip_bad)
    with asked_by(asking, batch) as ask:
        found = _measured(ask, batch, cut, names, states, tried, seed, truth=truth, gap=gap)
    if json:
        told = {name: quality.to_dict() for name, quality in found.items()}
        emit_json({"schema": "apportion.values/1", "sources": told, "asking": ask.summary.to_dict()})
        return
    _show(found)
    tell(ask.summary)


def _actions(given: int | None, names: list[str], level: str) -> int:
    """How many actions are tried in each state, that of the rollout itself included."""
    if given is None:
        return ACTIONS if level == "step" and "data" not in names else 1
    if given > 1 and "data" in names:
        raise ConfigError("values in the data say nothing of actions that were not taken; leave --actions out")
    if given > 1 and level != "step":
        raise ConfigError(f"other actions are tried at the beginning of steps, not of {level}s; leave --actions out")
    return given


def _measured(
    ask: Asker,
    batch: Batch,
    cut: tuple[str, dict[str, Any]],
    names: list[str],
    states: int,
    actions: int,
    seed: int,
    **how: Any,
) -> dict[str, ValueQuality]:
    """Draw states, let other actions be tried in them, and measure."""
    import numpy as np

    from apportion.assign.values import value_quality
    from apportion.methods.branching import branches
    from apportion.methods.moments import starts
    from apportion.resources import branch
    from apportion.units import CUTS

    level, options = cut
    units = CUTS[level](batch, **options)
    valid = np.flatnonzero(units.valid_S)
    begins = starts(units)
    every = _reached(ask, batch, [begins[s] for s in valid], branches(units).node_S[valid].tolist())
    order = np.random.default_rng(seed).permutation(len(every))[:states].tolist()
    places = [every[k] for k in order]
    if actions > 1:
        units = CUTS[level](branch(ask, batch, places, k=actions - 1, who="values"), **options)
    at = set(places)
    chosen = np.array([place in at for place in starts(units)], dtype=np.bool_)
    return value_quality(units, names, ask=ask, states=chosen, seed=seed, **how)


def _reached(ask: Asker, batch: Batch, places: list[Place], states: list[int]) -> list[Place]:
    """The places from which the policy can play on; a policy that only writes text cannot before the last answer.

    Where one rollout gave its last answer and another, in the same state, was spoken to after it, whoever plays on from
    there may be spoken to as well: such a state is left out in both.
    """
    from apportion.asks import Continue
    from apportion.resources import Request, resource_for

    player = resource_for("continue", ask.resources)
    why = [player.check(Request(Continue(place, 1), batch.trajectories[place.traj], 0, 0)) for place in places]
    lost = {state for state, sentence in zip(states, why, strict=True) if sentence}
    reached = [place for place, state in zip(places, states, strict=True) if state not in lost]
    if not reached:
        raise ResourceError(f"values: {why[0] if why else 'no rollout has a state to measure; all are unscored'}")
    if len(reached) < len(places):
        remark(f"{len(reached)} of {len(places)} states can be played on from: {next(filter(None, why))}")
    return reached


def _show(found: dict[str, ValueQuality]) -> None:
    rows = []
    for name, q in found.items():
        numbers = (q.errors.absolute, q.errors.within, q.expected_within, q.explained, q.explained_returns)
        rank = (q.ranking.pairwise, q.ranking.top1, q.ranking.chance)
        cells = ["" if x != x else f"{x:.3f}" for x in (*numbers, *rank)]
        rows.append([name, str(q.errors.states), *cells, str(q.ranking.sets)])
    columns = ["values from", "states", "error", "within 0.05", "expected", "EV", "EV of returns"]
    columns += ["pairs", "top-1", "chance", "ranked states"]
    table("values against the mean of many continuations", columns, rows)
    remark("within 0.05 mostly counts states that are nearly lost or won; see the strata in --json")
