"""What the policy learns from one batch: the rate, the order of the examples, the passes; `update` makes each step."""

from __future__ import annotations

import numpy as np
import torch

from apportion.credit import TokenAdvantages
from apportion.losses import check_pairing
from apportion.train.config import TrainConfig
from apportion.train.examples import Examples
from apportion.train.policy import Policy
from apportion.train.update import Objective, Tally, check_drift, minimise

ORDER_STREAM = 5


class Learner:
    """A policy with its optimizer and its objective.

    Args:
        config: of the run.
        policy: what learns.
        reference: what it is held to; None without a KL penalty.
    """

    def __init__(self, config: TrainConfig, policy: Policy, reference: Policy | None) -> None:
        self.config, self.policy, self.reference = config, policy, reference
        self.optimizer = torch.optim.AdamW(
            policy.model.parameters(), lr=config.lr, betas=(0.9, 0.999), weight_decay=config.weight_decay
        )
        self.objective = Objective(
            config.loss, config.loss_params, config.aggregation, config.aggregation_length, config.rows,
            config.kl_coef, config.kl_estimator, config.entropy_coef,
        )  # fmt: skip
        self.warned = False  # that the loss averages the credit away

    @property
    def lr(self) -> float:
        """The present rate."""
        return float(self.optimizer.param_groups[0]["lr"])

    def learn(self, index: int, tokens: TokenAdvantages) -> Tally:
        """Every update of one iteration."""
        config, tally = self.config, Tally()
        examples = Examples.of(tokens, self.policy)
        if not self.warned:
            self.warned = not check_pairing(
                config.loss, examples.advantage_K, examples.weight_K, examples.seq_K, named=f"loss={config.loss}"
            )
        random = np.random.default_rng([config.seed, ORDER_STREAM, index])
        for group in self.optimizer.param_groups:
            group["lr"] = config.lr * min(1.0, (index + 1) / max(1, config.warmup))
        for epoch in range(config.epochs):
            parts = np.array_split(random.permutation(len(examples)), config.minibatches)
            for number, part in enumerate(parts):
                minimise(
                    self.policy,
                    self.optimizer,
                    examples,
                    np.sort(part),
                    self.objective,
                    reference=self.reference,
                    micro_tokens=config.micro_tokens,
                    clip_grad=config.clip_grad,
                    tally=tally,
                    tolerance=config.logp_tolerance if epoch == number == 0 else None,
                )
        if not tally.checked and not tally.grad_norms and len(examples):  # nothing had credit: check some of it
            check_drift(
                self.policy,
                examples,
                np.arange(min(len(examples), config.rollouts)),
                micro_tokens=config.micro_tokens,
                tolerance=config.logp_tolerance,
                tally=tally,
            )
        return tally
