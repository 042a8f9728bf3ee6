"""Step-level beam search: every kept rollout is gone on with several actions, and those of highest promise are kept.

    start    width x branch actions are sampled from the start state
    step     branch actions from each kept rollout that is not over; equal ones are carried out once
    keep     the width of highest promise, rollouts that are over among them
    end      all that are kept are over; the first of them is the answer

The environment goes back to each kept moment by its snapshots.

Source    AgentPRM (arXiv:2511.08325), its beam of N x M.
Deviates  Finished rollouts compete for a place with those under way; the paper's text does not say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from apportion.data import Step, Trajectory
from apportion.envs import Snapshot, TextEnv
from apportion.errors import ConfigError, EnvError
from apportion.models.promise import Promises
from apportion.train.rollout import Episode
from apportion.train.sampler import Request, Sampled, sampler_for
from apportion.train.search.players import BEAM_STREAM, Players


@dataclass(slots=True)
class Line:
    """A kept rollout: where it stands, what is asked there (None = it is over), how to come back, and its score."""

    episode: Episode
    due: Request | None
    back: Snapshot | None
    score: float = 0.0


@dataclass(slots=True)
class Beam:
    """The search on one task, and what it has cost.

    Attributes:
        task: its seed. kept: best first. tokens: generated. steps: of the environment. replayed: steps made again to
            come back, where the environment cannot copy its state. scored_steps, scored_tokens: promises asked for, and
        token ids that the model read for them.
    """

    task: int
    env: TextEnv
    kept: list[Line] = field(default_factory=list)
    tokens: int = 0
    steps: int = 0
    replayed: int = 0
    scored_steps: int = 0
    scored_tokens: int = 0

    @property
    def live(self) -> list[tuple[int, Line]]:
        """Kept rollouts that are not over, with their ranks."""
        return [(rank, line) for rank, line in enumerate(self.kept) if line.due is not None]

    def go_back(self, line: Line) -> None:
        """Take the environment to where a rollout stands."""
        assert line.back is not None
        with _copying(self.env):
            self.env.restore(line.back)
        if line.back.state is None:
            self.replayed += len(line.back.actions)


def search_beams(players: Players, promises: Promises, tasks: Sequence[int], *, width: int, branch: int) -> list[Beam]:
    """Search on some tasks at once.

    Args:
        players: environment and policy. promises: of the model. tasks: seeds. width, branch: see the module.

    Raises:
        ConfigError: an environment whose moments cannot be copied.
    """
    beams = [Beam(task, players.env(k)) for k, task in enumerate(tasks)]
    for k, beam in enumerate(beams):
        beam.kept = [_line(players.episode(k, beam.task, 0, (BEAM_STREAM, beam.task)), beam.env)]
    depth = 0
    while any(beam.live for beam in beams):
        grown = _grow(players, beams, branch * (width if depth == 0 else 1), depth)
        for beam, lines in zip(beams, grown, strict=True):
            if not lines:
                continue
            before = promises.tokens
            told = promises.last([_standing(players, line) for line in lines])
            for line, score in zip(lines, told.tolist(), strict=True):
                line.score = score
            beam.scored_steps += len(lines)
            beam.scored_tokens += promises.tokens - before
            over = [line for line in beam.kept if line.due is None]
            beam.kept = sorted([*over, *lines], key=lambda line: -line.score)[:width]
        depth += 1
    return beams


def _grow(players: Players, beams: Sequence[Beam], count: int, depth: int) -> list[list[Line]]:
    """The rollouts that come of ``count`` sampled actions of each live one, by beam."""
    asked: list[Request] = []
    for beam in beams:
        for rank, line in beam.live:
            whole = _whole(line)
            for k in range(count):
                draws = np.random.default_rng([players.seed, BEAM_STREAM, beam.task, depth, rank, k])
                asked.append(whole._replace(episode=len(asked), random=draws))
    sampler = sampler_for(players.policy, micro_tokens=players.config.micro_tokens)
    answers = iter(sampler.act(asked))
    out: list[list[Line]] = []
    for beam in beams:
        lines: list[Line] = []
        for _, line in beam.live:
            sampled = [next(answers) for _ in range(count)]
            beam.tokens += sum(len(s.ids) for s in sampled)
            distinct = {ids: next(s for s in sampled if s.ids == ids) for ids in dict.fromkeys(s.ids for s in sampled)}
            lines += [_after(beam, line, one) for one in distinct.values()]
        out.append(lines)
    return out


def _after(beam: Beam, line: Line, sampled: Sampled) -> Line:
    beam.go_back(line)
    episode = line.episode.fork()
    episode.play(sampled)
    beam.steps += 1
    return _line(episode, beam.env)


def _line(episode: Episode, env: TextEnv) -> Line:
    if episode.over:
        return Line(episode, None, None)
    due = episode.request()
    with _copying(env):
        return Line(episode, due, env.snapshot())


def _whole(line: Line) -> Request:
    """What is asked, with all that the policy has in its context: nothing of it is in a cache."""
    assert line.due is not None
    past: list[int] = []
    if not line.due.fresh:
        for step in line.episode.steps:
            past += [*_ids(step.prompt_ids), *_ids(step.ids)]
    return line.due._replace(context=(*past, *line.due.context), fresh=True)


def _standing(players: Players, line: Line) -> Trajectory:
    """The rollout so far, with the context that comes next as a pending step."""
    rollout = players.trajectory(line.episode, "")
    if line.due is not None:
        text = line.episode.text
        pending = Step(observation=text, action="", prompt_ids=line.due.context, ids=(), fresh=line.due.fresh)
        rollout = replace(rollout, steps=[*rollout.steps, pending])
    return rollout


def _ids(ids: object) -> list[int]:
    out: list[int] = np.asarray(ids, dtype=np.int64).tolist()
    return out


@contextmanager
def _copying(env: TextEnv) -> Iterator[None]:
    """Says of an environment that cannot be copied what to do instead."""
    try:
        yield
    except (EnvError, NotImplementedError) as problem:
        raise ConfigError(
            f"{env.spec.name}: a moment of it cannot be copied ({problem}), and a beam goes on from copies; search "
            "with --mode best-of-n"
        ) from None
