"""Train a policy on preference pairs of turns: SWEET-RL's second stage, second half, or plain DPO on pairs of yours.

    loss = turn_dpo, dpo or treg_dpo of `apportion.losses.pairs`,  pi = the policy, pi_ref = the policy as it came

Log-probabilities are those of sampling: the temperature, and where the policy chooses among admissible actions, these
alone. A prompt is what the pair says, token by token; nothing else is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apportion.data.atomic import atomic_write
from apportion.data.pairs import SIDES, TurnPair
from apportion.errors import CheckpointError, ConfigError, DataError
from apportion.losses import pairs_torch
from apportion.losses.pairs import Pairs
from apportion.models.checkpoint import checkpoints
from apportion.models.fitting import Fitted, Progress, Settings, held_out, run
from apportion.models.metrics import classified
from apportion.numerics import FloatArray, IntArray
from apportion.train.player import digest_of
from apportion.train.policy import Allowed, Policy

LOSSES: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "turn_dpo": (pairs_torch.turn_dpo, ("beta", "nll")),
    "dpo": (pairs_torch.dpo, ("beta", "nll")),
    "treg_dpo": (pairs_torch.treg_dpo, ("beta", "nll", "alpha")),
}
"""Losses by name, and the parameters that each takes."""
DEFAULTS = Settings(epochs=1, lr=1e-4, batch_tokens=2048)
"""One pass; the rate suits the small decoder. SWEET-RL trains 8B parameters at 2e-7, in batches of 8 pairs."""


def prefer(
    policy: Policy,
    pairs: Sequence[TurnPair],
    *,
    loss: str = "turn_dpo",
    loss_params: Mapping[str, float] | None = None,
    settings: Settings | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **named: Any,
) -> Fitted:
    """Train the policy, in place, to like chosen turns better than rejected ones.

    Args:
        policy: as it came it is the reference too; when resuming, give it as it came again.
        pairs: see `TurnPair`; tokens of this policy.
        loss: "turn_dpo", "dpo", or "treg_dpo" for pairs with token rewards. loss_params: its beta, nll, alpha.
        settings: see `Settings`, by default `DEFAULTS`; single ones can be named as well. Whole tasks are held out.
        out: folder of checkpoints, one after each pass, of the trained ``policy``, and of ``preference.json``, which
            says what it was trained on. resume: go on from the newest checkpoint; only ``epochs`` may differ.
        progress: called after each step.

    Returns:
        What was done; its measures are of the held-out pairs: ``accuracy``, how often the policy moved towards the
        chosen turn more than towards the rejected one, with a 95% interval; 0.5 is chance.

    Raises:
        DataError: no pair; one with tokens that the policy does not know or may not draw; no token rewards for
            treg_dpo; a loss that is not finite (the policy is that of the begin of the pass then).
        ConfigError: a parameter that cannot be used; a folder with checkpoints and no ``resume``.
        CheckpointError: nothing to go on from, or it is of other pairs, another policy or other settings.
    """
    params = dict(loss_params or {})
    if loss not in LOSSES:
        raise ConfigError(f"preference: loss is {loss!r}; give one of {', '.join(LOSSES)}")
    if unknown := [name for name in params if name not in LOSSES[loss][1]]:
        raise ConfigError(f"preference: {loss} takes no {unknown[0]!r}; there are {', '.join(LOSSES[loss][1])}")
    chosen = Settings.of(settings or DEFAULTS, **named)
    task = _Preferences(policy, pairs, loss, params, chosen)
    if out is not None:
        _same_work(Path(out), {"loss": loss, "loss_params": params, **asdict(chosen)}, policy, pairs, resume=resume)
    folder = None if out is None else Path(out) / "checkpoints"
    fitted = run(policy.model, task, chosen, folder=folder, resume=resume, progress=progress)
    fitted.measures = task.measured()
    if out is not None:
        policy.save(Path(out) / "policy")
    return fitted


class _Preferences:
    """Items are pairs; see `apportion.models.fitting.Task`."""

    def __init__(
        self, policy: Policy, pairs: Sequence[TurnPair], loss: str, params: dict[str, float], settings: Settings
    ) -> None:
        if not pairs:
            raise DataError("preference: no pair to learn from; rank turns first")
        self.policy, self.pairs, self.params = policy, list(pairs), params
        self.loss_name, (self.function, _) = loss, LOSSES[loss]
        self.rewarded, self.together = loss == "treg_dpo", settings.batch_tokens
        for k, pair in enumerate(self.pairs):
            self._check(k, pair)
        names: dict[str, int] = {}
        group = [names.setdefault(p.group if p.group is not None else f"{k}", len(names)) for k, p in enumerate(pairs)]
        held = held_out(group, settings)
        self.fit, self.held = np.flatnonzero(~held), np.flatnonzero(held)
        self.sizes = np.array([_tokens(self.pairs[k]) for k in self.fit], dtype=np.int64)
        self.ref = dict(enumerate(self._each(np.arange(len(self.pairs)))))

    def begin(self, epoch: int) -> None:
        """Targets are fixed."""

    def loss(self, items: IntArray) -> tuple[Tensor, float]:
        """Sum of the pairs' losses, and how many they are."""
        which = self.fit[items].tolist()
        logp, row = self._logp(which)
        even = torch.arange(0, 2 * len(which), 2, device=logp.device)
        told = Pairs(logp, torch.cat([self.ref[k] for k in which]), row, even, even + 1)
        if self.rewarded:
            rewards = [x for k in which for side in SIDES for x in self._of(k, side, f"{side}_rewards")]
            given = torch.tensor(rewards, dtype=logp.dtype, device=logp.device)
            return self.function(told, given, **self.params).sum(), float(len(which))
        return self.function(told, **self.params).sum(), float(len(which))

    def measured(self) -> dict[str, Any]:
        """Of the held-out pairs."""
        margin_P = self.margins(self.held)
        return {
            "pairs": len(margin_P),
            "accuracy": classified(margin_P, np.ones(len(margin_P), dtype=bool))["accuracy"],
        }

    def margins(self, which: IntArray) -> FloatArray:
        """How much more the log-ratio of the chosen turn rose than that of the rejected one, nats, of some pairs."""
        out = []
        for k, logp in zip(which.tolist(), self._each(which), strict=True):
            moved, split = (logp - self.ref[k]).double().cpu().numpy(), sum(self.pairs[k].chosen_mask)
            out.append(moved[:split].sum() - moved[split:].sum())
        return np.array(out, dtype=np.float64)

    @torch.no_grad()
    def _each(self, which: IntArray) -> list[Tensor]:
        """Log-probabilities of the sampled tokens of each pair, many pairs in one pass, without gradient."""
        out: dict[int, Tensor] = {}
        size = np.array([_tokens(self.pairs[k]) for k in which.tolist()], dtype=np.int64)
        order = which[np.argsort(size, kind="stable")]
        parts = np.cumsum(np.sort(size)) // self.together
        for part in np.unique(parts):
            here = order[parts == part].tolist()
            logp, _ = self._logp(here)
            counts = [sum(self.pairs[k].chosen_mask) + sum(self.pairs[k].rejected_mask) for k in here]
            out |= dict(zip(here, torch.split(logp, counts), strict=True))
        return [out[k] for k in which.tolist()]

    def _logp(self, which: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Log-probability of each sampled token, chosen and rejected turn of each pair by turns, and its row."""
        rows: list[tuple[int, ...]] = []
        row_k, at_k, token_k, allowed_k = [], [], [], []
        for k in which:
            pair = self.pairs[k]
            choices = None if pair.actions is None or self.policy.free_text else self.policy.choices(pair.actions)
            for side in SIDES:
                ids, mask = getattr(pair, f"{side}_ids"), getattr(pair, f"{side}_mask")
                for j, sampled in enumerate(mask):
                    if sampled:
                        row_k.append(len(rows))
                        at_k.append(len(pair.prompt_ids) + j - 1)
                        token_k.append(ids[j])
                        allowed: Allowed = None if choices is None else choices.allowed(ids[:j])
                        allowed_k.append(allowed)
                rows.append((*pair.prompt_ids, *ids[:-1]))
        logits = self.policy.logits(rows, np.array(row_k), np.array(at_k))
        told = self.policy.log_probs(logits, allowed_k)
        token = torch.tensor(token_k, device=logits.device)
        return told.gather(-1, token[:, None])[:, 0], torch.tensor(row_k, device=logits.device)

    def _of(self, k: int, side: str, name: str) -> list[Any]:
        """Values of a side's sampled tokens."""
        pair = self.pairs[k]
        return [x for x, m in zip(getattr(pair, name), getattr(pair, f"{side}_mask"), strict=True) if m]

    def _check(self, k: int, pair: TurnPair) -> None:
        policy, at = self.policy, f"pair {k}" + (f" ({pair.place})" if pair.place else "")
        known = len(policy.tokenizer)
        most = max(*pair.prompt_ids, *pair.chosen_ids, *pair.rejected_ids)
        if most >= known:
            raise DataError(f"{at} has token id {most} and the policy knows {known}; give pairs that it sampled")
        if self.rewarded and pair.chosen_rewards is None:
            raise DataError(
                f"{at} has no token rewards, which treg_dpo reads; give chosen_rewards and rejected_rewards"
            )
        if policy.free_text:
            return
        if pair.actions is None:
            raise DataError(
                f"{at} does not tell the admissible actions, and the policy chooses among them; give actions"
            )
        for side in SIDES:
            if getattr(pair, f"{side}_ids") not in policy.choices(pair.actions).ids:
                raise DataError(f"{at}: the {side} turn is none of its admissible actions; give pairs that it sampled")


def _tokens(pair: TurnPair) -> int:
    return 2 * len(pair.prompt_ids) + len(pair.chosen_ids) + len(pair.rejected_ids)


def _same_work(out: Path, settings: dict[str, Any], policy: Policy, pairs: Sequence[TurnPair], *, resume: bool) -> None:
    """Write what the training depends on; when resuming, compare it with what was written."""
    rows = "".join(json.dumps(pair.to_row()) for pair in pairs).encode()
    given = {"policy": digest_of(policy), "pairs": hashlib.blake2b(rows, digest_size=16).hexdigest()}
    told, path = {**settings, **given}, out / "preference.json"
    if not resume:
        if checkpoints(out / "checkpoints"):
            raise ConfigError(f"{out} holds checkpoints of an earlier run; resume it, or give another folder")
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(json.dumps(told, indent=1).encode() + b"\n")
        return
    try:
        was = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise CheckpointError(f"{out}: no checkpoint to resume from; start without resuming") from None
    other = [name for name in told if name != "epochs" and (not isinstance(was, dict) or was.get(name) != told[name])]
    if other:
        raise CheckpointError(
            f"{out} is of other work ({', '.join(other)} differ); give what it was started with, or another folder"
        )
