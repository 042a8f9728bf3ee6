"""ArCHer's critic: twin Q and V of utterances, learned off-policy from a buffer of transitions.

    Q  a hidden state behind the utterance      V  one before it
    losses and copies: `twins`                  A(s,a) = min_j Q_j - min_j V_j, which the method `archer` reads

Source    ArCHer (arXiv:2402.19446); its released code was read for facts only.
Deviates  1. One causal trunk reads state and utterance in one row; the code encodes them apart, with RoBERTa.
             Heads have one hidden layer, the code's have two.
          2. A rollout that a limit cut off goes on with the value behind it; the code takes it as ended:
             ``timeout="terminal"``.
          3. The paper's target of V is Q' of a fresh action of the policy: ``propose`` in `update`. Without it, and
             offline, the action is that of the data: V is that of who acted. ``expectile=0.9`` is the offline variant.
          4. The code clips critic and policy by one norm, with gradients that the policy's last update left:
             ``beside`` in `update`. It sums 32 micro-batches before that: ``clip_norm=1/32`` is the same under Adam.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.models import saving
from apportion.models.archer_offline import Offline
from apportion.models.archer_online import Online
from apportion.models.backbone import Backbone, backbone_for
from apportion.models.fitting import Fitted, Progress, Settings, held_out, run
from apportion.models.heads import TOGETHER
from apportion.models.metrics import measures
from apportion.models.places import places
from apportion.models.replay import Replay
from apportion.models.rows import Rows, rows_of
from apportion.models.transitions import ENDS, Transitions, transitions_of
from apportion.numerics import FloatArray, IntArray, to_go
from apportion.units import Units, by_step, by_turn
from apportion.units.cuts import steps_in_units

BUILT = ("level", "timeout", "seed", "hidden", "gamma", "tau", "expectile")
CUTS = {"turn": by_turn, "step": by_step}
PARTS = ("q", "v")
"""Names of the predictions among `Step.rewards`: min_j Q_j and min_j V_j of the utterance that ends with the step."""


class ArCHerCritic(Online):
    """Q and V of each utterance, discounted reward units. Make it with `fit`, `load`, or itself for `update`.

    Args:
        backbone: the trunk. level: what an utterance is, "turn" or "step".
        timeout: what follows a rollout that a limit cut off: "bootstrap" or "terminal".
        capacity: transitions that the buffer keeps. folder: where it lies, ``folder/buffer``; None = in memory.
        hidden, seed, gamma, tau, expectile: see `Twins`.

    Attributes:
        fitted: what the fit did, its measures included; None before. replay: the buffer.
    """

    BACKBONE = Backbone

    def __init__(
        self,
        backbone: Backbone,
        *,
        level: str = "turn",
        timeout: str = "bootstrap",
        capacity: int = 100_000,
        folder: str | Path | None = None,
        seed: int = 0,
        **how: Any,
    ) -> None:
        super().__init__(backbone, seed=seed, **how)
        for name, value, known in (("level", level, tuple(CUTS)), ("timeout", timeout, ENDS)):
            if value not in known:
                raise ConfigError(f"ArCHerCritic: {name} is {value!r}; give one of {', '.join(known)}")
        self.level, self.timeout, self.seed = level, timeout, seed
        self.replay = Replay(capacity, None if folder is None else Path(folder) / "buffer")
        self.fitted: Fitted | None = None

    @property
    def backbone(self) -> Backbone:
        """The trunk that learns."""
        return self.pairs.backbone

    @classmethod
    def fit(
        cls,
        batch: Batch,
        *,
        backbone: Backbone | Any = "small",
        level: str = "turn",
        gamma: float = 0.95,
        tau: float = 0.1,
        expectile: float | None = None,
        timeout: str = "bootstrap",
        capacity: int = 100_000,
        hidden: int = 0,
        settings: Settings | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        **named: Any,
    ) -> Self:
        """Fit to the transitions of rollouts; an epoch draws as many as there are, with replacement.

        Args:
            batch: scored rollouts; others are not read. The newest ``capacity`` transitions are.
            backbone: `Backbone`, or what its first argument may be.
            level, timeout, capacity, hidden: see the class. gamma, tau, expectile: see `Twins`.
            settings, out, resume, progress: as for `ValueHead.fit`; single settings can be named as well. The buffer
                lies in ``out/buffer``.

        Raises:
            DataError: no rollout that can be read, or a loss that is not finite.
            ConfigError: a parameter that cannot be used. CheckpointError: see `fitting.run`.
        """
        chosen = Settings.of(settings, **named)
        how = {"gamma": gamma, "tau": tau, "expectile": expectile, "hidden": hidden}
        trunk = backbone_for(batch, backbone, Backbone)
        model = cls(trunk, level=level, timeout=timeout, capacity=capacity, folder=out, seed=chosen.seed, **how)
        held = held_out(batch.group_of_N, chosen)
        task = Offline(model, model.replay, model.transitions(batch, ~held), chosen.seed)
        folder = None if out is None else Path(out) / "checkpoints"
        model.fitted = run(
            model, task, chosen, folder=folder, resume=resume, progress=progress, after_step=model.follow
        )
        task.fill()  # a fit that was resumed behind its last epoch
        model.fitted.measures = model.measured_on(batch, held)
        if out is not None:
            model.save(out)
        return model

    def transitions(self, batch: Batch, member_N: Any = True) -> Transitions:
        """What the buffer gets of a batch: the transitions of scored and whole rollouts.

        Args:
            batch: rollouts. member_N: which of them, (N,); default all.

        Raises:
            DataError: no rollout that can be read.
        """
        taken = np.flatnonzero(CUTS[self.level](batch).valid_N & member_N)
        if not len(taken):
            raise DataError("ArCHerCritic: no rollout is scored, whole and has sampled tokens; give outcomes")
        chosen = Batch.from_trajectories(batch.trajectories[n] for n in taken.tolist())
        units, rows = CUTS[self.level](chosen), self.rows(chosen)
        return transitions_of(chosen, units, rows, longest=self.backbone.longest, timeout=self.timeout)

    def rows(self, batch: Batch) -> Rows:
        """The batch as the trunk reads it."""
        trunk = self.backbone
        return rows_of(batch, start=trunk.start, encode=trunk.encode, vocabulary=trunk.vocabulary)

    def both(self, batch: Batch) -> tuple[FloatArray, FloatArray]:
        """Q_1, Q_2 and V_1, V_2 of each utterance of the batch, two (S, 2), discounted reward units."""
        rows, first = self.rows(batch), steps_in_units(batch, self.level)[1]
        return self.q(batch), self._at(rows, "v", rows.row_of_S[first], rows.at_S[first])

    def q(self, batch: Batch) -> FloatArray:
        """Q_1, Q_2 of each utterance of the batch, (S, 2), discounted reward units."""
        rows, last = self.rows(batch), self._last(steps_in_units(batch, self.level)[0])
        return self._at(rows, "q", rows.row_of_S[last], rows.after_S[last])

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with `Step.rewards` ``q`` = min_j Q_j and ``v`` = min_j V_j at the last step of each
        utterance, which the method `archer` reads. Those that they had are replaced."""
        q, v = (x.min(axis=1) for x in self.both(batch))
        unit_of_step = steps_in_units(batch, self.level)[0]
        told = dict(zip(self._last(unit_of_step).tolist(), zip(q.tolist(), v.tolist(), strict=True), strict=True))
        out, k = [], 0
        for rollout in batch.trajectories:
            steps = []
            for step in rollout.steps:
                others = {name: x for name, x in step.rewards.items() if name not in PARTS}
                steps.append(replace(step, rewards=others | dict(zip(PARTS, told.get(k, ()), strict=False))))
                k += 1
            out.append(replace(rollout, steps=steps))
        return Batch.from_trajectories(out)

    def measure(self, batch: Batch) -> dict[str, Any]:
        """Measures of min_j Q_j against sampled discounted returns, see `metrics.measures`, and ``disagreement``: the
        mean squared difference of Q_1 and Q_2.

        Raises:
            DataError: no rollout that can be read.
        """
        if not CUTS[self.level](batch).valid_N.any():
            raise DataError("ArCHerCritic.measure: no rollout is scored, whole and has sampled tokens; give outcomes")
        return self.measured_on(batch, np.ones(len(batch), dtype=bool))

    def measured_on(self, batch: Batch, member_N: Any) -> dict[str, Any]:
        """Measures on some rollouts, as JSON values."""
        units: Units = CUTS[self.level](batch)
        at = np.flatnonzero((units.valid_N & member_N)[units.traj_of_S])
        q, came = self.both(batch)[0], to_go(units.reward_S, units.traj_of_S, gamma=self.gamma)
        traj = units.traj_of_S[at]
        found = measures(q.min(axis=1)[at], came[at], traj)
        return {**found, "disagreement": measures(q[at, 0], q[at, 1], traj)["error"]}

    def save(self, folder: str | Path) -> None:
        """Write the model, see `saving.save`, and what `update` needs to go on, see `Online.save_state`."""
        self.save_state(Path(folder))
        self.save_model(folder)

    def save_model(self, folder: str | Path) -> None:
        """Write the model alone, enough to predict."""
        told = None if self.fitted is None else self.fitted.to_mapping()
        built = {name: getattr(self, name) for name in BUILT} | {"capacity": self.replay.capacity}
        facts = {**built, "backbone": self.backbone.facts(), "fitted": told}
        saving.save(folder, "ArCHerCritic", self, facts)

    @classmethod
    def load(cls, folder: str | Path, *, backbone: Backbone | None = None) -> Self:
        """Read a saved model; see `ValueHead.load`. `update` goes on where the saved one stood."""
        facts = saving.described(folder, "ArCHerCritic")
        how = {name: facts[name] for name in (*BUILT, "capacity")}
        model = cls(backbone or Backbone.of_facts(facts["backbone"]), folder=folder, **how)
        saving.fill(folder, model, facts)
        model.saved_in = Path(folder), None
        return model.eval()

    @torch.no_grad()
    def _at(self, rows: Rows, name: str, row_K: IntArray, at_K: IntArray) -> FloatArray:
        found = places(rows, row_K, at_K, longest=self.backbone.longest)
        out = np.zeros((len(found), 2))
        order = np.argsort([len(w) for w in found.windows], kind="stable")
        for items in np.array_split(order, max(1, -(-len(order) // TOGETHER))):
            which = np.concatenate([found.of(w) for w in items.tolist()])
            row = np.repeat(np.arange(len(items)), [len(found.of(w)) for w in items.tolist()])
            hidden = self.backbone([found.windows[w] for w in items.tolist()], row, found.before_K[which])
            out[which] = self.pairs.on(name, hidden).double().cpu().numpy()
        return out

    @staticmethod
    def _last(unit_of_step: IntArray) -> IntArray:
        """Last step of each unit."""
        return np.flatnonzero(np.append(np.diff(unit_of_step) != 0, True))
