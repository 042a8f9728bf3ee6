"""The search over all tasks: some at once, each part kept as soon as it is done, so that a stopped search goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from apportion.data import Trajectory, read_jsonl, write_jsonl
from apportion.data.atomic import atomic_write
from apportion.envs import make
from apportion.errors import CheckpointError, ConfigError
from apportion.models import load
from apportion.models.promise import Promises
from apportion.train.config import TrainConfig
from apportion.train.player import digest_of, digest_of_weights
from apportion.train.policy import Policy
from apportion.train.rollout import Episode
from apportion.train.search.beam import Beam, search_beams
from apportion.train.search.players import Players
from apportion.train.search.results import Found, found
from apportion.train.search.settings import OF_RUN, SearchSettings

FORMAT = "apportion.search/1"
PART = "promise"


def search(
    config: TrainConfig,
    model: Any,
    settings: SearchSettings | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Search on tasks, and measure it against its controls.

    Args:
        config: environment and policy (``start``), see `run_config`.
        model: folder of a fitted model, or the model: `AgentPRM`, `ArCHerCritic`, or a `ValueHead` of steps.
        settings: see `SearchSettings`.
        out: folder for ``search.json`` and ``trajectories.jsonl``, the rollouts with `Step.rewards` ``promise`` and, in
            ``meta["search"]``, what they are; None = neither.
        resume: go on with the search in ``out``; its numbers are those of one that was not stopped.
        progress: called with tasks done and tasks in all.

    Raises:
        ConfigError: a model that gives no promises of steps, or that does not know all of the policy's token ids; an
            environment that cannot be copied, for a beam; a folder that holds a search, and ``resume`` is not given.
        CheckpointError: nothing to go on with, or a search of another policy, model or other settings.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        return _search(config, model, settings or SearchSettings(), out, resume, progress)
    finally:
        torch.set_num_threads(before)


def _search(
    config: TrainConfig,
    model: Any,
    settings: SearchSettings,
    out: str | Path | None,
    resume: bool,
    progress: Callable[[int, int], None] | None,
) -> Found:
    fitted = load(model) if isinstance(model, str | Path) else model
    promises = Promises(fitted)
    policy = Policy.from_config(config, make(config.env, **config.env_options))
    _check_ids(fitted, len(policy.tokenizer))
    told = config.to_mapping()
    about = {name: told[name] for name in OF_RUN if name != "eval_options"}
    about |= {"policy": config.start, "model": str(model) if isinstance(model, str | Path) else type(fitted).__name__}
    marks = {"settings": settings.to_mapping(), "policy": digest_of(policy), "model": digest_of_weights(fitted)}
    marks |= {name: about[name] for name in ("env", "env_options", "prompt", "window", "actions", "temperature")}
    parts = None if out is None else _Parts(Path(out), marks, resume=resume)
    searcher = _Searcher(config, policy, promises, settings)
    records: list[dict[str, Any]] = []
    for number, tasks in enumerate(settings.chunks):
        known = None if parts is None else parts.records(number)
        if known is None:
            known, rollouts = searcher.on(tasks)
            if parts is not None:
                parts.keep(number, known, rollouts)
        records += known
        if progress is not None:
            progress(len(records), settings.tasks)
    result = found(records, settings, about)
    if searcher.players.noisy:
        result.notes.append(
            "the environment is noisy: rows that choose among rollouts also choose among their luck, which a search in "
            "a world that cannot be played twice could not"
        )
    if parts is not None:
        parts.finish(result, len(settings.chunks))
    return result


class _Searcher:
    def __init__(self, config: TrainConfig, policy: Policy, promises: Promises, settings: SearchSettings) -> None:
        self.players = Players(config, policy, seed=settings.seed)
        self.promises, self.settings = promises, settings

    def on(self, tasks: range) -> tuple[list[dict[str, Any]], list[Trajectory]]:
        """Records and rollouts of some tasks."""
        count = self.settings.rollouts
        records: list[dict[str, Any]] = [{"task": task, "samples": [], "beam": None} for task in tasks]
        rollouts: list[Trajectory] = []
        self._sample(records, [(task, k) for task in tasks for k in range(count)], rollouts)
        if not self.settings.beams:
            return records, rollouts
        how = {"width": self.settings.width, "branch": self.settings.branch}
        for record, beam in zip(records, search_beams(self.players, self.promises, list(tasks), **how), strict=True):
            record["beam"] = self._answer(beam, rollouts)
        while short := [r for r in records if sum(s["tokens"] for s in r["samples"]) < r["beam"]["tokens"]]:
            wanted = [(r["task"], len(r["samples"]) + k) for r in short for k in range(count)]
            self._sample(records, wanted, rollouts)
        return records, rollouts

    def _sample(self, records: list[dict[str, Any]], wanted: list[tuple[int, int]], rollouts: list[Trajectory]) -> None:
        """Play and score; one rollout at a time is scored, so that what each has cost is known."""
        by_task = {record["task"]: record for record in records}
        for (task, k), episode in zip(wanted, self.players.play(wanted), strict=True):
            rollout = self.players.trajectory(episode, f"{task}/sample/{k}")
            before = self.promises.tokens
            promise = self.promises.all([rollout])[0]
            scores = {"last": float(promise[-1]), "min": float(promise.min()), "mean": float(promise.mean())}
            cost = {"tokens": episode.tokens, "steps": len(episode.steps)}
            told = {**_end(episode), **cost, "scored_tokens": self.promises.tokens - before, **scores}
            by_task[task]["samples"].append(told)
            rollouts.append(_marked(rollout, promise.tolist(), {"by": "sample", "number": k, **scores}))

    def _answer(self, beam: Beam, rollouts: list[Trajectory]) -> dict[str, Any]:
        for rank, line in enumerate(beam.kept):
            rollout = self.players.trajectory(line.episode, f"{beam.task}/beam/{rank}")
            rollouts.append(_marked(rollout, None, {"by": "beam", "number": rank, "last": line.score}))
        costs = {
            "tokens": beam.tokens, "steps": beam.steps, "replayed": beam.replayed,
            "scored_steps": beam.scored_steps, "scored_tokens": beam.scored_tokens,
        }  # fmt: skip
        return {**_end(beam.kept[0].episode), **costs, "last": beam.kept[0].score}


class _Parts:
    """The folder of a search: ``parts/`` while it runs, one file of rollouts and one of records for each."""

    def __init__(self, folder: Path, marks: dict[str, Any], *, resume: bool) -> None:
        self.folder, self.parts, begun = folder, folder / "parts", folder / "marks.json"
        if resume:
            if not begun.is_file():
                raise CheckpointError(f"{folder} holds no search to go on with; run without resuming")
            was = json.loads(begun.read_text(encoding="utf-8"))
            if other := [name for name in marks if was.get(name) != json.loads(json.dumps(marks[name]))]:
                raise CheckpointError(
                    f"{folder} holds a search with another {other[0]}; give what it was started with, or another folder"
                )
        elif begun.exists():
            raise ConfigError(f"{folder} holds a search already; resume it, or give another folder")
        self.parts.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(begun, marks)

    def records(self, number: int) -> list[dict[str, Any]] | None:
        """Records of a part that is done."""
        file = self.parts / f"{number:05d}.json"
        if not file.is_file():
            return None
        out: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        return out

    def keep(self, number: int, records: list[dict[str, Any]], rollouts: list[Trajectory]) -> None:
        """Write a part; its records last, so that it is whole or not there."""
        write_jsonl(self.parts / f"{number:05d}.jsonl", rollouts)
        _write(self.parts / f"{number:05d}.json", records)

    def finish(self, result: Found, count: int) -> None:
        """All rollouts in one file, and the result."""
        files = [self.parts / f"{number:05d}.jsonl" for number in range(count)]
        write_jsonl(self.folder / "trajectories.jsonl", (t for file in files for t in read_jsonl(file)))
        _write(self.folder / "search.json", {"schema": FORMAT, **result.to_mapping()})


def _write(file: Path, what: Any) -> None:
    with atomic_write(file) as stream:
        stream.write(json.dumps(what, indent=1, allow_nan=False).encode() + b"\n")


def _end(episode: Episode) -> dict[str, Any]:
    return {"success": episode.success, "return": episode.total}


def _marked(rollout: Trajectory, promise: list[float] | None, what: dict[str, Any]) -> Trajectory:
    """The rollout with its promises and what it is to the search."""
    steps = rollout.steps
    if promise is not None:
        steps = [replace(s, rewards={**s.rewards, PART: p}) for s, p in zip(steps, promise, strict=True)]
    return replace(rollout, steps=steps, meta={**rollout.meta, "search": what})


def _check_ids(model: Any, vocabulary: int) -> None:
    """The trunk of the model must know every id that the policy may sample."""
    trunk = model.backbone
    least = vocabulary + (trunk.source == "small")  # a small trunk begins rows with an id of its own
    if trunk.vocabulary < least:
        raise ConfigError(
            f"the model knows {trunk.vocabulary} token ids and the policy may sample {vocabulary}, so the search could "
            f"end in the middle; fit it with --vocabulary {least}"
        )
