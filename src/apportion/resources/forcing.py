"""Teacher forcing: for a `Logprob`, which ids a model is given, which of them are scored, and how they are reported."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from apportion.asks import Logprob, Place
from apportion.data import Trajectory
from apportion.data.words import words
from apportion.resources.context import context_ids, context_text, sampled
from apportion.resources.past import has_ids
from apportion.resources.sampling import Speller


@dataclass(frozen=True, slots=True)
class Forced:
    """Ids of a context, ids to score after it, and how many of those make one reported number each."""

    context: tuple[int, ...]
    target: tuple[int, ...]
    counts: tuple[int, ...]

    def report(self, logp: list[float]) -> tuple[float, ...]:
        """One number per token that was asked about, from one per target id; nats."""
        out, at = [], 0
        for count in self.counts:
            out.append(float(sum(logp[at : at + count])))
            at += count
        return tuple(out)


def needs_speller(ask: Logprob, rollout: Trajectory) -> bool:
    """Whether text has to be turned into ids."""
    return not has_ids(rollout) or ask.frame is not None or ask.target is not None


def forced(ask: Logprob, rollout: Trajectory, speller: Speller | None) -> Forced:
    """What to run.

    The tokens of a text-only rollout are its words: each is worth the sum over the ids that begin in it.
    """
    ids = has_ids(rollout)
    if not needs_speller(ask, rollout):
        own = _sampled_ids(ask, rollout)
        return Forced(tuple(context_ids(rollout, ask.at)), own, (1,) * len(own))
    assert speller is not None  # whoever checks the request
    if ask.frame is not None:
        context = speller.prompt_ids(framed(ask, rollout, speller))
    elif ids:
        context = context_ids(rollout, ask.at)
    else:
        context = speller.prompt_ids(context_text(rollout, ask.at))
    if ask.target is not None:
        target = tuple(speller.ids(ask.target))
        return Forced(tuple(context), target, (1,) * len(target))
    if ids:
        target = _sampled_ids(ask, rollout)
        return Forced(tuple(context), target, (1,) * len(target))
    own_words = words(rollout.steps[ask.at.step].action or "")[ask.at.token : ask.until]
    target, counts = _by_word(own_words, speller)
    return Forced(tuple(context), target, counts)


def framed(ask: Logprob, rollout: Trajectory, speller: Speller | None) -> str:
    """The frame with its slots filled, each once: what is filled in is not read for slots again."""
    assert ask.frame is not None
    fill = {
        "prompt": lambda: text_before(rollout, Place(ask.at.traj, 0), speller),
        "context": lambda: text_before(rollout, ask.at, speller),
        "outcome": lambda: rollout.final_observation or "",
        "reference": lambda: rollout.reference or "",
    }
    return re.sub(r"\{(prompt|context|outcome|reference)\}", lambda m: fill[m[1]](), ask.frame)


def text_before(rollout: Trajectory, place: Place, speller: Speller | None) -> str:
    """The context of a place as text, from ids where only they are there."""
    if not has_ids(rollout) or (place.token == 0 and _has_text(rollout, place.step)) or speller is None:
        return context_text(rollout, place)
    return speller.text(context_ids(rollout, place))


def _has_text(rollout: Trajectory, upto: int) -> bool:
    return rollout.steps[upto].observation is not None and all(
        step.observation is not None and step.action is not None for step in rollout.steps[:upto]
    )


def _sampled_ids(ask: Logprob, rollout: Trajectory) -> tuple[int, ...]:
    step = rollout.steps[ask.at.step]
    assert step.ids is not None
    return tuple(int(x) for x in step.ids[ask.at.token : sampled(step) if ask.until is None else ask.until])


def _by_word(own: list[str], speller: Speller) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of the joined words, and how many begin in each."""
    told = speller.tokenizer("".join(own), add_special_tokens=False, return_offsets_mapping=True)
    counts, w = [0] * len(own), 0
    ends = list(itertools.accumulate(map(len, own)))
    for begin, _ in told["offset_mapping"]:
        while w < len(own) - 1 and begin >= ends[w]:
            w += 1
        counts[w] += 1
    return tuple(told["input_ids"]), tuple(counts)
