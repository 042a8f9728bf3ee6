"""Sampling from a causal language model in batches, each sample by a generator of its own.

One number is drawn for each token, and the token is where the cumulative distribution passes it. So a sample depends on
its context and its seed, and on what else is in the batch only through the last bits of floating point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.resources.hf_models import positions_of, torch_


@dataclass(slots=True)
class Track:
    """One sample while it is drawn."""

    context: tuple[int, ...]
    most: int
    random: np.random.Generator
    ids: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    finished: bool = False


def draw(
    model: Any,
    tracks: Sequence[Track],
    *,
    temperature: float,
    top_p: float,
    ends: frozenset[int],
    stopped: Any = None,
) -> None:
    """Fill the tracks.

    Args:
        model: a causal language model. tracks: contexts of at least one id, limits of at least one token.
        temperature: 0 takes the likeliest token. top_p: the smallest set of tokens with this much probability.
        ends: ids that finish a sample, and are its last.
        stopped: called with a track after each token; true = finished.
    """
    torch = torch_()
    with torch.inference_mode():
        unique = list(dict.fromkeys(track.context for track in tracks))
        logits, cache, mask = _prefill(model, unique)
        rows = torch.tensor([unique.index(track.context) for track in tracks], device=logits.device)
        if len(rows) != len(unique):  # samples of one context share its run
            cache.batch_select_indices(rows)
        logits, mask, alive = logits[rows], mask[rows], list(tracks)
        while True:
            ids = _pick(logits, alive, temperature, top_p)
            for track in alive:
                track.finished = track.ids[-1] in ends or (stopped is not None and stopped(track))
            keep = [k for k, track in enumerate(alive) if not track.finished and len(track.ids) < track.most]
            if not keep:
                return
            if len(keep) < len(alive):
                chosen = torch.tensor(keep, device=logits.device)
                cache.batch_select_indices(chosen)
                mask, ids, alive = mask[chosen], ids[chosen], [alive[k] for k in keep]
            mask = torch.cat([mask, mask.new_ones(len(alive), 1)], dim=1)
            out = model(
                input_ids=ids[:, None],
                attention_mask=mask,
                position_ids=positions_of(mask)[:, -1:],
                past_key_values=cache,
                use_cache=True,
            )
            cache, logits = out.past_key_values, out.logits[:, -1]


def forced_logp(model: Any, runs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
    """Log-probabilities, nats, of the ids of each second part after those of the first, which has at least one."""
    torch = torch_()
    with torch.inference_mode():
        whole = [[*context, *target] for context, target in runs]
        longest = max(map(len, whole))
        device = next(model.parameters()).device
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in whole], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in whole], device=device)
        logits = model(input_ids=ids, attention_mask=mask, position_ids=positions_of(mask)).logits
        out = []
        for row, (context, target) in enumerate(runs):
            first = len(context)
            scores = logits[row, first - 1 : first - 1 + len(target)].double().log_softmax(-1)
            wanted = torch.tensor(list(target), device=device, dtype=torch.long)
            out.append(scores.gather(1, wanted[:, None])[:, 0].tolist())
        return out


def _prefill(model: Any, contexts: Sequence[tuple[int, ...]]) -> tuple[Any, Any, Any]:
    """Logits after each context, its cache and its mask; contexts are filled up on the left."""
    torch = torch_()
    longest = max(map(len, contexts))
    device = next(model.parameters()).device
    ids = torch.tensor([[0] * (longest - len(c)) + list(c) for c in contexts], device=device)
    mask = torch.tensor([[0] * (longest - len(c)) + [1] * len(c) for c in contexts], device=device)
    out = model(input_ids=ids, attention_mask=mask, position_ids=positions_of(mask), use_cache=True)
    return out.logits[:, -1], out.past_key_values, mask


def _pick(logits: Any, tracks: Sequence[Track], temperature: float, top_p: float) -> Any:
    """One id for each track, noted in it with its log-probability at temperature 1."""
    torch = torch_()
    logp = logits.double().log_softmax(-1)
    if temperature == 0:
        ids = logp.argmax(-1)
    else:
        share = (logits.double() / temperature).softmax(-1)
        if top_p < 1:
            share = _nucleus(share, top_p)
        upto = share.cumsum(-1)
        uniform = torch.tensor([track.random.random() for track in tracks], device=logits.device, dtype=torch.float64)
        ids = torch.searchsorted(upto, (uniform * upto[:, -1])[:, None], right=True)[:, 0]
        last = (share > 0).double().cumsum(-1).argmax(-1)  # rounding must not pass the last that can be drawn
        ids = torch.minimum(ids, last)
    told = logp.gather(1, ids[:, None])[:, 0].tolist()
    for track, id_, value in zip(tracks, ids.tolist(), told, strict=True):
        track.ids.append(id_)
        track.logp.append(value)
    return ids


def _nucleus(share: Any, top_p: float) -> Any:
    """Shares with those outside the smallest set that holds ``top_p`` put to 0; the likeliest always stays."""
    torch = torch_()
    ordered, order = share.sort(dim=-1, descending=True, stable=True)
    outside = ordered.cumsum(-1) - ordered >= top_p
    kept = ordered.masked_fill(outside, 0.0)
    return torch.zeros_like(share).scatter(-1, order, kept)
