"""verl: any credit method as ``algorithm.adv_estimator=apportion/<method>``, without a line of code.

    algorithm.adv_estimator=apportion/gigpo +algorithm.apportion.gamma=0.95 +algorithm.apportion.unit=step

verl finds the module `plugin` by itself (entry point ``verl.plugins``). It takes the place of the trainer's advantage
stage, which alone sees which rows make one rollout; steps, step rewards and states come from what the agent loop wrote
(`CreditedLoop`, or lists of those names in ``extra_fields``). Rows of the older trainer and of verl-agent are read too.
"""

from apportion.adapters.verl.agent_loop import CreditedLoop, StepLog

__all__ = ["CreditedLoop", "StepLog"]
