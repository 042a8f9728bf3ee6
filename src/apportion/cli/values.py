"""``apportion values``."""

from __future__ import annotations

from pathlib import Path

import typer

from apportion.cli.output import emit_json, progress, remark, table
from apportion.cli.sources import load
from apportion.errors import ConfigError


def values(
    path: Path = typer.Argument(help="Rollouts of an environment, as `apportion train` dumps them."),
    run: Path = typer.Option(..., "--run", help="Folder of the training run whose policy made them: it plays on."),
    sources: str = typer.Option(
        "samples:1,samples:9", "--sources", help="Where values come from: samples:K, or data (Step.value)."
    ),
    truth: int = typer.Option(128, "--truth", min=1, help="Continuations from each state that stand for the truth."),
    states: int = typer.Option(64, "--states", min=1, help="States that are measured at most, drawn at random."),
    actions: int = typer.Option(5, "--actions", min=1, help="Next actions tried in each state, for the ranking."),
    gap: float = typer.Option(0.05, "--gap", min=0.0, help="True values closer than this are not ranked."),
    cache: Path = typer.Option(None, "--cache", help="Keep answers in this file, and go on where it stopped."),
    seed: int = typer.Option(0, "--seed", min=0, help="Of the choice of states and of all samples."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Say how good values of states are, against the mean return of many continuations, and how they rank actions.

    Example: apportion values runs/mine/rollouts.jsonl --run runs/mine --sources samples:9
    """
    import numpy as np

    from apportion.asks import Place
    from apportion.assign.values import value_quality
    from apportion.envs import make
    from apportion.methods.moments import starts
    from apportion.resources import Asker, EnvResource, branch
    from apportion.train import TrainConfig
    from apportion.units import by_step

    if not (run / "policy").is_dir() or not (run / "config.json").is_file():
        raise ConfigError(f"{run} holds no trained policy; give the folder of a run of `apportion train`")
    config = TrainConfig.from_file(run / "config.json")
    names = [name.strip() for name in sources.split(",") if name.strip()]
    batch = load(path, form=None, group_by=None, skip_bad=False)
    config = TrainConfig.from_mapping({**config.to_mapping(), "start": str(run / "policy"), "clone_episodes": 0})

    from apportion.train.player import TrainedPolicy
    from apportion.train.policy import Policy

    policy = Policy.from_config(config, make(config.env, **config.env_options))
    random = np.random.default_rng(seed)
    every = [Place(n, s) for n, t in enumerate(batch.trajectories) for s in range(len(t.steps)) if batch.valid_N[n]]
    places = [every[k] for k in random.permutation(len(every))[:states].tolist()]
    with Asker(EnvResource(make, TrainedPolicy(policy)), cache=cache, seed=seed) as ask, progress("playing on"):
        if "data" not in names and actions > 1:
            batch = branch(ask, batch, places, k=actions - 1, who="values")
        units = by_step(batch)
        at = set(places)
        chosen = np.array([place in at for place in starts(units)], dtype=np.bool_)
        found = value_quality(units, names, ask=ask, truth=truth, states=chosen, gap=gap, seed=seed)
        spent = ask.summary
    if json:
        emit_json(
            {
                "schema": "apportion.values/1",
                "sources": {name: quality.to_dict() for name, quality in found.items()},
                "requests": spent.asked,
            }
        )
        return
    rows = []
    for name, q in found.items():
        numbers = (q.errors.absolute, q.errors.within, q.expected_within, q.explained, q.explained_returns)
        rank = (q.ranking.pairwise, q.ranking.top1, q.ranking.chance)
        rows.append([name, str(q.errors.states), *(f"{x:.3f}" for x in (*numbers, *rank))])
    columns = ["values from", "states", "error", "within 0.05", "expected", "EV", "EV of returns"]
    columns += ["pairs", "top-1", "chance"]
    table("values against the mean of many continuations", columns, rows)
    remark("within 0.05 mostly counts states that are nearly lost or won; see the strata in --json")
