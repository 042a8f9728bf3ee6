"""`with_credit`: a GRPOTrainer whose advantages are ours."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from apportion.adapters.crediting import Crediting
from apportion.adapters.rows import HostRow, batch_of, onto_rows
from apportion.adapters.trl.contract import check_attributes, check_class, check_settings, check_weights
from apportion.adapters.trl.environment import Marks, marks_of
from apportion.adapters.trl.memory import credit_of, keep, recall
from apportion.adapters.trl.rollouts import host_row, rows_of, with_whole_lists
from apportion.adapters.trl.scores import scores_of
from apportion.adapters.trl.stopping import OnCredit, heard, listeners_of, stop
from apportion.adapters.untrained import Untrained
from apportion.errors import ConfigError, ResourceError, missing_extra
from apportion.methods.pooled_memory import Memory
from apportion.numerics import FloatArray
from apportion.resources import Asker
from apportion.units import token_texts


def with_credit(
    trainer: type,
    method: str,
    *,
    unit: str = "",
    states: str = "exact",
    ask: Asker | None = None,
    on_credit: OnCredit | Sequence[OnCredit] = (),
    **params: Any,
) -> type:
    """A subclass of TRL's GRPOTrainer that credits by a method of apportion; everything else of a script stays.

        Trainer = with_credit(GRPOTrainer, "gigpo", unit="step", gamma=0.95)
        Trainer(model=..., reward_funcs=..., args=GRPOConfig(...), rollout_func=...).train()

    A group is the completions of one prompt, also where they were made by several processes: ids, masks, rewards and
    what rollouts tell about their steps are gathered, credit is assigned to whole groups, and each process keeps its
    rows. The loss gets advantages of shape (B, T). What nobody scored, what TRL masks out as truncated, and what a
    method drops leaves the sums of the loss and the counts of tokens they are divided by. (The losses that average over
    rollouts, "grpo" and "sapo", still divide by all of them, as TRL does for what it masks out itself.)

    Args:
        trainer: `trl.GRPOTrainer`, or a subclass of it.
        method: name or expression, as for `apportion.assign`. params: its parameters.
        unit: level, with options in brackets; default the method's own.
        states: what counts as one state, see `apportion.units.STATES`.
        ask: who is asked, for methods that ask. Only the main process asks, and only in training: an evaluation of such
            a method keeps TRL's own advantages, which cost nothing.
        on_credit: called by the main process with each `Credit` and the trainer's step; numbers that it returns join
            the metrics, and `StopRun` ends training after the update in progress, see ``trainer.credit_stopped``.
            An evaluation is heard too; it ends nothing, and a listener with a memory forgets it.

    Raises:
        ConfigError: an unknown method or parameter, a class that cannot carry credit inside rollouts, or, when the
            trainer is made, settings under which it would be lost.
    """
    check_class(trainer)
    crediting = Crediting(method, unit, states, params, ask)
    listeners = listeners_of(on_credit)

    @functools.wraps(trainer, updated=())
    class CreditTrainer(trainer):  # type: ignore[misc]
        """See `apportion.adapters.trl.with_credit`."""

        credit_method = method

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._credit_rewards: Any = None
            self._credit_marks: list[Marks] = []
            self._credit_names: Counter[str] = Counter()
            self.credit_stopped: str | None = None
            self.credit_memory = Memory()
            self._credit_untrained = Untrained()
            super().__init__(*args, **kwargs)
            check_attributes(self)
            own: Any = getattr(self, "rollout_func")  # noqa: B009 - mypy does not see the class that is extended
            self.rollout_func: Any = None if own is None else with_whole_lists(own)
            tokenizer: Any = getattr(self.processing_class, "tokenizer", self.processing_class)
            self._crediting = replace(crediting, decode=token_texts(tokenizer.decode))
            told = self.rollout_func is not None or self.environments is not None
            told = told or getattr(self, "environment_factories", None) is not None
            check_settings(self.args, crediting, rollouts_tell=told)
            names = _identifiers(self.reward_func_names)
            weights = [round(weight, 6) for weight in self.reward_weights.tolist()]  # kept in single precision
            check_weights(crediting, dict(zip(names, weights, strict=True)))

        def _save_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
            out = super()._save_checkpoint(*args, **kwargs)
            keep(self, listeners)
            return out

        def _load_from_checkpoint(self, resume_from_checkpoint: str, *args: Any, **kwargs: Any) -> Any:
            recall(self, resume_from_checkpoint, listeners)
            return super()._load_from_checkpoint(resume_from_checkpoint, *args, **kwargs)

        def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
            rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
            self._credit_rewards = rewards  # of all processes, before they are normalised
            return rewards

        def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
            self._credit_marks.append(marks_of(self.environments or ()))
            return super()._generate_single_turn(*args, **kwargs)

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            self._credit_marks = []
            out = super()._generate_and_score_completions(inputs)
            if self.model.training or not crediting.asks:
                _put_credit(self, self._crediting, listeners, out, inputs)
            return out

    CreditTrainer.__name__ = CreditTrainer.__qualname__ = trainer.__name__
    return CreditTrainer


def _put_credit(
    trainer: Any, crediting: Crediting, listeners: Sequence[OnCredit], out: Any, inputs: Sequence[Mapping[str, Any]]
) -> None:
    """Replace the advantages of this process's rows, before they are shuffled and split."""
    try:
        import torch
        from accelerate.utils import gather_object
    except ImportError:  # pragma: no cover - TRL cannot be there without them
        raise missing_extra("the TRL adapter", "trl", "trl") from None
    if len(out["completion_ids"]) != len(inputs):
        raise ConfigError(
            f"{type(trainer).__name__} made {len(out['completion_ids'])} rows of {len(inputs)}, so that groups are "
            "unknown; with_credit needs a trainer that keeps its rows"
        )
    accelerator = trainer.accelerator
    local = rows_of(
        out,
        inputs,
        own_rollouts=trainer.rollout_func is not None,
        environments=trainer.environments or None,
        marks=trainer._credit_marks,
        ends=trainer.eos_token_ids,
        scores=scores_of(trainer, crediting, out),
    )
    rows = _named(trainer, gather_object(local))
    mine = slice(accelerator.process_index * len(local), (accelerator.process_index + 1) * len(local))
    advantage, weight, notes = _agreed(trainer, crediting, rows, listeners)
    length = int(out["completion_ids"].shape[1])
    own_advantage, own_weight = (_fit(x[mine], length) for x in (advantage, weight))
    device = out["completion_ids"].device
    out["advantages"] = torch.from_numpy(own_advantage).to(device=device, dtype=torch.float32)
    _drop_tokens(trainer, out, rows[mine], own_weight)
    _log(trainer, rows, advantage, weight, notes)
    stop(trainer, notes.get("stopped"), listened=bool(listeners))


def _agreed(
    trainer: Any, crediting: Crediting, rows: Sequence[HostRow], listeners: Sequence[OnCredit]
) -> tuple[FloatArray, FloatArray, dict[str, Any]]:
    """Credit of all rows, the same in every process: worked out by each, or by one where asking costs something."""
    accelerator = trainer.accelerator
    main = accelerator.is_main_process
    if not crediting.asks or accelerator.num_processes == 1:
        return _credited(crediting, rows, listeners if main else (), trainer)
    from accelerate.utils import broadcast_object_list

    sent: list[Any] = [None, None]
    failure: Exception | None = None
    if main:
        try:
            sent[0] = _credited(crediting, rows, listeners, trainer)
        except Exception as error:  # the others wait, and must hear of it
            failure, sent[1] = error, str(error)
    broadcast_object_list(sent)
    if failure is not None:
        raise failure
    if sent[1] is not None:
        raise ResourceError(f"the main process could not make the credit: {sent[1]}")
    done: tuple[FloatArray, FloatArray, dict[str, Any]] = sent[0]
    return done


def _credited(
    crediting: Crediting, rows: Sequence[HostRow], listeners: Sequence[OnCredit], trainer: Any
) -> tuple[FloatArray, FloatArray, dict[str, Any]]:
    credit = credit_of(trainer, crediting, batch_of(rows))
    told = heard(listeners, credit, int(trainer.state.global_step), training=trainer.model.training)
    longest = max(len(row.completion_ids) for row in rows)
    tokens = credit.to_tokens()
    if trainer.model.training and trainer.accelerator.is_main_process:
        trainer._credit_untrained.look(credit, tokens)
    return *onto_rows(tokens, rows, longest), {**credit.notes, **told}


def _named(trainer: Any, gathered: Sequence[Mapping[str, Any]]) -> list[HostRow]:
    """Rows of all processes with group and rewards: TRL repeats each prompt in the gathered order.

    Several batches may be made at one step of the optimizer (small `steps_per_generation`, evaluation), and their
    groups are different ones.
    """
    training = trainer.model.training
    count = trainer.num_generations if training else trainer.num_generations_eval
    batch = f"{'' if training else 'eval-'}step-{int(trainer.state.global_step)}"
    trainer._credit_names[batch] += 1
    if trainer._credit_names[batch] > 1:
        batch += f"-{trainer._credit_names[batch]}"
    parts = trainer._credit_rewards.detach().double().cpu().numpy()
    weights = trainer.reward_weights.detach().double().cpu().numpy()
    total = np.nansum(parts * weights, axis=1)
    names = _identifiers(trainer.reward_func_names)
    return [
        host_row(
            plain,
            group=f"{batch}/prompt-{i // count}",
            id=f"{batch}/{i}",
            reward=None if np.isnan(parts[i]).all() else float(total[i]),
            outcomes={name: float(part) for name, part in zip(names, parts[i], strict=True) if not np.isnan(part)},
        )
        for i, plain in enumerate(gathered)
    ]


def _identifiers(names: Sequence[str]) -> list[str]:
    """Names of reward functions as names of parts; models and lambdas have names that are none."""
    out: list[str] = []
    for k, name in enumerate(names):
        plain = re.sub(r"\W", "_", name)
        plain = plain if plain.isidentifier() else f"reward_{k}"
        out.append(plain if plain not in out else f"{plain}_{k}")
    return out


def _drop_tokens(trainer: Any, out: Any, rows: Sequence[HostRow], weight: FloatArray) -> None:
    """Take unknown and dropped tokens out of the loss: out of its mask, and out of the count it divides by."""
    import torch

    policy = np.zeros(weight.shape, dtype=bool)
    for n, row in enumerate(rows):
        policy[n, : len(row.completion_ids)] = row.sampled()
    dropped = torch.tensor(float((policy & (weight == 0)).any()), device=out["completion_ids"].device)
    if not trainer.accelerator.gather(dropped.reshape(1)).sum().item():
        return
    mask = torch.from_numpy(weight != 0).to(out["completion_mask"].device)
    before = out.get("tool_mask", torch.ones_like(out["completion_mask"]))
    out["tool_mask"] = before * mask.to(before.dtype)
    out["num_items_in_batch"] = trainer.accelerator.gather((out["completion_mask"] * out["tool_mask"]).sum()).sum()


def _fit(x: FloatArray, length: int) -> FloatArray:
    """Rows cut or padded to this process's own width; what is cut off is padding of longer rows elsewhere."""
    out = np.zeros((len(x), length))
    width = min(length, x.shape[1])
    out[:, :width] = x[:, :width]
    return out


def _log(
    trainer: Any, rows: Sequence[HostRow], advantage: FloatArray, weight: FloatArray, notes: Mapping[str, Any]
) -> None:
    """Mean credit of each rollout in the completions table, and numbers about the credit among the metrics."""
    counted = weight != 0
    per_row = np.where(counted, advantage, 0.0).sum(1) / np.maximum(counted.sum(1), 1)
    logged = trainer._logs["advantages"]
    for _ in range(min(len(rows), len(logged))):
        logged.pop()
    logged.extend(per_row.tolist())
    metrics = trainer._metrics["train" if trainer.model.training else "eval"]
    sampled = sum(int(row.sampled().sum()) for row in rows)
    metrics["credit/mean_abs"].append(float(np.abs(advantage[counted]).mean()) if counted.any() else 0.0)
    metrics["credit/share_of_tokens_trained"].append(float(counted.sum()) / max(sampled, 1))
    for name, note in notes.items():
        if isinstance(note, int | float):
            metrics[name if "/" in name else f"credit/{name}"].append(float(note))
