"""Whole rollouts of tasks, as many as are asked for; each depends on its task and number alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apportion.data import Trajectory
from apportion.envs import DETERMINISTIC, TextEnv, make
from apportion.train.config import TrainConfig
from apportion.train.policy import Policy
from apportion.train.rollout import Episode, play_out
from apportion.train.sampler import sampler_for

SAMPLE_STREAM, BEAM_STREAM = 31, 32
"""First of the integers that seed draws, beside those of the trainer."""


class Players:
    """Episodes of one environment under one policy.

    Args:
        config: names the environment, its options and how much is read at once. policy: who acts. seed: of the draws.
    """

    def __init__(self, config: TrainConfig, policy: Policy, *, seed: int) -> None:
        self.config, self.policy, self.seed = config, policy, seed
        self._envs = [make(config.env, **config.env_options)]
        self.noisy = self._envs[0].spec.noise != DETERMINISTIC

    def env(self, k: int) -> TextEnv:
        """The k-th environment; they are kept."""
        while len(self._envs) <= k:
            self._envs.append(make(self.config.env, **self.config.env_options))
        return self._envs[k]

    def episode(self, index: int, task: int, member: int, draws: Sequence[int]) -> Episode:
        """An episode at its start, in environment ``index``."""
        random = np.random.default_rng([self.seed, *draws])
        return Episode(index, self.env(index), task, member, self.noisy, self.policy, random)

    def play(self, tasks: Sequence[tuple[int, int]]) -> list[Episode]:
        """Whole episodes of some (task, number)."""
        episodes = [
            self.episode(k, task, number, (SAMPLE_STREAM, task, number)) for k, (task, number) in enumerate(tasks)
        ]
        play_out(episodes, sampler_for(self.policy, micro_tokens=self.config.micro_tokens))
        return episodes

    def trajectory(self, episode: Episode, id: str) -> Trajectory:
        """What was played."""
        return episode.trajectory(id, self.config.env, self.config.env_options)
