"""``apportion play``: rollouts of a policy that a run left."""

from __future__ import annotations

from pathlib import Path

import typer

from apportion.cli.output import emit_json, progress, remark
from apportion.errors import missing_extra


def play(
    run: Path = typer.Argument(help="Folder of a training run, whose environment and policy are played."),
    out: Path = typer.Option(..., "--out", "-o", help="File of the rollouts."),
    tasks: int = typer.Option(16, "--tasks", min=1, help="How many tasks."),
    rollouts: int = typer.Option(8, "--rollouts", min=1, help="Rollouts of each task, from the same start state."),
    first: int = typer.Option(0, "--first", min=0, help="Seed of the first task; the others follow."),
    seed: int = typer.Option(0, "--seed", min=0, help="Of the draws."),
    start: bool = typer.Option(False, "--start", help="The policy as reinforcement learning began, not as it ended."),
    greedy: bool = typer.Option(False, "--greedy", help="Take the likeliest token."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Play the environment of a run with its policy, and write the rollouts.

    They carry the reference of the task where the environment has one (colspec), for critics that may see it.

    Example: apportion play runs/mine --tasks 64 --rollouts 8 --out runs.jsonl
    """
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise missing_extra("playing a policy", "torch", "train")
    from apportion.data import Trajectory, write
    from apportion.train.saved import of_run

    _, policy, collector = of_run(run, which="start" if start else "policy")
    made: list[Trajectory] = []
    right = 0
    with progress(f"playing {tasks} tasks", total=tasks) as advance:
        for task in range(first, first + tasks):
            found = collector.collect(
                policy, [task], rollouts=rollouts, stream=(seed, PLAY_STREAM, task), greedy=greedy
            )
            made += found.trajectories
            right += sum(found.success_N)
            advance()
    write(out, made)
    share = right / len(made)
    if json:
        emit_json({"schema": "apportion.play/1", "out": str(out), "rollouts": len(made), "success": share})
        return
    remark(f"{len(made)} rollouts of {tasks} tasks are in {out}; {share:.1%} of them succeeded")


PLAY_STREAM = 14
"""Apart from the draws of training."""
