"""What a credit method may ask for, and what it gets back: plain values, no I/O.

A method that asks is two pure functions around one runner (`apportion.resources.run`)::

    plan(units, ...)            -> [Continue(...), Score(...), ...]     what to ask
    fold(units, answers, ...)   -> Credit                               one `Answer` for each ask, in the same order
"""

from apportion.asks.answers import Answer, Attended, Continuation, Move, Verdict
from apportion.asks.places import Place, Span
from apportion.asks.requests import (
    KINDS,
    Ask,
    Attend,
    Continue,
    Judge,
    Logprob,
    Score,
    Value,
    asked_of,
    samples_of,
    traj_of,
)

__all__ = [
    "KINDS",
    "Answer",
    "Ask",
    "Attend",
    "Attended",
    "Continuation",
    "Continue",
    "Judge",
    "Logprob",
    "Move",
    "Place",
    "Score",
    "Span",
    "Value",
    "Verdict",
    "asked_of",
    "samples_of",
    "traj_of",
]
