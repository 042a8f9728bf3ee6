"""From credited rollouts to what the model is trained on: sequences, trained tokens, micro-batches.

A *sequence* is one context of the model: a whole trajectory where the context grows, one step where each step has a
prompt of its own. Equal inputs run once: at one start state eight rollouts share a prompt, and a forward pass gives
the log-probabilities of every action that was taken there. The sum of the losses is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from apportion.credit import TokenAdvantages
from apportion.data import Batch
from apportion.numerics import BoolArray, FloatArray, IntArray
from apportion.train.policy import Allowed, Policy, entropy


@dataclass(frozen=True, slots=True)
class Examples:
    """Trained tokens of a batch. K = trained tokens (sampled, weight above 0), Q = sequences with any of them.

    Attributes:
        inputs: ids of each sequence up to its last trained token, exclusive: what the model has to read.
        token_K: sampled id. seq_K: its sequence. at_K: position in the input whose output predicts it.
        allowed_K: what could be drawn there. old_logp_K: log-probability when sampled, nats.
        advantage_K, weight_K: of the loss. traj_K: trajectory. group_K: its group.
    """

    inputs: tuple[tuple[int, ...], ...]
    token_K: IntArray
    seq_K: IntArray
    at_K: IntArray
    allowed_K: tuple[Allowed, ...]
    old_logp_K: FloatArray
    advantage_K: FloatArray
    weight_K: FloatArray
    traj_K: IntArray
    group_K: IntArray

    @classmethod
    def of(cls, tokens: TokenAdvantages, policy: Policy) -> Examples:
        """Lay out the tokens that the loss counts."""
        batch = tokens.units.batch
        trained_T = batch.sampled_T & (tokens.weight_T > 0)
        seq_of_S, start_Q = _sequences(batch)
        t = np.flatnonzero(trained_T)
        seq = seq_of_S[batch.step_of_T[t]]
        kept, seq_K = np.unique(seq, return_inverse=True)
        last = np.zeros(len(kept), dtype=np.int64)
        last[seq_K] = t  # in time order, so the last one stays
        start = start_Q[kept]
        assert batch.logp_T is not None
        return cls(
            inputs=tuple(tuple(batch.ids_T[a:b].tolist()) for a, b in zip(start, last, strict=True)),
            token_K=batch.ids_T[t],
            seq_K=seq_K.astype(np.int64),
            at_K=t - start[seq_K] - 1,
            allowed_K=_allowed(batch, policy, trained_T),
            old_logp_K=batch.logp_T[t],
            advantage_K=tokens.advantage_T[t],
            weight_K=tokens.weight_T[t],
            traj_K=batch.traj_of_T[t],
            group_K=batch.group_of_N[batch.traj_of_T[t]],
        )

    def __len__(self) -> int:
        return len(self.inputs)

    def with_credit(self) -> IntArray:
        """Sequences in which some token has credit; the others add nothing to a policy loss or its gradient."""
        return np.unique(self.seq_K[self.advantage_K != 0])


@dataclass(frozen=True, slots=True)
class Micro:
    """Rows that are run together, and the trained tokens that are read off them."""

    rows: tuple[tuple[int, ...], ...]
    k: IntArray  # trained tokens, positions in Examples
    row_k: IntArray


def micro_batches(examples: Examples, sequences: IntArray, micro_tokens: int) -> Iterator[Micro]:
    """The given sequences, equal inputs once, sorted by length and cut where padding included a part is full."""
    row_of_seq = np.full(len(examples), -1, dtype=np.int64)
    rows: dict[tuple[int, ...], int] = {}
    for q in sequences.tolist():
        row_of_seq[q] = rows.setdefault(examples.inputs[q], len(rows))
    inputs = list(rows)
    size = np.array([len(row) for row in inputs], dtype=np.int64)
    order = np.argsort(size, kind="stable")
    of_k = row_of_seq[examples.seq_K]
    for part in _cut(size[order].tolist(), micro_tokens):
        members = order[part]
        place = np.full(len(inputs), -1, dtype=np.int64)
        place[members] = np.arange(len(members))
        k = np.flatnonzero((of_k >= 0) & (place[np.maximum(of_k, 0)] >= 0))
        yield Micro(tuple(inputs[i] for i in members), k, place[of_k[k]])


def score(policy: Policy, examples: Examples, micro: Micro) -> tuple[Tensor, Tensor]:
    """Log-probability of each trained token of a micro-batch and entropy at its place, both with gradient."""
    logits = policy.logits(micro.rows, micro.row_k, examples.at_K[micro.k])
    log_probs = policy.log_probs(logits, [examples.allowed_K[k] for k in micro.k.tolist()])
    token = torch.as_tensor(examples.token_K[micro.k], device=logits.device)
    return log_probs.gather(-1, token[:, None])[:, 0], entropy(log_probs)


def _sequences(batch: Batch) -> tuple[IntArray, IntArray]:
    """Sequence of each step, and the token each sequence starts at."""
    new_traj = np.append(True, batch.traj_of_S[1:] != batch.traj_of_S[:-1])[: len(batch.traj_of_S)]
    seq_of_S = np.cumsum(new_traj | batch.fresh_S) - 1
    seq_of_T = seq_of_S[batch.step_of_T]
    start_Q = np.full(int(seq_of_S[-1]) + 1, len(seq_of_T), dtype=np.int64)
    np.minimum.at(start_Q, seq_of_T, np.arange(len(seq_of_T)))
    return seq_of_S, start_Q


def _allowed(batch: Batch, policy: Policy, trained_T: BoolArray) -> tuple[Allowed, ...]:
    """What could be drawn at each trained token, from the admissible actions that were recorded."""
    out: list[Allowed] = []
    t = 0
    for trajectory in batch.trajectories:
        for step in trajectory.steps:
            t += 0 if step.prompt_ids is None else len(step.prompt_ids)
            ids = tuple(int(i) for i in step.ids) if step.ids is not None else ()
            choices = policy.choices(step.actions) if step.actions is not None and not policy.free_text else None
            for k in range(len(ids)):
                if trained_T[t + k]:
                    out.append(None if choices is None else choices.allowed(ids[:k]))
            t += len(ids)
    return tuple(out)


def _cut(sizes: Sequence[int], micro_tokens: int) -> Iterator[slice]:
    """Ranges of rows, sorted by size, of at most ``micro_tokens`` when padded to the longest; at least one row."""
    begin = 0
    for i, size in enumerate(sizes):
        if i > begin and (i + 1 - begin) * size > micro_tokens:
            yield slice(begin, i)
            begin = i
    if sizes:
        yield slice(begin, len(sizes))
