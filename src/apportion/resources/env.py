"""Continuations in an environment: restore the moment, make sure that it is the one, let the policy play on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from apportion.asks import Continuation, Continue, Place
from apportion.data import Trajectory
from apportion.errors import ConfigError
from apportion.resources.base import BaseResource
from apportion.resources.context import path, sampled
from apportion.resources.env_play import Play
from apportion.resources.env_policy import Act, EnvPolicy
from apportion.resources.env_stage import Environment, Make, Stage, noises
from apportion.resources.past import context_size, digest_upto, has_ids, rest_of
from apportion.resources.protocol import Load, Refusal, Reply, Request, Trouble


class EnvResource(BaseResource):
    """Answers `Continue` by playing on in a text environment.

    A rollout says in ``meta`` how its environment is started again: ``seed``; ``env`` and ``env_options`` where
    environments are made by name; ``noise_seed`` where it was reset with one. The embedded trainer records them.

    Args:
        env: an environment with the protocol of `apportion.envs.TextEnv` (then one continuation at a time), or a
            function that makes one by name and options, such as `apportion.envs.make`.
        policy: who plays on; `FunctionPolicy`, `TextAgent`, or the embedded trainer's `apportion.train.TrainedPolicy`.
        compare: what is compared with the rollout before anything is asked: "state" (`Step.state` where there is one,
            else the observation) or "observation".
        max_steps: actions of one continuation at most; longer ones come back unfinished. None = no limit of ours.
        batch: continuations that are played side by side.
        identity: of the environment's version, part of every cache key.

    Where the environment is noisy, each continuation draws noise of its own from the restored moment on, and moments
    that differ in earlier noise share no answers, even if they look alike.
    """

    name = "env"
    kinds = frozenset({"continue"})

    def __init__(
        self,
        env: Environment | Make,
        policy: EnvPolicy,
        *,
        compare: str = "state",
        max_steps: int | None = None,
        batch: int = 64,
        identity: str = "",
    ) -> None:
        if not isinstance(policy, EnvPolicy):
            raise ConfigError(
                f"env: {type(policy).__name__} is no policy; wrap a function in FunctionPolicy, a model in TextAgent"
            )
        if batch < 1 or (max_steps is not None and max_steps < 1):
            raise ConfigError(f"env: batch={batch}, max_steps={max_steps}; give whole numbers from 1 on")
        self._stage = Stage(env, compare=compare)
        self.policy, self.max_steps = policy, max_steps
        self.batch = 1 if self._stage.single else batch
        self.identity = f"env:{identity}:{max_steps}:{policy.identity}"
        self._plays = itertools.count()

    def check(self, request: Request) -> str:
        """Whether the environment can be started again, and the policy do what is asked."""
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Continue)
        if ask.without:
            return "an environment answers what was done in it; agents cannot be left out of its past"
        if sentence := self._stage.unfit(rollout, ask.at):
            return sentence
        if _begins_inside(ask, rollout) and not self.policy.completes:
            return f"{ask.at} is inside an action, and this policy chooses whole actions; ask at the beginning of steps"
        return ""

    def content(self, request: Request) -> bytes:
        """Everything before the place; of a noisy environment also the noise that shaped it."""
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Continue)
        way = path(rollout, ask.at.step)
        shaped = repr((rollout.meta.get("noise_seed"), noises([rollout.steps[s] for s in way])))
        return digest_upto(rollout, ask.at) + (shaped.encode() if len(way) > 1 else b"")

    def load(self, request: Request) -> Load:
        """Prompt: what stood before the place, as ids (what the environment adds later is not known, nor counted).

        Generated: as many actions as there is time for, each as long as the policy allows.
        """
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Continue)
        if not self.policy.most_tokens:
            return Load()
        most = self._steps_left(rollout, ask.at) * self.policy.most_tokens
        if ask.max_tokens is not None:
            most = min(most, ask.max_tokens + self.policy.most_tokens)
        rest = rest_of(rollout, ask.at.step, ask.at.token)
        return Load(_prompt_tokens(rollout, ask.at), most, float(min(rest, most)))

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """Play them side by side."""
        out: dict[int, Reply | Trouble | Refusal] = {}
        plays: dict[int, Play] = {}
        for k, request in enumerate(requests):
            ask, rollout = request.ask, request.trajectory
            assert isinstance(ask, Continue)
            env, limit = self._stage.borrow(rollout), self._steps_left(rollout, ask.at)
            try:
                plays[k] = Play(next(self._plays), self._stage, env, self.policy, request, limit)
            except (Trouble, Refusal) as problem:
                out[k] = problem
                self._stage.give_back(rollout, env)
        try:
            self._play(plays, out)
        finally:
            for k, play in plays.items():
                self._stage.give_back(requests[k].trajectory, play.env)
        for k, play in plays.items():
            if k not in out:
                tokens = self.load(requests[k]).prompt_tokens
                out[k] = Reply(Continuation(tuple(play.moves), True, play.finished), tokens, play.generated)
        return [out[k] for k in range(len(requests))]

    def _play(self, plays: dict[int, Play], out: dict[int, Reply | Trouble | Refusal]) -> None:
        """One action of everybody at a time, until all are over; what goes wrong is put into ``out``."""
        while live := {k: play for k, play in plays.items() if not play.over}:
            acts = self.policy.act([play.scene() for play in live.values()])
            for (k, play), act in zip(live.items(), acts, strict=True):
                try:
                    if not isinstance(act, Act):
                        raise act
                    play.take(act)
                except (Trouble, Refusal) as problem:
                    out[k], play.over = problem, True

    def _steps_left(self, rollout: Trajectory, place: Place) -> int:
        """Actions until a limit, that of the environment or ours."""
        left = int(self._stage.spec(rollout).max_steps) - len(path(rollout, place.step)) + 1
        return max(min(left, left if self.max_steps is None else self.max_steps), 1)


def _begins_inside(ask: Continue, rollout: Trajectory) -> bool:
    if ask.first is not None:
        return not ask.whole
    return 0 < ask.at.token < sampled(rollout.steps[ask.at.step])


def _prompt_tokens(rollout: Trajectory, place: Place) -> int:
    return context_size(rollout, place) if has_ids(rollout) else 0
