"""TRL: any credit method inside GRPOTrainer, by subclassing it.

    Trainer = with_credit(GRPOTrainer, "gigpo", unit="step", gamma=0.95)

Rollouts are what TRL made; steps, step rewards and states come with them (`rollout_func`, `environment_factory`,
tools). Credit reaches `_compute_loss` as advantages of shape (B, T), on exactly the tokens that the policy sampled.
"""

from apportion.adapters.trl.trainer import with_credit

__all__ = ["with_credit"]
