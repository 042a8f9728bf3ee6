"""``apportion assign``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from apportion.cli.asking import ANSWERED_BY, Asking, asks
from apportion.cli.asking_progress import asked_by, tell
from apportion.cli.cutting import checked_cut, cut_file
from apportion.cli.grams import grams_of
from apportion.cli.models import load_model, predicted
from apportion.cli.output import emit_json, progress, remark, table
from apportion.cli.overwriting import keep_inputs
from apportion.cli.params import method_params
from apportion.cli.volume import assign_folder, is_folder, more_paths, no_folder_options
from apportion.credit import Credit
from apportion.data import Batch
from apportion.errors import ConfigError, ResourceError
from apportion.numerics import seg_mean

if TYPE_CHECKING:
    from apportion.resources import Asker
    from apportion.units import Units


@asks
def assign(
    context: typer.Context,
    path: Path = typer.Argument(
        help="Rollouts: our JSONL or Parquet, or a chat log in a known format; or a folder of Parquet files."
    ),
    method: str = typer.Option("gigpo", "--method", "-m", help="Name or expression, like 'grpo | whiten'."),
    unit: str = typer.Option(
        "",
        "--unit",
        "-u",
        help="episode, turn, step, segment, token, agent or tree, with options in brackets; default: the method's.",
    ),
    states: str = typer.Option(
        "exact", "--states", help="What counts as one state: exact, normalised, learned, near or blocks."
    ),
    out: Path = typer.Option(
        None,
        "--out",
        "-o",
        help="Write the credit here (.jsonl or .parquet); a folder: file by file.",
    ),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    group_by: str = typer.Option(
        None, "--group-by", help="Field that makes rollouts comparable, or first_user_message (foreign formats)."
    ),
    outcome: str = typer.Option(
        None,
        "--outcome-field",
        help="Field that is the outcome; of words, FIELD=WORD: WORD is 1, any other 0 (foreign formats).",
    ),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    values: Path = typer.Option(
        None, "--values", help="Folder of a fitted model whose predictions the method reads, see `apportion models`."
    ),
    engine: str = typer.Option("local", "--engine", help="Who credits a folder: local, or ray."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
    *,
    asking: Asking,
) -> None:
    """Divide the credit for the outcomes among the units; further options are parameters of the method.

    --grams FILE is the list of `hicra`. A cut takes options in brackets: --unit "segment(by='cutpoint', interval=5)".

    Methods that ask go on where they were stopped: the same command with the same --cache pays for nothing twice.

    A folder (or several files) and --out FOLDER credit each Parquet file by itself; a killed run goes on from there.

    Example: apportion assign runs.jsonl --method gigpo --gamma 0.9 --out credit.parquet
    """
    from apportion.assign import check_expression, check_level, required_cut, required_needs
    from apportion.credit.files import check_credit_path, write_credit

    folder = is_folder(out)
    files, arguments = more_paths(context.args) if folder else ([], context.args)
    if not path.exists() and not folder and any(map(os.path.exists, arguments)):
        raise ConfigError(f"{path} was taken for the file; write the file first, or --name=value with an equals sign")
    params = method_params(arguments)
    if isinstance(params.get("grams"), str):
        params["grams"] = grams_of(params["grams"])
    asking.take(params, method)
    check_expression(method, params)
    cut = checked_cut(unit or required_cut(method), states)
    check_level(method, cut[0])
    if folder:
        no_folder_options(form=form, group_by=group_by, outcome=outcome, values=values)
        assign_folder([path, *files], out, method, cut, params, skip_bad=skip_bad, engine=engine, json=json)
        return
    if engine != "local":
        raise ConfigError(f"--engine {engine} credits a folder file by file; give --out FOLDER")
    if out is not None:
        keep_inputs(out, [path])
        check_credit_path(out)
    if required_needs(method):
        asking.check_installed()
    model = None if values is None else load_model(values)
    units = cut_file(path, cut, form=form, group_by=group_by, outcome=outcome, skip_bad=skip_bad)
    units = units if model is None else predicted(model, units)
    _check_somebody(method, units, params, asking)
    batch = units.batch
    credit, ask = _credit(method, units, params, asking)
    if out is not None:
        with progress(f"writing {out.name}"):
            write_credit(out, credit)
    by_rule = states != "exact"
    summary = _summary(credit) | ({"states": states, "stripped": _stripped(batch, states)} if by_rule else {})
    summary |= {"asking": ask.summary.to_dict()} if ask is not None else {}
    if json:
        emit_json({"schema": "apportion.assign/1", "out": None if out is None else str(out), **summary})
    else:
        _show(credit, summary)
        if ask is not None:
            tell(ask.summary)
        if out is not None:
            remark(f"wrote {out}; look at it with `apportion view {out}`")
    if ask is not None and ask.summary.failed and not ask.summary.asked + ask.summary.cached:
        raise ResourceError("nothing that was asked was answered, so no credit is known; see the reasons above")
    if ask is not None and not np.asarray(credit.known_S).any():
        raise ResourceError("no answer could be used, so no credit is known; see the reasons above")


def _check_somebody(method: str, units: Units, params: dict[str, Any], asking: Asking) -> None:
    """A method that asks has somebody to ask."""
    from apportion.assign import whom_asks

    if not asking.anybody and (wanted := whom_asks(method, units, **params)):
        options = dict.fromkeys(option for who in wanted for option in ANSWERED_BY[who])
        raise ConfigError(
            f"{method} asks a {' and a '.join(who.replace('_', ' ') for who in wanted)}; say whom: "
            f"{' '.join(options)}. What it would cost tells `apportion cost`"
        )


def _credit(method: str, units: Units, params: dict[str, Any], asking: Asking) -> tuple[Credit, Asker | None]:
    """The credit, and who was asked for it; None where the method asks nobody."""
    from apportion.assign import assign as assign_credit
    from apportion.assign import required_needs

    if not asking.anybody or not required_needs(method):
        with progress(f"crediting {len(units.batch)} trajectories"):
            return assign_credit(method, units, **params), None
    with asked_by(asking, units.batch) as ask:
        return assign_credit(method, units, ask=ask, **params), ask


def _stripped(batch: Batch, states: str) -> list[str]:
    """What a normalising rule took out of the states, as sentences; nothing for other rules."""
    from apportion.units import Normalised, state_rule

    rule = state_rule(states, batch)
    if not isinstance(rule, Normalised):
        return []
    return rule.report(batch.state_S.tolist(), batch.group_of_N[batch.traj_of_S].tolist()).lines()


def _summary(credit: Credit) -> dict[str, Any]:
    batch = credit.units.batch
    tokens = credit.to_tokens()
    outside = ~batch.sampled_T
    return {
        "method": credit.method,
        "params": dict(credit.params),
        "unit": credit.units.level,
        "trajectories": len(batch),
        "groups": len(batch.group_names),
        "units": len(credit.units),
        "tokens": len(batch.ids_T),
        "sampled_tokens": int(batch.sampled_T.sum()),
        "credited_tokens": int(np.count_nonzero(tokens.advantage_T)),
        "credit_on_context_tokens": float(np.abs(tokens.advantage_T[outside]).sum()),
        "unknown_units": int(np.count_nonzero(~np.asarray(credit.known_S))),
        "dropped_units": int(np.count_nonzero(~np.asarray(credit.train_S))),
        "text_only": not batch.has_ids,
        "notes": dict(credit.notes),
    }


def _extremes(advantage: np.ndarray, place: np.ndarray) -> tuple[str, str, str]:
    """Lowest and highest credit and where; unknown is not zero."""
    if not len(advantage):
        return "?", "?", "?"
    worst, best = int(np.argmin(advantage)), int(np.argmax(advantage))
    return f"{advantage[worst]:+.4g}", f"{advantage[best]:+.4g}", f"{place[worst]} / {place[best]}"


def _show(credit: Credit, summary: dict[str, Any]) -> None:
    units, batch = credit.units, credit.units.batch
    mean_N = seg_mean(credit.advantage_S, units.traj_of_S, n=len(batch))
    names = batch.names()
    rows = []
    for n in np.argsort(-np.abs(mean_N), kind="stable")[:10]:
        own = np.flatnonzero(units.traj_of_S == n)
        if not len(own):
            continue
        known = own[np.asarray(credit.known_S)[own]]
        rows.append(
            [
                names[n],
                batch.group_names[batch.group_of_N[n]],
                f"{batch.outcome_N[n]:g}" if batch.scored_N[n] else "unscored",
                str(len(own)),
                *_extremes(credit.advantage_S[known], known - own[0]),
            ]
        )
    title = f"{summary['method']}: {summary['units']} {summary['unit']}s of {summary['trajectories']} trajectories"
    table(
        title + (" (the 10 with the largest mean credit)" if len(batch) > 10 else ""),
        ["trajectory", "group", "outcome", f"{summary['unit']}s", "lowest", "highest", "lowest / highest at"],
        rows,
    )
    if summary["unknown_units"]:
        remark(f"{summary['unknown_units']} of {summary['units']} {summary['unit']}s have no known credit (? is not 0)")
    remark(
        f"{summary['credited_tokens']} of {summary['sampled_tokens']} sampled tokens hold credit, "
        f"context tokens none" + (" (text-only log: tokens are words)" if summary["text_only"] else "")
    )
    for line in summary.get("stripped", ()):
        remark(f"states: {line}")
    if summary["notes"]:
        remark(
            "notes: "
            + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in summary["notes"].items())
        )
