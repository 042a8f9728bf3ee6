"""Two tokens, a KL-regularised optimum in closed form: what implicit rewards mean, without sampling.

beta = 1/2; rewards aa 1, ab 0, ba 0, bb 1/2; the reference plays 1/2 1/2 at the root and after a, 1/5 4/5 after b
"""

from __future__ import annotations

from math import exp, log

from apportion.data import Batch, Step, Trajectory

BETA = 0.5
REWARD = {"aa": 1.0, "ab": 0.0, "ba": 0.0, "bb": 0.5}
REFERENCE = {"": {"a": 0.5, "b": 0.5}, "a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.2, "b": 0.8}}


def value(prefix: str) -> float:
    """V*: the soft maximum over what the reference would do."""
    if len(prefix) == 2:
        return 0.0
    return BETA * log(sum(p * exp(gain(prefix, token) / BETA) for token, p in REFERENCE[prefix].items()))


def gain(prefix: str, token: str) -> float:
    """Reward of the token and value of what follows."""
    return REWARD.get(prefix + token, 0.0) + value(prefix + token)


def optimal(prefix: str, token: str) -> float:
    """pi*: probability of the token under the optimal policy."""
    return REFERENCE[prefix][token] * exp((gain(prefix, token) - value(prefix)) / BETA)


def rollouts(policy: str = "logp", reference: str = "ref_logp", **more: str) -> Batch:
    """All four responses, one group. Names say where log-probabilities of pi* and of the reference go."""
    out = []
    for text, reward in REWARD.items():
        logs = {
            "optimal": [log(optimal(text[:t], text[t])) for t in range(2)],
            "reference": [log(REFERENCE[text[:t]][text[t]]) for t in range(2)],
        }
        fields: dict[str, object] = {"columns": {}}
        for name, which in ((policy, "optimal"), (reference, "reference"), *more.items()):
            if name in ("logp", "ref_logp"):
                fields[name] = logs[which]
            else:
                fields["columns"][name] = logs[which]  # type: ignore[index]
        step = Step(prompt_ids=[9], ids=["ab".index(c) for c in text], reward=reward, **fields)  # type: ignore[arg-type]
        out.append(Trajectory([step], group="g"))
    return Batch.from_trajectories(out)
