"""What a run of asking did, as numbers and as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from apportion.resources.protocol import Reply


@dataclass(slots=True)
class Summary:
    """Counts of one crediting.

    Attributes:
        asked: requests answered in this run. cached: answers found in the cache. retried: tries that were repeated.
        prompt_tokens, generated_tokens: spent in this run, without what the cache held.
        failed: requests without an answer, by reason. damaged: cache entries found damaged and asked again.
        unsaved: answers that could not be stored (and are used all the same), and why.
        notes: what was odd about answers, with how many.
        seconds: wall time spent asking.
    """

    asked: int = 0
    cached: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    unsaved: int = 0
    unsaved_reason: str = ""
    notes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add_asked(self, reply: Reply) -> None:
        self.asked += 1
        self.prompt_tokens += reply.prompt_tokens
        self.generated_tokens += reply.generated_tokens
        if reply.note:
            self.notes[reply.note] += 1

    def add_found(self, replies: Iterable[Reply], damaged: int) -> None:
        self.cached += len(list(replies))
        self.damaged = damaged

    def add_failed(self, reasons: Iterable[str]) -> None:
        self.failed.update(reasons)

    def spent(self) -> tuple[int, int, int]:
        """Requests, prompt tokens and generated tokens of this run."""
        return self.asked, self.prompt_tokens, self.generated_tokens

    def lines(self) -> list[str]:
        """For people, most important first."""
        out = [
            f"asked {self.asked} in {self.seconds:.1f} s ({self.prompt_tokens} prompt and {self.generated_tokens} "
            f"generated tokens), {self.cached} found in the cache"
        ]
        if self.failed:
            out.append(f"{sum(self.failed.values())} without an answer; their units may be unknown:")
            out += [f"  {count} {reason}" for reason, count in self.failed.most_common(5)]
            if len(self.failed) > 5:
                out.append(f"  and {len(self.failed) - 5} other reasons")
        if self.retried:
            out.append(f"{self.retried} tries were repeated")
        out += [f"{count} answers: {note}" for note, count in self.notes.most_common(5)]
        if self.damaged:
            out.append(f"{self.damaged} cache entries were damaged and asked again")
        if self.unsaved:
            out.append(
                f"{self.unsaved} answers are not in the cache ({self.unsaved_reason}); make room and run the same "
                "command again, else they have to be paid for again"
            )
        return out

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        counts = {"failed": dict(self.failed), "notes": dict(self.notes)}
        return {name: getattr(self, name) for name in self.__slots__} | counts


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands: requests done of total, of which failed, answers found in the cache, tokens spent, and the
    seconds that the rest would take at this pace (None before the first answer)."""

    total: int
    done: int
    failed: int
    cached: int
    tokens: int
    seconds_left: float | None

    @classmethod
    def of(cls, total: int, done: int, failed: int, summary: Summary, seconds: float) -> Progress:
        left = seconds / done * (total - done) if done else None
        tokens = summary.prompt_tokens + summary.generated_tokens
        return cls(total, done, failed, summary.cached, tokens, left)
