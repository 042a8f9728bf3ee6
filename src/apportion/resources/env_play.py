"""One continuation in an environment while it is played: what the policy is shown, and what it did."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.asks import Continue, Move
from apportion.data import Trajectory
from apportion.data.words import words
from apportion.errors import EnvError
from apportion.resources.context import action_text, path, sampled
from apportion.resources.env_policy import Act, EnvPolicy, Past, Scene
from apportion.resources.env_stage import DETERMINISTIC, Environment, Stage
from apportion.resources.protocol import Refusal, Request, Trouble


class Play:
    """One continuation under way, from a moment to which its environment is brought.

    Raises:
        Refusal: the environment is not where the rollout was.
    """

    def __init__(
        self, number: int, stage: Stage, env: Environment, policy: EnvPolicy, request: Request, limit: int
    ) -> None:
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Continue)
        self.number, self.env, self.ask, self.limit = number, env, ask, limit
        self.random = np.random.default_rng(request.seed)
        self.text = stage.bring(env, rollout, ask.at.step)
        self.noise: int | None = None
        if env.spec.noise != DETERMINISTIC:
            self.noise = int(self.random.integers(2**31))
            self.text = env.restore(env.snapshot(), noise_seed=self.noise)
        *before, last = path(rollout, ask.at.step)
        self.past = [_past(rollout.steps[s]) for s in before]
        step = rollout.steps[last]
        # states are told as the rollout tells them
        self.true_states = step.state is not None and step.state != env.state_key()
        self.prompt = _ids(step.prompt_ids)
        self.fresh = step.fresh
        self.begun: tuple[int, ...] | str = _begun(ask, rollout)
        self.moves: list[Move] = []
        self.sampled = self.generated = 0
        self.over, self.finished = False, True
        whole = self._whole(step, policy)
        if whole is not None:
            self._do(Act(whole, written=""))

    def scene(self) -> Scene:
        """What the policy is shown now."""
        own = not self.moves
        return Scene(
            self.number,
            tuple(self.past),
            self.text,
            self.env.actions(),
            self.random,
            begun=self.begun if own else (),
            prompt_ids=self.prompt if own else None,
            fresh=self.fresh and own,
        )

    def take(self, act: Act) -> None:
        """Carry out what the policy chose."""
        self.generated += act.generated
        self.sampled += len(act.ids) or len(words(act.action if act.written is None else act.written))
        self._do(act)
        too_long = self.ask.max_tokens is not None and self.sampled >= self.ask.max_tokens
        if not self.over and (too_long or len(self.moves) >= self.limit):
            self.over, self.finished = True, False

    def _do(self, act: Act) -> None:
        first, before, listed = not self.moves, self.text, self.env.actions()
        key = self.env.state_key(by="state" if self.true_states else "observation")
        try:
            self.text, reward, terminated, truncated, _ = self.env.step(act.action)
        except EnvError as problem:
            raise Refusal(f"the environment did not take {act.action!r}: {problem}") from problem
        except (OSError, TimeoutError) as problem:
            raise Trouble(f"the environment broke: {type(problem).__name__}: {problem}") from problem
        begun = self.begun if first and not isinstance(self.begun, str) else ()
        self.past.append(Past(before, act.action, (*begun, *act.ids) if act.ids or begun else None))
        self.moves.append(
            Move(
                ids=act.ids,
                logp=act.logp,
                action=act.action if act.written is None else act.written,
                reward=float(reward),
                observation="" if first else before,
                prompt_ids=() if first else act.prompt_ids,
                state=key,
                terminated=bool(terminated),
                truncated=bool(truncated),
                fresh=act.fresh and not first,
                noise=self.noise if first else None,
                actions=listed,
            )
        )
        self.over = self.over or bool(terminated or truncated)

    def _whole(self, step: Any, policy: EnvPolicy) -> str | None:
        """The first action where it is given, or was written already."""
        if self.ask.first is not None and self.ask.whole:
            if isinstance(self.ask.first, str):
                return self.ask.first
            return policy.text_of(self.ask.first, self.env.actions())
        if self.ask.first is None and 0 < self.ask.at.token == sampled(step):
            if step.action is None:
                raise Refusal("the action is logged as ids alone, so it cannot be played; log Step.action")
            return str(step.action)
        return None


def _begun(ask: Continue, rollout: Trajectory) -> tuple[int, ...] | str:
    """What is written of the action, ids where the rollout has them."""
    step = rollout.steps[ask.at.step]
    if ask.first is not None and ask.whole:
        return ask.first
    if step.ids is None or isinstance(ask.first, str):
        return action_text(step, 0, ask.at.token) + (ask.first if isinstance(ask.first, str) else "")
    return (*_ids(step.ids)[: ask.at.token], *(ask.first or ()))


def _past(step: Any) -> Past:
    return Past(step.observation or "", step.action or "", None if step.ids is None else _ids(step.ids))


def _ids(ids: Any) -> tuple[int, ...]:
    return () if ids is None else tuple(map(int, ids))
