"""`with_credit`: a GRPOTrainer whose advantages are ours."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from apportion.adapters.crediting import Crediting
from apportion.adapters.rows import HostRow, batch_of, onto_rows
from apportion.adapters.trl.contract import check_class, check_settings
from apportion.adapters.trl.rollouts import host_row, rows_of
from apportion.credit import Credit
from apportion.errors import missing_extra
from apportion.numerics import FloatArray
from apportion.resources import Asker

OnCredit = Callable[[Credit, int], None]


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
    rows. The loss gets advantages of shape (B, T). What nobody scored, and what a method drops, leaves it.

    Args:
        trainer: `trl.GRPOTrainer`, or a subclass of it.
        method: name or expression, as for `apportion.assign`. params: its parameters.
        unit: level, with options in brackets; default the method's own.
        states: what counts as one state, see `apportion.units.STATES`.
        ask: who is asked, for methods that ask; only the main process asks.
        on_credit: called by the main process with each `Credit` and the trainer's step, for logs and checks.

    Raises:
        ConfigError: an unknown method or parameter, a class that cannot carry credit inside rollouts, or, when the
            trainer is made, settings under which it would be lost.
    """
    check_class(trainer)
    crediting = Crediting(method, unit, states, params, ask)
    listeners = (on_credit,) if callable(on_credit) else tuple(on_credit)

    @functools.wraps(trainer, updated=())
    class CreditTrainer(trainer):  # type: ignore[misc]
        """See `apportion.adapters.trl.with_credit`."""

        credit_method = method
        _credit_rewards: Any = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            check_settings(self.args, varies_inside=crediting.varies_inside, method=method)

        def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
            rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
            self._credit_rewards = rewards  # of all processes, before they are normalised
            return rewards

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            out = super()._generate_and_score_completions(inputs)
            _put_credit(self, crediting, listeners, out, inputs)
            return out

    CreditTrainer.__name__ = CreditTrainer.__qualname__ = trainer.__name__
    return CreditTrainer


def _put_credit(
    trainer: Any, crediting: Crediting, listeners: Sequence[OnCredit], out: Any, inputs: Sequence[Mapping[str, Any]]
) -> None:
    """Replace the advantages of this process's rows, before they are shuffled and split."""
    try:
        import torch
        from accelerate.utils import broadcast_object_list, gather_object
    except ImportError:  # pragma: no cover - TRL cannot be there without them
        raise missing_extra("the TRL adapter", "trl", "trl") from None
    accelerator = trainer.accelerator
    count = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
    local = rows_of(out, inputs, trainer.environments or None, trainer.eos_token_ids)
    rows = _named(gather_object(local), _rewards(trainer), count, int(trainer.state.global_step))
    mine = slice(accelerator.process_index * len(local), (accelerator.process_index + 1) * len(local))
    length = int(out["completion_ids"].shape[1])
    if crediting.ask is not None and accelerator.num_processes > 1:
        # only one process may spend; the others get the numbers
        longest = max(len(row.completion_ids) for row in rows)
        sent: list[Any] = [None]
        if accelerator.is_main_process:
            sent = [_credited(crediting, rows, longest, listeners, trainer)]
        broadcast_object_list(sent)
        advantage, weight, notes = sent[0]
    else:
        said = listeners if accelerator.is_main_process else ()
        longest = max(len(row.completion_ids) for row in rows)
        advantage, weight, notes = _credited(crediting, rows, longest, said, trainer)
    device = out["completion_ids"].device
    own_advantage, own_weight = (_fit(x[mine], length) for x in (advantage, weight))
    out["advantages"] = torch.from_numpy(own_advantage).to(device=device, dtype=torch.float32)
    _drop_tokens(trainer, out, rows[mine], own_weight)
    _log(trainer, rows, advantage, weight, notes)


def _credited(
    crediting: Crediting, rows: Sequence[HostRow], length: int, listeners: Sequence[OnCredit], trainer: Any
) -> tuple[FloatArray, FloatArray, dict[str, Any]]:
    credit = crediting.credit(batch_of(rows))
    for listener in listeners:
        listener(credit, int(trainer.state.global_step))
    return *onto_rows(credit.to_tokens(), rows, length), dict(credit.notes)


def _named(gathered: Sequence[Mapping[str, Any]], rewards: FloatArray, count: int, step: int) -> list[HostRow]:
    """Rows of all processes with group and reward: TRL repeats each prompt ``count`` times in the gathered order."""
    return [
        host_row(
            plain,
            group=f"step-{step}/prompt-{i // count}",
            id=f"step-{step}/{i}",
            reward=None if np.isnan(rewards[i]) else float(rewards[i]),
        )
        for i, plain in enumerate(gathered)
    ]


def _rewards(trainer: Any) -> FloatArray:
    """Weighted sum over reward functions of every row of all processes; NaN where none of them scored it."""
    parts = trainer._credit_rewards.detach().double().cpu().numpy()
    weights = trainer.reward_weights.detach().double().cpu().numpy()
    total = np.nansum(parts * weights, axis=1)
    return np.where(np.isnan(parts).all(axis=1), np.nan, total)


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
            metrics[f"credit/{name}"].append(float(note))
