"""One update after another: loss over micro-batches, gradient, clipped step."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apportion.errors import ApportionError
from apportion.losses import FineCreditLost, Tokens, shares
from apportion.losses import torch as on_tensors
from apportion.numerics import FloatArray, IntArray
from apportion.train.examples import Examples, micro_batches, score
from apportion.train.policy import Policy


class DriftError(ApportionError, RuntimeError):
    """Log-probabilities of training differ from those of sampling before any update."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised: see `TrainConfig` for each setting."""

    loss: str = "ppo"
    params: Mapping[str, Any] = field(default_factory=dict)
    aggregation: str = "token-mean"
    length: int | None = None
    rows: str = "trajectory"
    kl_coef: float = 0.0
    kl_estimator: str = "k3"
    entropy_coef: float = 0.0

    @property
    def needs_every_sequence(self) -> bool:
        """Sequences without credit count too."""
        return self.kl_coef > 0 or self.entropy_coef > 0


class Tally:
    """Sums over the tokens of an update, for the metrics."""

    def __init__(self) -> None:
        self.tokens = self.clipped = self.credited = self.checked = 0
        self.loss = self.kl = self.ref_kl = self.entropy = self.drift = 0.0
        self.largest_ratio = 0.0
        self.rows = self.sequences = 0
        self.grad_norms: list[float] = []

    def metrics(self) -> dict[str, float]:
        """Means per token; the share of credited tokens that a clip left without gradient."""
        n = max(self.tokens, 1)
        return {
            "loss": self.loss,
            "logp_drift": self.drift,
            "approx_kl": self.kl / n,
            "ref_kl": self.ref_kl / n,
            "train_entropy": self.entropy / n,
            "clip_share": self.clipped / max(self.credited, 1),
            "largest_ratio": self.largest_ratio,
            "grad_norm": float(np.mean(self.grad_norms)) if self.grad_norms else 0.0,
            "updates": len(self.grad_norms),
            "trained_tokens": self.tokens,
            "run_rows": self.rows,
            "sequences": self.sequences,
        }


def minimise(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    examples: Examples,
    sequences: IntArray,
    objective: Objective,
    *,
    reference: Policy | None,
    micro_tokens: int,
    clip_grad: float,
    tally: Tally,
    tolerance: float | None = None,
) -> None:
    """One step of the optimizer on the given sequences, normalised over all their tokens.

    With a ``tolerance`` the policy must still be the one that sampled, and log-probabilities are compared.

    Raises:
        DriftError: they differ by more.
    """
    mine = np.isin(examples.seq_K, sequences)
    row = examples.traj_K if objective.rows == "trajectory" else examples.seq_K
    share_K = np.zeros(len(examples.token_K))
    share_K[mine] = shares(
        examples.weight_K[mine],
        row[mine],
        objective.aggregation,
        length=objective.length,
        group_of_T=examples.group_K[mine],
    )
    run = sequences
    if not objective.needs_every_sequence:
        run = np.intersect1d(sequences, examples.with_credit())
    tally.sequences += len(sequences)
    if not len(run):
        return
    optimizer.zero_grad(set_to_none=True)
    for micro in micro_batches(examples, run, micro_tokens):
        logp, spread = score(policy, examples, micro)
        tally.rows += len(micro.rows)
        if tolerance is not None:
            _compare(logp, examples.old_logp_K[micro.k], tolerance, tally)
        share = _tensor(share_K[micro.k], logp)
        given = _tokens(examples, micro.k, logp.detach().requires_grad_())
        with warnings.catch_warnings():  # the trainer has asked once, for the whole batch and on any device
            warnings.simplefilter("ignore", FineCreditLost)
            loss_k = on_tensors.LOSSES[objective.loss](given, **objective.params)
        policy_loss = (share * loss_k).sum()
        (slope,) = torch.autograd.grad(policy_loss, given.logp_T)  # per token: where it is 0, a clip took it
        total = (slope * logp).sum()  # the same gradient in the parameters
        if objective.kl_coef > 0:
            assert reference is not None
            with torch.no_grad():
                ref_logp, _ = score(reference, examples, micro)
            kl = on_tensors.kl(logp, ref_logp, objective.kl_estimator)
            total = total + objective.kl_coef * (share * kl).sum()
            tally.ref_kl += float(kl.detach().sum())
        if objective.entropy_coef > 0:
            total = total - objective.entropy_coef * (share * spread).sum()
        total.backward()  # type: ignore[no-untyped-call]
        _count(tally, given, slope, policy_loss, spread)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, clip_grad))
    for name, value in (("loss", tally.loss), ("gradient norm", norm)):
        if not np.isfinite(value):
            raise ApportionError(
                f"the {name} is {value}; a log-probability, a credit or the model is not finite: "
                "look at the last rollouts, or lower lr"
            )
    tally.grad_norms.append(norm)
    optimizer.step()


def check_drift(
    policy: Policy, examples: Examples, sequences: IntArray, *, micro_tokens: int, tolerance: float, tally: Tally
) -> None:
    """Compare log-probabilities of sampling with recomputed ones, without training.

    Raises:
        DriftError: they differ by more than the tolerance.
    """
    for micro in micro_batches(examples, sequences, micro_tokens):
        with torch.no_grad():
            logp, _ = score(policy, examples, micro)
        _compare(logp, examples.old_logp_K[micro.k], tolerance, tally)


def _compare(logp: Tensor, old: FloatArray, tolerance: float, tally: Tally) -> None:
    gap = np.abs(logp.detach().cpu().numpy().astype(np.float64) - old)
    worst = float(gap.max(initial=0.0))
    if not worst <= tolerance:  # also when it is not a number
        raise DriftError(
            f"log-probabilities of sampling and of training differ by up to {worst:.3g} nats (tolerance {tolerance}); "
            "the rollouts are of another policy, temperature or prompt than the one that is trained"
        )
    tally.drift = max(tally.drift, worst)
    tally.checked += len(old)


def _tokens(examples: Examples, k: IntArray, logp: Tensor) -> Tokens[Tensor]:
    return Tokens(
        logp_T=logp,
        advantage_T=_tensor(examples.advantage_K[k], logp),
        weight_T=_tensor(examples.weight_K[k], logp),
        row_of_T=torch.as_tensor(np.unique(examples.seq_K[k], return_inverse=True)[1], device=logp.device),
        old_logp_T=_tensor(examples.old_logp_K[k], logp),
    )


def _tensor(x: FloatArray, like: Tensor) -> Tensor:
    return torch.as_tensor(x, dtype=like.dtype, device=like.device)


def _count(tally: Tally, given: Tokens[Tensor], slope: Tensor, loss: Tensor, spread: Tensor) -> None:
    assert given.old_logp_T is not None
    with torch.no_grad():
        d = given.logp_T - given.old_logp_T
        credited = given.advantage_T != 0
        tally.tokens += len(d)
        tally.credited += int(credited.sum())
        tally.clipped += int((credited & (slope == 0)).sum())
        tally.loss += float(loss)
        tally.kl += float(on_tensors.kl(given.old_logp_T, given.logp_T).sum())
        tally.entropy += float(spread.sum())
        tally.largest_ratio = max(tally.largest_ratio, float(d.exp().max()))
