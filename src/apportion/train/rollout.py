"""Rollouts: many episodes at once, several per task from the same start state, as trajectories of the data room."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.data import Step, Trajectory
from apportion.envs import DETERMINISTIC, TextEnv, make
from apportion.train.policy import Policy
from apportion.train.prompt import Dialogue
from apportion.train.sampler import Request, Sampled, Sampler, sampler_for


@dataclass(frozen=True, slots=True)
class Rollouts:
    """What one collection gave.

    trajectories: group = task, in order of tasks. success_N, return_N, steps_N: of each episode. tokens: sampled in
    all. reused: share of the decisions whose distribution was known from an equal prompt.
    """

    trajectories: tuple[Trajectory, ...]
    success_N: tuple[bool, ...]
    return_N: tuple[float, ...]
    steps_N: tuple[int, ...]
    tokens: int
    reused: float


class Collector:
    """Plays episodes of one environment; keeps the environments between collections.

    Args:
        env, options: as for `apportion.envs.make`.
        micro_tokens: tokens of one pass of the model.
    """

    def __init__(self, env: str, options: Mapping[str, Any], *, micro_tokens: int = 8192) -> None:
        self.name, self.options, self.micro_tokens = env, dict(options), micro_tokens
        self._envs: list[TextEnv] = [make(env, **self.options)]

    @property
    def env(self) -> TextEnv:
        """One environment, for questions about it."""
        return self._envs[0]

    def collect(
        self,
        policy: Policy,
        task_seeds: Sequence[int],
        *,
        rollouts: int = 1,
        stream: Sequence[int] = (0,),
        greedy: bool = False,
        name: str = "",
    ) -> Rollouts:
        """Play every task ``rollouts`` times.

        Args:
            policy: who acts.
            task_seeds: a seed is a task with its start state, and a group.
            rollouts: episodes per task. Where the environment is noisy, each has noise of its own.
            stream: integers that fix the draws; episode k draws from a generator seeded with ``(*stream, k)``.
            greedy: take the likeliest token.
            name: beginning of the trajectories' ids.
        """
        tasks = [seed for seed in task_seeds for _ in range(rollouts)]
        while len(self._envs) < len(tasks):
            self._envs.append(make(self.name, **self.options))
        noisy = self.env.spec.noise != DETERMINISTIC
        episodes = [
            Episode(k, env, seed, k % rollouts, noisy, policy, np.random.default_rng([*stream, k]))
            for k, (env, seed) in enumerate(zip(self._envs, tasks, strict=False))
        ]
        sampler = sampler_for(policy, greedy=greedy, micro_tokens=self.micro_tokens)
        play_out(episodes, sampler)
        asked = getattr(sampler, "asked", 0)
        return Rollouts(
            trajectories=tuple(e.trajectory(f"{name}{e.seed}/{e.member}", self.name, self.options) for e in episodes),
            success_N=tuple(e.success for e in episodes),
            return_N=tuple(e.total for e in episodes),
            steps_N=tuple(len(e.steps) for e in episodes),
            tokens=sum(e.tokens for e in episodes),
            reused=1 - getattr(sampler, "run", 0) / asked if asked else 0.0,
        )


def play_out(episodes: Sequence[Episode], sampler: Sampler) -> None:
    """Play episodes to their ends, all of them at once."""
    live = list(episodes)
    while live:
        for episode, sampled in zip(live, sampler.act([e.request() for e in live]), strict=True):
            episode.play(sampled)
        live = [episode for episode in live if not episode.over]


class Episode:
    """One episode under way.

    Args:
        index: name in requests. env: plays it, and is reset here. seed: of the task. member: of the group.
        noisy: the environment is, and ``member`` picks the noise. policy: who acts. random: of the draws.
    """

    def __init__(
        self,
        index: int,
        env: TextEnv,
        seed: int,
        member: int,
        noisy: bool,
        policy: Policy,
        random: np.random.Generator,
    ) -> None:
        self.index, self.env, self.seed, self.member = index, env, seed, member
        self.policy, self.random = policy, random
        self.noise = {"noise_seed": member} if noisy else {}
        self.text, _ = env.reset(seed=seed, options=dict(self.noise) or None)
        tell = getattr(env, "reference", None)  # environments of others may lack it
        self.reference: str | None = tell() if callable(tell) else None
        self.dialogue = Dialogue(policy.prompts)
        self.steps: list[Step] = []
        self.over, self.success, self.total, self.tokens = False, False, 0.0, 0

    def request(self) -> Request:
        """What is asked of the policy now; the environment must be at this moment."""
        self.listed = None if self.policy.free_text else self.env.actions()
        self.choices = None if self.listed is None else self.policy.choices(self.listed)
        self.context, self.fresh = self.dialogue.see(self.text)
        return Request(self.index, self.context, self.fresh, self.choices, self.random)

    def play(self, sampled: Sampled) -> None:
        """Carry out what the policy answered to the last request; the environment must be at this moment."""
        self.dialogue.act(sampled.ids)
        if self.choices is not None:
            action = self.choices.action(sampled.ids)
        else:
            action = self.policy.tokenizer.decode(sampled.ids, skip_special_tokens=True).strip()
        state, before = self.env.state_key(), self.text
        self.text, reward, terminated, truncated, info = self.env.step(action)
        self.over = terminated or truncated
        self.success = bool(info.get("success", False))
        self.total += reward
        self.tokens += len(sampled.ids)
        self.steps.append(
            Step(
                observation=before,
                action=action,
                prompt_ids=self.context,
                ids=sampled.ids,
                fresh=self.fresh,
                logp=sampled.logp,
                entropy=sampled.entropy,
                reward=reward,
                state=state,
                terminated=terminated,
                truncated=truncated,
                actions=self.listed,
            )
        )

    def fork(self) -> Episode:
        """Another episode with this past and the same environment; who goes on restores that to this moment."""
        twin = copy.copy(self)
        twin.dialogue, twin.steps = copy.copy(self.dialogue), list(self.steps)
        return twin

    def trajectory(self, id: str, env: str, options: Mapping[str, Any]) -> Trajectory:
        """What was played; ``meta`` says how its environment is started again."""
        return Trajectory(
            self.steps,
            group=f"{env}/{self.seed}",
            id=id,
            final_observation=self.text,
            reference=self.reference,
            meta={
                "env": env,
                "env_options": dict(options),
                "seed": self.seed,
                **self.noise,
                "success": self.success,
            },
        )
