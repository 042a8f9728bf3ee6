"""A head on a backbone: one number at each of some places; what value heads and process reward models share."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from apportion.data import Batch
from apportion.models.backbone import Backbone
from apportion.models.fitting import Fitted
from apportion.models.places import Places, places
from apportion.models.rows import Rows, rows_of
from apportion.models.saving import Saved
from apportion.numerics import FloatArray, IntArray

TOGETHER = 32
"""Windows that are read at a time where nothing is learned."""


class HeadModel(Saved, torch.nn.Module):
    """Numbers at places.

    Args:
        backbone: the trunk. hidden: width of the hidden layer of the head; 0 = one linear map. seed: of its weights.

    Attributes:
        fitted: what the fit did, its measures included; None before.
    """

    BACKBONE = Backbone

    def __init__(self, backbone: Backbone, *, hidden: int = 0, seed: int = 0) -> None:
        super().__init__()
        self.backbone, self.hidden = backbone, hidden
        self.head = head(backbone.width, hidden, seed=seed).to(backbone.device)
        self.fitted: Fitted | None = None

    def forward(self, found: Places, items: IntArray) -> tuple[Tensor, IntArray]:
        """Values (K,) at the places of some windows, and which places these are."""
        hidden, which = self.hidden_states(found, items)
        return self.head(hidden)[:, 0], which

    def hidden_states(self, found: Places, items: IntArray) -> tuple[Tensor, IntArray]:
        """Hidden states (K, width) before the places of some windows, and which places these are."""
        which = np.concatenate([found.of(w) for w in items.tolist()])
        row = np.searchsorted(np.sort(items), found.window_K[which])
        order = np.argsort(items, kind="stable")
        return self.backbone([found.windows[w] for w in items[order].tolist()], row, found.before_K[which]), which

    def rows(self, batch: Batch) -> Rows:
        """The batch as the backbone reads it."""
        return rows_of(
            batch, start=self.backbone.start, encode=self.backbone.encode, vocabulary=self.backbone.vocabulary
        )

    def values_at(self, rows: Rows, row_K: IntArray, at_K: IntArray) -> FloatArray:
        """Values at some places, (K,) float64."""
        found = places(rows, row_K, at_K, longest=self.backbone.longest)
        with torch.no_grad():
            out: FloatArray = self.head(self.all_hidden(found))[:, 0].double().cpu().numpy()
        return out

    @torch.no_grad()
    def all_hidden(self, found: Places) -> Tensor:
        """Hidden states (K, width) of all places; windows of like length are read together."""
        out = torch.zeros((len(found), self.backbone.width), device=self.backbone.device)
        order = np.argsort([len(w) for w in found.windows], kind="stable")
        for items in np.array_split(order, max(1, -(-len(order) // TOGETHER))):
            if len(items):
                state, which = self.hidden_states(found, items)
                out[torch.from_numpy(which).to(out.device)] = state
        return out


class PlaceValues:
    """Values at the places of some windows, for a head to be fitted to; a trunk that does not learn is read once.

    Args:
        model: what gives the values. found: all places.
    """

    def __init__(self, model: HeadModel, found: Places) -> None:
        self.model, self.found = model, found
        self.hidden: Tensor | None = None

    def __call__(self, items: IntArray) -> tuple[Tensor, IntArray]:
        """Values (K,) at the places of some windows, and which places these are."""
        if self.model.backbone.tune != "none":
            value, which = self.model(self.found, items)
            return value, which
        if self.hidden is None:
            self.hidden = self.model.all_hidden(self.found)
        which = np.concatenate([self.found.of(w) for w in items.tolist()])
        return self.model.head(self.hidden[torch.from_numpy(which)])[:, 0], which


def head(width: int, hidden: int, *, seed: int, outputs: int = 1) -> torch.nn.Module:
    """A linear map, or one hidden layer; its last weights begin at 0, so that the first predictions are 0."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        last = torch.nn.Linear(hidden or width, outputs)
        torch.nn.init.zeros_(last.weight)
        torch.nn.init.zeros_(last.bias)
        if not hidden:
            return last
        return torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.GELU(), last)
