"""Credit in verl's advantage stage: an agent loop that tells its steps, and what the stage makes of its rows.

    python examples/verl_stage.py        plays four rollouts with a scripted policy and credits them; verl is not needed

In verl nothing of `main` is written: put `Counter` where verl finds agent loops, and add to the command of the trainer

    algorithm.adv_estimator=apportion/gigpo +algorithm.apportion.unit=step +algorithm.apportion.gamma=0.95
"""

import asyncio
from types import SimpleNamespace

import numpy as np

from apportion.adapters.verl import CreditedLoop
from apportion.adapters.verl.crediting import credit_rows
from apportion.adapters.verl.rollouts import Part
from apportion.adapters.verl.settings import settings_of

OBSERVED = [90, 91]  # tokens that the game writes between two actions


class Counter(CreditedLoop):  # in verl: class Counter(CreditedLoop, AgentLoopBase), under @register("counter")
    """Bring a counter to 7; each bump costs a little, and states recur between rollouts."""

    async def run(self, sampling_params, policy, **row):
        ids, mask, n = [], [], 0
        for bump in policy:  # in verl: what the server generated
            first = len(ids)
            ids, mask = [*ids, 10 + bump, 0], [*mask, 1, 1]
            self.steps.add(first, len(ids), state=f"n={n}", reward=-0.1)
            n += bump
            ids, mask = ids + OBSERVED, mask + [0] * len(OBSERVED)
        self.steps.reward(float(n == 7))  # of the step that was added last
        return SimpleNamespace(response_ids=ids, response_mask=mask, reward_score=None, extra_fields={})


def row_of(at, output):
    """What verl keeps of an output, as its advantage stage hands it over."""
    score = np.zeros(len(output.response_ids))
    score[-1] = output.reward_score
    sampled = np.array(output.response_mask, dtype=bool)
    ids = np.array(output.response_ids)
    return Part(at, "task-0", str(at), 0, np.array([1, 2]), ids, sampled, sampled, score, told=output.extra_fields)


def main():
    policies = ([3, 4], [3, 3, 1], [3, 2], [5, 5])
    outputs = [asyncio.run(Counter().run({}, policy)) for policy in policies]
    settings = settings_of("apportion/gigpo", {"apportion": {"unit": "step", "gamma": 0.95}})
    result = credit_rows(settings, [row_of(at, output) for at, output in enumerate(outputs)])
    for at, policy in enumerate(policies):
        print(policy, np.round(result.advantage[at], 2).tolist())
    return result


if __name__ == "__main__":
    main()
