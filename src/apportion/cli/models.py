"""``apportion models fit|eval|predict|search``: credit models that are fitted to rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apportion.cli.flags import Command, Group
from apportion.cli.interrupt import stoppable
from apportion.cli.output import emit_json, progress, remark, table
from apportion.cli.params import method_params
from apportion.cli.search import search
from apportion.cli.sources import load as read_rollouts
from apportion.errors import ConfigError, missing_extra

if TYPE_CHECKING:
    from apportion.models.fitting import Fitted
    from apportion.units import Units

models = typer.Typer(
    name="models", cls=Group, help="Fit credit models to rollouts, measure them, and let them predict."
)
ABOUT = {
    "value_head": "Values of states, reward units.",
    "agentprm": "Promise of each step, reward units: what a rollout will earn after it.",
    "archer": "Q and V of each utterance, discounted reward units.",
    "implicit_reward": "Rewards of tokens, as log-ratios of a model that was fitted to outcomes.",
    "prm": "Process reward of each step, from labels of steps.",
    "sweet": "Advantages of turns by a critic that sees the reference artefact.",
}
"""What each credit model predicts, as its class says it: to list them, torch need not be there."""
FREE = {"allow_extra_args": True, "ignore_unknown_options": True}


def fit(
    context: typer.Context,
    kind: str = typer.Argument(help="value_head, …; see `apportion models list`."),
    path: Path = typer.Argument(help="Rollouts, as for assign."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder for checkpoints and the finished model."),
    backbone: str = typer.Option("small", "--backbone", help="small, or a folder or hub name of transformers."),
    tune: str = typer.Option("all", "--tune", help="What learns besides the head: all, lora or none."),
    device: str = typer.Option(None, "--device", help="cpu, cuda, …; default the GPU where there is one."),
    vocabulary: int = typer.Option(
        None, "--vocabulary", min=2, help="Token ids that a small backbone knows; default those of the rollouts."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on from the newest checkpoint in the folder."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Fit a credit model. Further options are its parameters and those of the fit (--epochs, --lr, --gamma, …).

    Stopped at any time, the same command with --resume goes on to the same numbers.

    Example: apportion models fit value_head runs.jsonl --out values/ --level step --epochs 5
    """
    model = _kind(kind)
    if resume and not (out / "checkpoints").is_dir():
        raise ConfigError(f"{out} holds no checkpoint to resume from; run without --resume")
    batch = read_rollouts(path, form=form, group_by=None, skip_bad=skip_bad)
    from apportion.models.backbone import backbone_for

    params = method_params(context.args)
    room = {} if vocabulary is None else {"vocabulary": vocabulary}
    trunk = backbone_for(batch, backbone, model.BACKBONE, tune=tune, device=device, **room)
    with progress(f"fitting {kind}") as advance:

        def told(_: int, total: int, loss: float) -> None:
            advance(note=f"loss {loss:.3g}", total=total)

        fitted = model.fit(batch, backbone=trunk, out=out, resume=resume, progress=told, **params).fitted
    _report(kind, fitted, out, json)


def evaluate(
    path: Path = typer.Argument(help="Rollouts, as for assign."),
    folder: Path = typer.Option(..., "--model", help="Folder of a fitted model."),
    labels: str = typer.Option(
        None, "--labels", help="For prm: a part of the rewards, or a file of credit; default what it was fitted to."
    ),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Measure a fitted model on other rollouts, with 95% intervals over trajectories.

    Example: apportion models eval fresh.jsonl --model values/
    """
    model = load_model(folder)
    if labels is not None and not hasattr(model, "labels"):
        raise ConfigError(f"{folder} holds a {type(model).__name__}, which is measured by outcomes; drop --labels")
    batch = read_rollouts(path, form=form, group_by=None, skip_bad=skip_bad)
    found = model.measure(batch) if labels is None else model.measure(batch, labels=labels)
    if json:
        emit_json({"schema": "apportion.models.eval/1", "model": str(folder), **found})
        return
    _measures(f"{folder} on {path}", found)


def predict(
    path: Path = typer.Argument(help="Rollouts, as for assign."),
    folder: Path = typer.Option(..., "--model", help="Folder of a fitted model."),
    out: Path = typer.Option(..., "--out", "-o", help="The rollouts with what the model predicts."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
) -> None:
    """Write rollouts with the columns that a fitted model predicts (values, rewards, log-probabilities).

    Example: apportion models predict runs.jsonl --model values/ --out valued.jsonl
    """
    from apportion.data import write

    batch = load_model(folder).predict(read_rollouts(path, form=form, group_by=None, skip_bad=skip_bad))
    write(out, batch)
    remark(f"{len(batch)} rollouts with predictions are in {out}")


def kinds(json: bool = typer.Option(False, "--json", help="One JSON document on stdout.")) -> None:
    """List the credit models."""
    if json:
        emit_json({"schema": "apportion.models/1", "models": ABOUT})
        return
    table("credit models", ["name", "what it predicts"], [list(row) for row in ABOUT.items()])


for _name, _command, _settings in (
    ("list", kinds, None),
    ("fit", fit, dict(FREE)),
    ("eval", evaluate, None),
    ("predict", predict, None),
    ("search", search, None),
):
    models.command(_name, cls=Command, help=_command.__doc__, context_settings=_settings)(stoppable(_command))


def load_model(folder: Path) -> Any:
    """A fitted model from its folder."""
    _torch()
    from apportion.models import load

    return load(folder)


def predicted(model: Any, units: Units) -> Units:
    """The units with what the model predicts for them."""
    from apportion.units import with_batch

    with progress(f"predicting for {len(units.batch)} trajectories"):
        return with_batch(units, model.predict(units.batch))


def _torch() -> None:
    import importlib.util

    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise missing_extra("a credit model", package, "train")


def _kind(name: str) -> Any:
    if name not in ABOUT:
        raise ConfigError(f"no credit model is named {name!r}; there are {', '.join(ABOUT)}")
    _torch()
    from apportion.models import KINDS

    return KINDS[name]


def _report(kind: str, fitted: Fitted, out: Path, json: bool) -> None:
    if json:
        emit_json({"schema": "apportion.models.fit/1", "kind": kind, "out": str(out), **fitted.to_mapping()})
        return
    _measures(f"{kind} in {out}: {fitted.steps} steps, {fitted.tokens:,} tokens read", fitted.measures)


def _measures(title: str, found: dict[str, Any]) -> None:
    rows = [["held-out trajectories", str(found.get("trajectories", 0)), ""]]
    for name, told in found.items():
        if isinstance(told, list):
            value, low, high = (math_text(x) for x in told)
            rows.append([name.replace("_", " "), value, f"{low} to {high}"])
    table(title, ["", "measured", "95% interval"], rows)


def math_text(x: float | None) -> str:
    """A number in three digits; a dash where there is none."""
    return "–" if x is None else f"{x:.3g}"
