"""Who is asked, from what was said on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.errors import ConfigError, DataError

if TYPE_CHECKING:
    from apportion.cli.asking import Asking
    from apportion.data import Batch
    from apportion.resources import Resource


def resources_of(asking: Asking, batch: Batch) -> list[Resource]:
    """Everybody that was named.

    Args:
        asking: the options. batch: the rollouts, by which ``--scorer auto`` is found.

    Raises:
        ConfigError: an option that cannot be used.
    """
    out: list[Resource] = []
    reward = _reward_model(asking)
    if asking.resampler:
        out.append(_player(asking) if is_run(asking.resampler) else _writer(asking, batch, reward))
    if reward is not None:
        out.append(reward)
    if asking.judge:
        out.append(_judge(asking))
    return out


def is_run(name: str) -> bool:
    """A folder that `apportion train` wrote: its policy plays on in its environment."""
    return (Path(name) / "policy").is_dir() and (Path(name) / "config.json").is_file()


def _player(asking: Asking) -> Resource:
    """The trained policy of a run, which plays on in the environments that rollouts were made in."""
    from apportion.cli.asking import OPTIONS, said_by
    from apportion.envs import make
    from apportion.resources import EnvResource
    from apportion.train import TrainConfig

    for name in OF_WRITERS:
        if asking.given[name] != OPTIONS[name][1].default:
            raise ConfigError(
                f"{said_by(name)} is for policies that write text, and {asking.resampler} is a run of `apportion "
                "train`, whose policy acts as its config.json says; leave the option out"
            )
    config = TrainConfig.from_file(Path(asking.resampler) / "config.json")
    start = {"start": str(Path(asking.resampler) / "policy"), "clone_episodes": 0}
    config = TrainConfig.from_mapping({**config.to_mapping(), **start})

    from apportion.train.player import TrainedPolicy
    from apportion.train.policy import Policy

    policy = Policy.from_config(config, make(config.env, **config.env_options))
    return EnvResource(make, TrainedPolicy(policy))


OF_WRITERS = ("resampler_model", "reference_model", "tokenizer", "chat", "temperature", "top_p", "max_tokens", "stop",
              "scorer")  # fmt: skip
"""Options that say how a policy writes text and how its text is scored."""


def _writer(asking: Asking, batch: Batch, reward: Any) -> Resource:
    """A policy that writes text: behind a server, or a model in this process."""
    settings: dict[str, Any] = {
        "tokenizer": asking.tokenizer or None,
        "temperature": asking.temperature,
        "top_p": asking.top_p,
        "max_tokens": asking.max_tokens,
        "stop": tuple(asking.stop),
        "reference": asking.reference_model or None,
    }
    policy: Any
    if "://" in asking.resampler:
        from apportion.resources import OpenAIServer

        policy = OpenAIServer(
            asking.resampler,
            asking.resampler_model or None,
            chat=asking.chat,
            key_env=asking.key_env or None,
            timeout=asking.timeout,
            workers=asking.workers,
            option="--resampler",
            **settings,
        )
    elif "@" in asking.resampler and not Path(asking.resampler).exists():  # may hold a password, so it is not repeated
        raise ConfigError("--resampler is neither a model nor an address; an address begins with http:// or https://")
    else:
        from apportion.resources.hf_policy import HFPolicy

        policy = HFPolicy(asking.resampler, **settings)
    try:
        policy.scorer = _scorer(asking, batch, policy, reward)
    except DataError as problem:  # no matter where only probabilities are asked for
        policy.unscored = str(problem)
    return policy  # type: ignore[no-any-return]


def _judge(asking: Asking) -> Resource:
    from apportion.resources.judge_options import judge_from_options

    return judge_from_options(
        asking.judge,
        model=asking.judge_model or None,
        template=asking.judge_template or None,
        temperature=asking.judge_temperature,
        thinking=asking.judge_thinking,
        workers=asking.workers,
        timeout=asking.timeout,
        key_env=asking.key_env or None,
        tokenizer=asking.tokenizer or None,
        judge_tokenizer=asking.judge_tokenizer or None,
    )


def _reward_model(asking: Asking) -> Any:
    if not asking.reward_model:
        return None
    from apportion.resources.hf_reward import HFReward

    return HFReward(asking.reward_model, policy_tokenizer=asking.tokenizer or None)


def _scorer(asking: Asking, batch: Batch, policy: Any, reward: Any) -> Any:
    from apportion.resources.last_answer import recorded_answer
    from apportion.resources.scorers import fitting, scorer_of

    if asking.scorer == "reward":
        if reward is None:
            raise ConfigError("--scorer reward wants a reward model; give --reward-model")
        return reward.as_scorer()
    if asking.scorer != "auto":
        return scorer_of(asking.scorer)
    return fitting(batch.trajectories, lambda rollout: recorded_answer(rollout, policy.spell))
