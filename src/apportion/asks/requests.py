"""The questions. Each names positions in a batch; `apportion.resources` turns them into text or ids and asks."""

from __future__ import annotations

from dataclasses import dataclass

from apportion.asks.places import Place, Span
from apportion.errors import ConfigError

FILLERS = ("blank", "delete", "mask_token")


@dataclass(frozen=True, slots=True)
class Continue:
    """Play on from a moment of a rollout, ``k`` times, as the policy would; each sample is a `Continuation`.

    Attributes:
        at: where to begin.
        k: independent continuations.
        first: write this first: ids, or text where the rollout has only text. The rest of the action follows it,
            unless ``whole``.
        whole: ``first`` is a whole action; the environment answers next.
        max_tokens: sampled tokens at most, None = what the resource allows. Longer ones come back unfinished.
        stop_at_limit: reaching ``max_tokens`` is what the asker wants (a tree of segments), so no reward is due.
        without: agents whose actions are left out of the context (what would have happened without their help).
        tag: tells apart asks that are otherwise equal and must not share their samples.
    """

    at: Place
    k: int
    first: tuple[int, ...] | str | None = None
    whole: bool = False
    max_tokens: int | None = None
    stop_at_limit: bool = False
    without: tuple[str, ...] = ()
    tag: str = ""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"Continue asks for {self.k} continuations; ask for at least one")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"Continue allows {self.max_tokens} tokens; allow at least one")


@dataclass(frozen=True, slots=True)
class Score:
    """A reward model's score of a rollout, of the part up to a moment, or of the rollout with tokens missing; a float.

    Attributes:
        traj: position of the trajectory in its batch.
        upto: what comes later is not shown; None = the whole rollout.
        absent: sampled tokens that the model does not see.
        filler: what stands in their place: "blank" (as many spaces as there were characters), "delete" (nothing) or
            "mask_token" (the scoring model's own).
        agents: agents whose actions are replaced by a placeholder, instead of ``absent``.
        tag: tells apart asks that are otherwise equal.
    """

    traj: int
    upto: Place | None = None
    absent: tuple[Span, ...] = ()
    filler: str = "blank"
    agents: tuple[str, ...] = ()
    tag: str = ""

    def __post_init__(self) -> None:
        if self.filler not in FILLERS:
            raise ConfigError(f"Score: filler is {self.filler!r}; it takes {', '.join(FILLERS)}")
        if self.upto is not None and self.upto.traj != self.traj:
            raise ConfigError(f"Score of trajectory {self.traj} up to {self.upto}; give a place in the same trajectory")


@dataclass(frozen=True, slots=True)
class Attend:
    """How a reward model looks at a rollout when it scores it; an `Attended` with one weight for each span."""

    traj: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge's opinion of every unit of a rollout, ``votes`` times; each sample is a `Verdict`.

    Attributes:
        traj: position of the trajectory in its batch.
        units: where each unit begins, in time order; a unit ends where the next begins.
        template: name of the prompt template, or the path of the user's own.
        votes: independent opinions.
        privileged: the judge may see `Trajectory.reference`, so its verdicts are for training only.
        focus: judge only this unit (a position in ``units``), from what was known when its result came back: nothing
            later is shown. Its verdicts are None for all others. None = all units, from the whole rollout.
    """

    traj: int
    units: tuple[Place, ...]
    template: str
    votes: int = 1
    privileged: bool = False
    focus: int | None = None

    def __post_init__(self) -> None:
        if self.votes < 1:
            raise ConfigError(f"Judge asks for {self.votes} votes; ask for at least one")
        if not self.units:
            raise ConfigError(f"Judge of trajectory {self.traj} names no units; give the place where each begins")
        if self.focus is not None and not 0 <= self.focus < len(self.units):
            raise ConfigError(f"Judge: focus is {self.focus} of {len(self.units)} units; they are counted from 0")


@dataclass(frozen=True, slots=True)
class Logprob:
    """Log-probabilities of given tokens under a given context, nothing sampled; a tuple of nats, one per token.

    Attributes:
        at: the context: everything up to here. For ``target=None`` the tokens scored begin here.
        until: end of the tokens scored, in the same step; None = the end of that step's action.
        target: score this text after the context instead of what was sampled (a gold answer).
        frame: text with named slots that takes the context's place: ``{prompt}`` (context of the first step),
            ``{context}`` (everything up to ``at``), ``{outcome}`` (what came after the last action), ``{reference}``.
            None = the context as it was.
        model: "policy" or "reference".
    """

    at: Place
    until: int | None = None
    target: str | None = None
    frame: str | None = None
    model: str = "policy"

    def __post_init__(self) -> None:
        if self.model not in ("policy", "reference"):
            raise ConfigError(f"Logprob: model is {self.model!r}; it takes 'policy' or 'reference'")
        if self.target is not None and self.until is not None:
            raise ConfigError("Logprob: until belongs to sampled tokens; leave it out with a target of your own")


@dataclass(frozen=True, slots=True)
class Value:
    """A value model's estimate of the return from a moment on; a float in reward units."""

    at: Place


Ask = Continue | Score | Attend | Judge | Logprob | Value
KINDS: dict[type, str] = {
    Continue: "continue",
    Score: "score",
    Attend: "attend",
    Judge: "judge",
    Logprob: "logprob",
    Value: "value",
}
"""Every kind of ask and its name, as resources declare and caches store it."""


def traj_of(ask: Ask) -> int:
    """Position of the trajectory that an ask is about."""
    return ask.at.traj if isinstance(ask, Continue | Logprob | Value) else ask.traj


def asked_of(ask: Ask) -> str:
    """Who is asked, by the names that methods say they need."""
    if isinstance(ask, Logprob):
        return ask.model
    return {"continue": "policy", "judge": "judge", "value": "value_model"}.get(KINDS[type(ask)], "reward_model")


def samples_of(ask: Ask) -> int:
    """How many samples an ask wants: each is one request."""
    if isinstance(ask, Continue):
        return ask.k
    return ask.votes if isinstance(ask, Judge) else 1
