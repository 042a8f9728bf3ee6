"""HICRA: more credit, and less blame, for tokens that plan.

    A'[t] = A[t] + alpha |A[t]|        if t lies in a Strategic Gram
            A[t]                       elsewhere

Use       on one long chain of thought of a model that can carry out each step; what it lacks is the plan.
Source    arXiv:2509.03646; written ``dr_grpo | hicra(...)``, since the paper centres without a std.
Compared  by reading, with huggingface/trl PR 4997 (a port). The authors have released no training code.
Deviates  1. Overlapping grams are a union; none amplifies twice.
          2. A gram lies inside the tokens of one step; text of tools and users never takes part.
          3. What the port says of the authors' code (a factor for high entropies and long successes only) could not be
             verified and is not offered.
          4. Grams are data: build a list from your own solutions with `apportion grams build`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError, DataError
from apportion.methods.registry import numbered, register
from apportion.methods.tokenwise import on_tokens
from apportion.numerics import BoolArray, gram_table, mark_grams
from apportion.units import Units
from apportion.units.phrases import Phrases


@register(
    "hicra",
    unit="token",
    family="transform",
    source="arXiv:2509.03646",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    kind="transform",
    example={"grams": [[i] for i in range(0, 1000, 3)]},
)
def hicra(credit: Credit, *, grams: Sequence[str | Sequence[int]] | None = None, alpha: float = 0.2) -> Credit:
    """Add a share of its magnitude to the credit of every planning token.

    A positive credit grows by the factor 1 + alpha, a negative one shrinks by 1 - alpha, so a group no longer sums to
    zero: planning is rewarded as such, and the push is in the notes.

    Args:
        credit: of any units.
        grams: the Strategic Grams, each a list of token ids, or a phrase where the log has only text (case and white
            space do not matter, words are whole). None takes the tokens whose column ``planning`` is above 0.
        alpha: 0 changes nothing; the paper's is 0.2.

    Returns:
        Credit of single tokens; the part "planning" is what was added. The notes count planning tokens that the loss
        counts and give their share and the mean of the addition over all counted tokens.
    """
    if not alpha >= 0:
        raise ConfigError(f"hicra: alpha is {alpha}; give a number of at least 0")
    fine = on_tokens(credit)
    units = fine.units
    own_T = units.unit_of_T >= 0
    plans_T = _column(units) if grams is None else _covered(units, grams)
    plans_S = np.zeros(len(units), dtype=np.bool_)
    plans_S[units.unit_of_T[own_T]] = plans_T[own_T]
    extra_S = np.where(plans_S, alpha * np.abs(fine.advantage_S), 0.0)
    parts = dict(fine.parts or {"credit": fine.advantage_S})
    parts[numbered("planning", parts)] = extra_S
    counted_S = fine.counted_S > 0
    total = max(int(np.count_nonzero(counted_S)), 1)
    told = int(np.count_nonzero(plans_S & counted_S))
    notes = {
        **fine.notes,
        "planning_tokens": told,
        "planning_share": told / total,
        "planning_push": float(extra_S[counted_S].sum() / total),
    }
    return replace(fine, advantage_S=fine.advantage_S + extra_S, parts=parts, notes=notes)


def _column(units: Units) -> BoolArray:
    units.require("hicra", "column:planning")
    return np.asarray(units.batch.columns_T["planning"] > 0, dtype=np.bool_)


def _covered(units: Units, grams: Iterable[Any]) -> BoolArray:
    """Sampled tokens that a gram covers."""
    listed = list(grams)
    phrases = [gram for gram in listed if isinstance(gram, str)]
    ids = [gram for gram in listed if not isinstance(gram, str)]
    batch, has_ids_N = units.batch, units.batch.has_ids_N
    if has_ids_N.any() and not ids:
        raise DataError(
            f"hicra: the batch has token ids and the {len(phrases)} grams are phrases; turn them into ids with the "
            "policy's tokenizer (`apportion grams encode`)"
        )
    if not has_ids_N.all() and not phrases:
        raise DataError(f"hicra: the batch has words only and the {len(ids)} grams are token ids; give phrases")
    own = np.flatnonzero(batch.sampled_T)
    step = batch.step_of_T[own]
    bounds_R = np.searchsorted(step, np.arange(len(batch.traj_of_S) + 1)).astype(np.int64)
    mask_X = mark_grams(batch.ids_T[own], bounds_R, gram_table(ids)).mask_X
    if phrases:
        matcher, pieces = Phrases(phrases), batch.pieces()
        for s in np.flatnonzero(~has_ids_N[batch.traj_of_S]).tolist():
            at = slice(int(bounds_R[s]), int(bounds_R[s + 1]))
            mask_X[at] = matcher.covered([pieces[t] for t in own[at].tolist()])
    out = np.zeros(len(batch.sampled_T), dtype=np.bool_)
    out[own] = mask_X
    return out
