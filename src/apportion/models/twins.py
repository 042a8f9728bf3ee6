"""Two pairs of Q and V on one trunk, with copies that follow slowly, and their temporal-difference losses.

L_Qj = (Q_j(s,a) - [r + gamma live V'_j(s')])²          live: something follows;  ': the copies
L_Vj = w (V_j(s) - Q'_j(s,a~))²                         w = 1, or |expectile - 1{Q' < V}|
loss   mean over transitions of L_Q1 + L_Q2 + L_V1 + L_V2
copies theta' <- (1 - tau) theta' + tau theta           after every step
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apportion.errors import ConfigError, DataError
from apportion.models.backbone import Backbone
from apportion.models.heads import head
from apportion.models.replay import Drawn
from apportion.numerics import IntArray

Propose = Callable[[list[IntArray]], Sequence[Sequence[int] | IntArray]]
"""Token ids before actions to token ids of fresh actions of the policy, one each."""


def q_targets(reward_K: Tensor, live_K: Tensor, slow_next_V: Tensor, gamma: float) -> Tensor:
    """What Q is fitted to, (K, 2), reward units.

    Args:
        reward_K: reward of each transition. live_K: whether something follows, 0 or 1.
        slow_next_V: the copies' values of what follows, (K, 2). gamma: discount per utterance.
    """
    return reward_K[:, None] + gamma * live_K[:, None] * slow_next_V


def expectile_loss(value: Tensor, target: Tensor, expectile: float | None) -> Tensor:
    """Squared errors, where the target lies above weighed by ``expectile`` and below by the rest; None = all by 1."""
    error = target - value
    if expectile is None:
        return error**2
    return torch.where(error < 0, 1 - expectile, expectile) * error**2


class Pairs(torch.nn.Module):
    """Q_1, Q_2 of what stands behind an action, and V_1, V_2 of what stands before it, from one trunk's hidden states.

    The heads differ in their first layer, so that the two learners can disagree; all begin at 0.
    """

    def __init__(self, backbone: Backbone, *, hidden: int, seed: int) -> None:
        super().__init__()
        self.backbone = backbone
        width = hidden or backbone.width
        for name, first in (("q", 0), ("v", 2)):
            heads = [head(backbone.width, width, seed=4 * seed + first + j) for j in range(2)]
            self.add_module(name, torch.nn.ModuleList(heads).to(backbone.device))

    def on(self, name: str, hidden: Tensor) -> Tensor:
        """Both heads of "q" or "v" on hidden states, (K, 2)."""
        return torch.cat([one(hidden) for one in self.get_submodule(name).children()], dim=1)

    def copied(self) -> Pairs:
        """The copies: they share a trunk that does not learn, and learn nothing themselves."""
        shares = {id(self.backbone): self.backbone} if self.backbone.tune == "none" else {}
        out = copy.deepcopy(self, shares)
        return out.requires_grad_(False)


class Twins(torch.nn.Module):
    """The pairs and their copies.

    Args:
        backbone: the trunk. hidden: width of the heads' hidden layer; 0 = that of the trunk. seed: of their weights.
        gamma: discount per utterance. tau: how far the copies follow in a step.
        expectile: of V; None = the mean.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        hidden: int = 0,
        seed: int = 0,
        gamma: float = 0.95,
        tau: float = 0.1,
        expectile: float | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(hidden, int) or isinstance(hidden, bool) or hidden < 0:
            raise ConfigError(f"ArCHerCritic: hidden is {hidden!r}; give a width, or 0 for that of the backbone")
        for name, value, open_ends, wanted in (
            ("gamma", gamma, False, "a number from 0 to 1"),
            ("tau", tau, False, "a number above 0 and up to 1"),
            ("expectile", expectile, True, "a number between 0 and 1, or None"),
        ):
            if value is None and name == "expectile":
                continue
            inside = isinstance(value, int | float) and (0 < value < 1 if open_ends else 0 <= value <= 1)
            if not inside or (name == "tau" and value == 0):
                raise ConfigError(f"ArCHerCritic: {name} is {value!r}; give {wanted}")
        self.hidden, self.gamma, self.tau, self.expectile = hidden, gamma, tau, expectile
        self.pairs = Pairs(backbone, hidden=hidden, seed=seed)
        self.slow = self.pairs.copied()

    def losses(self, drawn: Drawn, propose: Propose | None = None) -> Tensor:
        """The four losses of each transition, (K, 4), squared reward units.

        Args:
            drawn: K transitions. propose: fresh actions for the target of V; None = the actions of the data.
        """
        pairs, slow, count = self.pairs, self.slow, len(drawn.reward)
        live = np.flatnonzero(drawn.live)
        device = pairs.backbone.device
        hidden = pairs.backbone(drawn.rows, *np.concatenate((drawn.pair, drawn.state), axis=1))
        q, v = pairs.on("q", hidden[:count]), pairs.on("v", hidden[count:])
        with torch.no_grad():
            places = np.concatenate((drawn.pair, drawn.next[:, live]), axis=1)
            seen = slow.backbone(drawn.rows, *places)
            follows = torch.zeros_like(q)
            follows[torch.as_tensor(live, device=device)] = slow.on("v", seen[count:])
            valued = slow.on("q", seen[:count] if propose is None else self._fresh(drawn.contexts(), propose))
            reward = torch.as_tensor(drawn.reward, dtype=q.dtype, device=device)
            alive = torch.as_tensor(drawn.live, dtype=q.dtype, device=device)
            aim = q_targets(reward, alive, follows, self.gamma)
        return torch.cat(((q - aim) ** 2, expectile_loss(v, valued, self.expectile)), dim=1)

    @torch.no_grad()
    def follow(self) -> None:
        """Move the copies by ``tau`` towards what was learned."""
        for copied, learned in zip(self.slow.parameters(), self.pairs.parameters(), strict=True):
            if learned.requires_grad:
                copied.lerp_(learned, self.tau)

    def _fresh(self, contexts: list[IntArray], propose: Propose) -> Tensor:
        """The copies' hidden states behind fresh actions."""
        trunk = self.slow.backbone
        actions = propose(contexts)
        if len(actions) != len(contexts):
            raise DataError(f"ArCHerCritic: {len(actions)} fresh actions for {len(contexts)} states; give one for each")
        rows = [
            np.concatenate((context, np.asarray(action, dtype=np.int64)))[-trunk.longest :]
            for context, action in zip(contexts, actions, strict=True)
        ]
        where: Any = np.arange(len(rows)), np.array([len(row) for row in rows])
        hidden: Tensor = trunk(rows, *where)
        return hidden
