"""Rows in, numbers for every row out: the part that both trainers of verl share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from apportion.adapters.crediting import Crediting
from apportion.adapters.memory import credit_and_memory
from apportion.adapters.verl.contract import no_target, value_readers
from apportion.adapters.verl.rollouts import Part, Rollouts, is_nan, rollouts_of
from apportion.adapters.verl.settings import Settings
from apportion.assign import parse
from apportion.assign.expression import Leaf, render
from apportion.credit import Credit
from apportion.data import Batch
from apportion.errors import ConfigError, DataError, StopRun
from apportion.methods import get
from apportion.methods.pooled_memory import Memory
from apportion.numerics import FloatArray

BROUGHT_BY = {
    "value_S": "critic.enable=true brings values of tokens, the list 'values' of the agent loop those of steps",
    "ref_logp_S": "actor_rollout_ref.actor.use_kl_loss=true or algorithm.use_kl_in_reward=true load a reference policy",
    "entropy_S": "the newer trainer has entropies, unless algorithm.rollout_correction.bypass_mode skips that pass",
    "agent_S": "the agent loop tells 'agents', one name for each step",
    "reward_parts": "the agent loop tells 'step_parts', rewards by name for each step",
    "outcome_parts": "what the reward function returns beside the score, or 'outcomes' of the agent loop",
    "column:": "the agent loop tells 'columns', by name one number for each response token",
}
"""Where verl's users get what a method may lack, by the beginning of its name."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """Numbers per response token, by the row's place in the host's batch; padding rows are not in it.

    Attributes:
        advantage: credit, 0 where the policy did not sample. weight: 1 where the loss counts the token.
        returns: what a critic learns; without one, the advantages, as everywhere in verl.
        drops: some sampled token is to leave the loss. metrics: about the credit, for the trainer's log.
        stopped: why a listener wants the run to end; None where none does.
        memory: of the method for the next batch; that which was given where it remembers nothing.
    """

    advantage: Mapping[int, FloatArray]
    weight: Mapping[int, FloatArray]
    returns: Mapping[int, FloatArray]
    drops: bool
    metrics: Mapping[str, float]
    stopped: str | None = None
    memory: Memory = field(default_factory=Memory)


def credit_rows(
    settings: Settings,
    parts: Sequence[Part],
    *,
    with_returns: bool = False,
    step: int | None = None,
    memory: Memory | None = None,
) -> Result:
    """Credit whole rollouts and lay it back onto their rows.

    Args:
        settings: method, cut and log. parts: rows in any order, whole groups, without padding rows.
        with_returns: a critic is trained, so returns must be the values' targets. step: of the trainer, for the log.
        memory: of earlier batches, for a method that has one; None = none.
    """
    rollouts = rollouts_of(parts, penalty_apart=settings.penalty_apart)
    states = _states_told(settings.crediting, rollouts.batch)
    try:
        credit, after = credit_and_memory(settings.crediting, rollouts.batch, memory or Memory())
    except DataError as reason:
        brings = next((how for column, how in BROUGHT_BY.items() if f" reads {column}" in str(reason)), None)
        if brings is None:
            raise
        raise DataError(f"{reason}. In verl: {brings}") from reason
    if settings.log is not None and step is not None:
        settings.log(credit, step)
    told, stopped = _heard(settings, credit, step)
    tokens = credit.to_tokens()
    settings.untrained.look(credit, tokens)
    placed = rollouts.onto_rows(tokens)
    advantage = {at: own[0] for at, own in placed.items()}
    weight = {at: own[1] for at, own in placed.items()}
    returns = _returns(settings.crediting, rollouts, credit) if with_returns else advantage
    counted = tokens.advantage_T[tokens.weight_T != 0]
    sampled = int(rollouts.batch.sampled_T.sum())
    metrics = {
        "credit/mean_abs": float(np.abs(counted).mean()) if len(counted) else 0.0,
        "credit/share_of_tokens_trained": len(counted) / max(sampled, 1),
        **{f"credit/{key}": float(note) for key, note in credit.notes.items() if isinstance(note, int | float)},
        **states,
        **_broken_rewards(parts),
        **told,
    }
    return Result(advantage, weight, returns, len(counted) < sampled, metrics, stopped, after)


def _states_told(crediting: Crediting, batch: Batch) -> dict[str, float]:
    """Share of the steps whose state the agent loop told, for a method that compares states."""
    if not crediting.reads("state_S"):
        return {}
    acted = [
        step for trajectory in batch.trajectories for step in trajectory.steps if step.ids is not None and len(step.ids)
    ]
    share = sum(step.state is not None for step in acted) / max(len(acted), 1)
    if share < 1:
        warnings.warn(
            f"{crediting.method!r} compares states, and the agent loop tells 'states' for {'some' if share else 'no'} "
            "steps (metric credit/share_of_states_told): for the others the tokens that are new before them stand in, "
            "the prompt before the first and a tool's answer before later ones",
            stacklevel=2,
        )
    return {"credit/share_of_states_told": share}


def _broken_rewards(parts: Sequence[Part]) -> dict[str, float]:
    """How many step rewards are NaN. They count as not told, which is also what a broken environment looks like."""
    count = sum(is_nan(reward) for part in parts for reward in part.told.get("step_rewards") or ())
    if not count:
        return {}
    warnings.warn(
        "the agent loop tells step rewards that are NaN (metric credit/nan_step_rewards counts them): they count as "
        "not told; give None where a step has no reward, and a number elsewhere",
        stacklevel=2,
    )
    return {"credit/nan_step_rewards": float(count)}


def _heard(settings: Settings, credit: Credit, step: int | None) -> tuple[Mapping[str, float], str | None]:
    """Numbers of the listener, and why it wants the run to end."""
    if settings.on_credit is None or step is None:
        return {}, None
    try:
        return settings.on_credit(credit, step) or {}, None
    except StopRun as stop:
        return stop.numbers, str(stop)


def _returns(crediting: Crediting, rollouts: Rollouts, credit: Credit) -> dict[int, FloatArray]:
    """Advantage plus value of the one method that reads values, before any transform changed it."""
    readers = value_readers(crediting)
    if len(readers) != 1:
        raise ConfigError(no_target(crediting))
    whole = parse(crediting.method)
    if not isinstance(whole, Leaf) or whole.params:
        takes = get(readers[0].name).defaults
        given = {name: value for name, value in crediting.params.items() if name in takes}
        alone = replace(
            crediting, method=render(readers[0]), unit=_cut(crediting), params={**readers[0].params, **given}
        )
        credit = alone.credit(rollouts.batch)
    value_S = credit.units.value_S
    assert value_S is not None
    target = replace(credit, advantage_S=credit.advantage_S + value_S, parts={})
    return {at: own[0] for at, own in rollouts.onto_rows(target.to_tokens()).items()}


def _cut(crediting: Crediting) -> str:
    """The unit of the whole expression, said of a part of it."""
    level, options = crediting.cut
    return f"{level}({', '.join(f'{name}={value!r}' for name, value in options.items())})" if options else level
