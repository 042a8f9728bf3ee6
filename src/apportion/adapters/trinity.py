"""Trinity-RFT: an advantage function over its experiences, before they reach the trainer.

    from apportion.adapters.trinity import register      in a plugin directory of Trinity
    register("apportion")

    algorithm:
      advantage_fn: apportion
      advantage_fn_args: {method: gigpo, gamma: 0.95}

An experience is one call of the model, or a whole rollout whose `action_mask` has gaps. Experiences of one run are put
together by token prefix in the order of `eid.step`. What a method drops leaves `action_mask`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.adapters.crediting import Crediting
from apportion.adapters.rows import HostRow, batch_of, per_row, runs_of
from apportion.adapters.told import field, like, missing, numbers, put
from apportion.errors import DataError


class CreditAdvantageFn:
    """Trinity's `AdvantageFn`: experiences in, the same with `advantages` and `returns`, and metrics.

    Args:
        method: name or expression. params: its parameters. unit, states: as for `Crediting`.
        step_reward_key, state_key: entries of `experience.info` that hold the reward of the step and the state it was
            taken in; the defaults are those of Trinity's own GiGPO.
    """

    def __init__(
        self,
        method: str = "grpo",
        unit: str = "",
        states: str = "exact",
        step_reward_key: str = "step_reward",
        state_key: str = "env_state_hash",
        **params: Any,
    ) -> None:
        self.crediting = Crediting(method, unit, states, params)
        self.step_reward_key, self.state_key = step_reward_key, state_key

    def __call__(self, exps: Sequence[Any], **_: Any) -> tuple[list[Any], dict[str, float]]:
        """Credit a list of experiences that holds whole groups, in any order."""
        return self.process(exps)

    def process(self, exps: Sequence[Any]) -> tuple[list[Any], dict[str, float]]:
        """The same, under the name that operators have."""
        exps = list(exps)
        if not exps:
            return [], {}
        rows = self._rows(exps)
        credit = self.crediting.credit(batch_of(rows))
        for exp, row, (advantage, weight) in zip(exps, rows, per_row(credit.to_tokens(), rows), strict=True):
            tokens = field(exp, "tokens")
            put(exp, "advantages", like(tokens, np.where(weight > 0, advantage, 0.0)))
            put(exp, "returns", like(tokens, np.where(weight > 0, advantage, 0.0)))
            if (row.sampled() & (weight == 0)).any():
                put(exp, "action_mask", like(tokens, weight > 0))
        metrics = {
            f"credit/{name}": float(note) for name, note in credit.notes.items() if isinstance(note, int | float)
        }
        known = credit.weight_S
        metrics["credit/mean_abs"] = float(np.abs(credit.advantage_S[known]).mean()) if known.any() else 0.0
        metrics["experience_count"] = float(len(exps))
        return exps, metrics

    def _rows(self, exps: Sequence[Any]) -> list[HostRow]:
        runs: dict[str, list[int]] = {}
        for k, exp in enumerate(exps):
            eid = field(exp, "eid")
            runs.setdefault(f"{field(eid, 'batch')}/{field(eid, 'task')}/{field(eid, 'run')}", []).append(k)
        rows: list[HostRow | None] = [None] * len(exps)
        for name, members in runs.items():
            members.sort(key=lambda k: int(field(field(exps[k], "eid"), "step", 0) or 0))
            outcome = field(
                exps[members[-1]], "reward", None
            )  # Trinity's rule: the run is worth what its last step says
            for place, k in enumerate(members):
                rows[k] = self._row(exps[k], name, place, outcome, last=place == len(members) - 1)
        return [row for row in rows if row is not None]

    def _row(self, exp: Any, name: str, place: int, outcome: Any, *, last: bool) -> HostRow:
        tokens, start = numbers(field(exp, "tokens")).astype(np.int64), int(field(exp, "prompt_length"))
        mask = field(exp, "action_mask", None)
        sampled = np.ones(len(tokens) - start, dtype=bool) if mask is None else numbers(mask).astype(bool)
        if len(sampled) != len(tokens) - start:
            raise DataError(
                f"run {name!r}, step {place}: action_mask has {len(sampled)} entries for {len(tokens) - start} "
                "response tokens; give one per token behind the prompt"
            )
        info = field(exp, "info", None) or {}
        steps = len(runs_of(sampled))
        reward, state = info.get(self.step_reward_key), info.get(self.state_key)
        if last and outcome is not None:
            reward = None  # it has what the outcome has beyond the other steps
        logp = field(exp, "logprobs", None)
        return HostRow(
            group=name.rsplit("/", 1)[0],
            id=name,
            index=place,
            prompt_ids=tokens[:start],
            completion_ids=tokens[start:],
            mask=sampled,
            reward=None if outcome is None else float(outcome),
            step_rewards=None if reward is None else [*[None] * (steps - 1), float(reward)],
            states=None if state is None else [str(state), *[None] * (steps - 1)],
            logp=None if logp is None or len(logp) != len(sampled) else numbers(logp).astype(np.float64),
        )

    @classmethod
    def compute_in_trainer(cls) -> bool:
        """In the pipeline of experiences, where whole groups are seen."""
        return False

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """Arguments where the configuration has none."""
        return {"method": "grpo"}


def register(name: str = "apportion") -> type:
    """Enter `CreditAdvantageFn` into Trinity's registry of advantage functions and return what was entered.

    Raises:
        MissingExtra: Trinity-RFT is not installed.
    """
    try:
        from trinity.algorithm.advantage_fn.advantage_fn import ADVANTAGE_FN, AdvantageFn
    except ImportError:
        raise missing("the Trinity-RFT adapter", "trinity-rft") from None
    made = type("CreditAdvantageFn", (CreditAdvantageFn, AdvantageFn), {})
    ADVANTAGE_FN.register_module(name)(made)
    return made
