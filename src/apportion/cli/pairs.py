"""``apportion pairs rank|train``: turns that a policy could have taken, ranked, and a policy trained on the pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from apportion.cli.flags import Command, Group
from apportion.cli.interrupt import stoppable
from apportion.cli.models import load_model, math_text
from apportion.cli.output import emit_json, progress, remark, table
from apportion.cli.sources import load as read_rollouts
from apportion.errors import ConfigError, missing_extra

pairs = typer.Typer(
    name="pairs", cls=Group, help="Rank turns that a policy could have taken, and train it on the pairs."
)


def rank(
    path: Path = typer.Argument(help="Rollouts of the run's policy, as `apportion play` writes them."),
    run: Path = typer.Option(..., "--run", help="Folder of the training run whose policy draws the candidates."),
    critic: Path = typer.Option(..., "--critic", help="Folder of a fitted `sweet` critic, which ranks them."),
    out: Path = typer.Option(..., "--out", "-o", help="File of the pairs."),
    candidates: int = typer.Option(16, "--candidates", help="Turns drawn at each turn of a rollout."),
    count: int = typer.Option(4, "--pairs", help="Pairs of each turn at most."),
    quantile: float = typer.Option(0.5, "--quantile", help="Chosen from this share on top, rejected from that below."),
    share: float = typer.Option(1.0, "--share", help="Share of the turns that is looked at."),
    seed: int = typer.Option(0, "--seed", help="Of all draws."),
    resume: bool = typer.Option(False, "--resume", help="Go on with a ranking that was stopped, to the same pairs."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Draw candidate turns from the policy, rank them with a critic, and write pairs: SWEET-RL's second stage.

    The critic may see Trajectory.reference; the policy is shown its own prompts and nothing else. The file is JSONL
    that TRL's DPO trainer reads.

    Example: apportion pairs rank runs.jsonl --run runs/mine --critic critic/ --out pairs.jsonl
    """
    _torch()
    from apportion.train.ranking import RankSettings
    from apportion.train.ranking import rank as ranked
    from apportion.train.saved import of_run

    settings = RankSettings(candidates=candidates, pairs=count, quantile=quantile, share=share, seed=seed)
    _, policy, _ = of_run(run)
    model = load_model(critic)
    if not hasattr(model, "last_turns"):
        raise ConfigError(
            f"{critic} holds a {type(model).__name__}, which scores no turns; give a fitted `sweet` critic"
        )
    batch = read_rollouts(path, form=None, group_by=None, skip_bad=skip_bad)
    with progress("ranking turns") as advance:
        found = ranked(
            policy,
            model,
            batch,
            settings=settings,
            out=out,
            resume=resume,
            progress=_steps(advance),
        )
    told = {"turns": found.turns, "tied": found.tied, "candidates": found.candidates, "tokens": found.tokens}
    if json:
        emit_json({"schema": "apportion.pairs.rank/1", "out": str(out), "pairs": len(found.pairs), **told})
        return
    remark(
        f"{len(found.pairs)} pairs of {found.turns} turns are in {out}; {found.candidates} candidates drawn, "
        f"{found.tokens:,} tokens; {found.tied} turns gave no pair, all of their candidates alike"
    )


def train(
    path: Path = typer.Argument(help="Pairs, as `apportion pairs rank` writes them."),
    run: Path = typer.Option(..., "--run", help="Folder of the run whose policy is trained; it is the reference too."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder of the new run: policy, config.json, checkpoints."),
    loss: str = typer.Option("turn_dpo", "--loss", help="turn_dpo, dpo, or treg_dpo for pairs with token rewards."),
    beta: float = typer.Option(None, "--beta", help="Reward per nat; default that of the loss, 0.1."),
    nll: float = typer.Option(None, "--nll", help="Weight of the chosen turns' likelihood; turn_dpo has 0.01."),
    alpha: float = typer.Option(None, "--alpha", help="Weight of treg_dpo's token term; it has 0.25."),
    epochs: int = typer.Option(1, "--epochs", help="Passes over the pairs."),
    lr: float = typer.Option(1e-4, "--lr", help="Of AdamW."),
    batch_tokens: int = typer.Option(2048, "--batch-tokens", help="Tokens of one step."),
    held_out: float = typer.Option(0.1, "--held-out", help="Share of the tasks that is kept for the measures."),
    seed: int = typer.Option(0, "--seed", help="Of the order and of the held-out tasks."),
    resume: bool = typer.Option(False, "--resume", help="Go on from the newest checkpoint, to the same numbers."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Train a run's policy on pairs of turns with DPO.

    The new folder is a run like any other: it can be played, ranked again, or trained on with --start OUT/policy.

    Example: apportion pairs train pairs.jsonl --run runs/mine --out runs/better
    """
    _torch()
    from apportion.data.pairs import read_pairs
    from apportion.models import Settings
    from apportion.train.preference import prefer
    from apportion.train.saved import of_run, write_config

    settings = Settings(epochs=epochs, lr=lr, batch_tokens=batch_tokens, held_out=held_out, seed=seed)
    given = {name: value for name, value in (("beta", beta), ("nll", nll), ("alpha", alpha)) if value is not None}
    rows = read_pairs(path)
    config, policy, _ = of_run(run)
    with progress("training on pairs") as advance:

        def told(_: int, total: int, value: float) -> None:
            advance(note=f"loss {value:.3g}", total=total)

        fitted = prefer(
            policy, rows, loss=loss, loss_params=given, settings=settings, out=out, resume=resume, progress=told
        )
    write_config(out, config, start=run / "policy")
    if json:
        emit_json({"schema": "apportion.pairs.train/1", "out": str(out), "loss": loss, **fitted.to_mapping()})
        return
    _report(out, fitted.losses, fitted.measures)


def _report(out: Path, losses: list[float], measures: Mapping[str, Any]) -> None:
    value, low, high = (math_text(x) for x in measures["accuracy"])
    rows = [
        ["loss of the first and last pass", f"{losses[0]:.4f}, {losses[-1]:.4f}", ""],
        ["held-out pairs", str(measures["pairs"]), ""],
        ["moved towards the chosen turn", value, f"{low} to {high}"],
    ]
    table(f"the policy in {out}", ["", "measured", "95% interval"], rows)


def _steps(advance: Any) -> Any:
    """Done and total as steps of a bar."""
    seen = 0

    def told(done: int, total: int) -> None:
        nonlocal seen
        advance(done - seen, total=total)
        seen = done

    return told


def _torch() -> None:
    import importlib.util

    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise missing_extra("training on pairs", package, "train")


for _name, _command in (("rank", rank), ("train", train)):
    pairs.command(_name, cls=Command, help=_command.__doc__)(stoppable(_command))
