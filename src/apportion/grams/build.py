"""The pipeline: n-grams of correct solutions, clusters of meaning, and those clusters that most solutions share.

Source: arXiv:2509.03646 (n from 3 to 5, the top fifth of the clusters by document frequency). The number of clusters
and the pruning of rare n-grams are ours; the paper tells neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from apportion.data import Trajectory
from apportion.errors import ConfigError, DataError
from apportion.grams.clusters import cluster
from apportion.grams.encoders import Encoder, spelling
from apportion.grams.lists import Gram, GramList
from apportion.grams.ngrams import ngrams


def solutions(trajectories: Iterable[Trajectory], *, least: float = 0.5) -> Iterator[str]:
    """What the policy wrote in each rollout whose outcome is above ``least``, its steps as paragraphs.

    Raises:
        DataError: a rollout has token ids only; `apportion grams` works on text.
    """
    for n, trajectory in enumerate(trajectories):
        if trajectory.total is None or not trajectory.total > least:
            continue
        texts = [step.action for step in trajectory.steps if step.action]
        if not texts and any(step.ids is not None and len(step.ids) for step in trajectory.steps):
            name = f" ({trajectory.id!r})" if trajectory.id is not None else ""
            raise DataError(f"trajectory {n}{name} has token ids only; give Step.action, the text that they say")
        yield "\n\n".join(texts)


def build(
    texts: Iterable[str],
    *,
    shortest: int = 3,
    longest: int = 5,
    clusters: int = 100,
    top: float = 0.2,
    least_documents: int = 2,
    most_candidates: int = 20_000,
    encoder: Encoder = spelling,
    seed: int = 0,
    advance: Callable[[], Any] | None = None,
) -> GramList:
    """Build a list of Strategic Grams from solutions.

    Args:
        texts: correct solutions, one text each.
        shortest, longest: words per n-gram.
        clusters: how many clusters the n-grams are put into; fewer where there are fewer.
        top: share of the clusters that is kept, those that occur in most solutions (a solution counts once).
        least_documents: an n-gram in fewer solutions is no candidate.
        most_candidates: of the n-grams, those in most solutions.
        encoder: phrases to vectors. The default compares spelling; a sentence encoder compares meaning, see
            `transformer`.
        seed: of the clustering.
        advance: called after each solution.

    Raises:
        ConfigError: a setting out of range. DataError: no n-gram in at least that many solutions.
    """
    check_settings(shortest, longest, clusters, top, least_documents, most_candidates)
    number: dict[str, int] = {}
    in_document: list[np.ndarray] = []
    for text in texts:
        own = {number.setdefault(gram, len(number)) for gram in ngrams(text, shortest, longest)}
        in_document.append(np.fromiter(own, dtype=np.int64, count=len(own)))
        if advance is not None:
            advance()
    documents_V = np.zeros(len(number), dtype=np.int64)
    for held in in_document:
        documents_V[held] += 1
    names = list(number)
    able = [v for v in np.argsort(-documents_V, kind="stable").tolist() if documents_V[v] >= least_documents]
    chosen = sorted(able, key=lambda v: (-documents_V[v], names[v]))[:most_candidates]
    if not chosen:
        raise DataError(
            f"no n-gram of {shortest} to {longest} words stands in {least_documents} of the {len(in_document)} "
            "solutions; give more solutions, or a smaller least_documents"
        )
    label_C = cluster(np.asarray(encoder([names[v] for v in chosen])), min(clusters, len(chosen)), seed=seed)
    cluster_V = np.full(len(number), -1, dtype=np.int64)
    cluster_V[chosen] = label_C
    documents_K = np.zeros(int(label_C.max()) + 1, dtype=np.int64)
    for held in in_document:
        met = cluster_V[held]
        documents_K[np.unique(met[met >= 0])] += 1
    kept = np.argsort(-documents_K, kind="stable")[: math.ceil(top * len(documents_K))]
    rank = {int(k): r for r, k in enumerate(kept)}
    grams = [
        Gram(names[v], documents=int(documents_V[v]), cluster=rank[int(cluster_V[v])])
        for v in chosen
        if int(cluster_V[v]) in rank
    ]
    provenance = {
        "made_by": "apportion grams build",
        "solutions": len(in_document),
        "words": [shortest, longest],
        "candidates": len(chosen),
        "clusters": len(documents_K),
        "kept_clusters": len(kept),
        "kept_cluster_documents": [int(documents_K[k]) for k in kept],
        "top": top,
        "least_documents": least_documents,
        "encoder": getattr(encoder, "__name__", repr(encoder)),
        "seed": seed,
    }
    return GramList(tuple(sorted(grams, key=lambda gram: (gram.cluster, -gram.documents, gram.text))), provenance)


def check_settings(shortest: int, longest: int, clusters: int, top: float, least: int, most: int = 1) -> None:
    """Raise unless the settings of `build` are in range; nothing is read for it."""
    if not 1 <= shortest <= longest:
        raise ConfigError(f"grams: words per n-gram from {shortest} to {longest}; give 1 <= shortest <= longest")
    if not 0.0 < top <= 1.0:
        raise ConfigError(f"grams: top is {top!r}; give a share in (0, 1]")
    for name, value in (("clusters", clusters), ("least_documents", least), ("most_candidates", most)):
        if value < 1:
            raise ConfigError(f"grams: {name} is {value!r}; give a whole number from 1 on")
