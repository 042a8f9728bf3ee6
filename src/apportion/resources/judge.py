"""Judges: a chat model that gives verdicts on the units of a rollout, or the probability that it will succeed.

request → template → fenced prompt (`judge_prompt`) → the model → strict reading (`judge_reply`). A reply that cannot be
read is answered once with the template's reminder; if the second cannot be read either there is no verdict, which is an
answer of its own (all None), paid for and kept like any other, and never a number.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from apportion.asks import Judge, Value
from apportion.data import Trajectory
from apportion.errors import ConfigError
from apportion.resources.base import BaseResource
from apportion.resources.judge_price import CALLS, REPEATED, Completion, Count, Messages, load_of, taken
from apportion.resources.judge_prompt import Prompt, render
from apportion.resources.judge_reply import NoVerdict, no_verdict, read_probability, read_verdict, schema_of
from apportion.resources.judge_template import Template, load_template
from apportion.resources.judge_text import clean
from apportion.resources.protocol import Load, Refusal, Reply, Request, Trouble
from apportion.resources.rollout_text import Decode, NoText, TooLong, remembered

REMINDED = "read after a reminder"
UNREADABLE = "not readable, after a reminder neither: no verdict"


class JudgeResource(BaseResource):
    """A judge but for its model: subclass and write `complete`.

    Args:
        identity: of the model and its sampling parameters, part of every cache key.
        value_template: of `Value` asks: a template with a probability, by name or path.
        rewards: return of a failure and of a success, reward units: a probability p becomes a value between them.
        decode: token ids to text by the *policy's* tokenizer, for rollouts that have no text.
        special: control tokens of the *judge's* tokenizer, shown harmlessly where a rollout contains them.
        count: tokens of a chat as the *judge* is given it (`apportion.resources.judge_price.counter_of`). None: prices
            are estimated, and a budget reserves one token for each byte, which is several times what will be spent.
        thinking: further tokens that the model may write before its verdict (reasoning models).
        workers: requests at a time.
    """

    kinds = frozenset({"judge", "value"})

    def __init__(
        self,
        *,
        identity: str,
        name: str = "judge",
        value_template: str = "value",
        rewards: tuple[float, float] = (0.0, 1.0),
        decode: Decode | None = None,
        special: Sequence[str] = (),
        count: Count | None = None,
        thinking: int = 0,
        workers: int = 1,
    ) -> None:
        if not (len(rewards) == 2 and all(map(math.isfinite, rewards)) and rewards[0] != rewards[1]):
            raise ConfigError(f"judge: rewards is {rewards!r}; give the return of a failure and of a success")
        if isinstance(thinking, bool) or not isinstance(thinking, int) or thinking < 0 or workers < 1:
            raise ConfigError(f"judge: thinking={thinking!r}, workers={workers!r}; give whole numbers, workers from 1")
        self.identity, self.name, self.workers = identity, name, workers
        self.rewards, self.special, self.thinking = rewards, tuple(special), thinking
        self.decode = None if decode is None else remembered(decode)
        self.count = count
        self._templates: dict[str, Template] = {}
        self._last: tuple[Trajectory, Any, Prompt] | None = None
        self._value_template = value_template
        if (kind := self.template(value_template).scale.kind) != "probability":
            raise ConfigError(
                f"judge: value_template {value_template!r} answers with {kind}; give one with a probability"
            )

    def complete(self, messages: Messages, *, seed: int, max_tokens: int, schema: dict[str, Any]) -> Completion:
        """The model's reply. ``schema``: of the JSON that is wanted, for models that can be held to one.

        Raises:
            Trouble, Refusal, ResourceError: as a resource's `answer`.
        """
        raise NotImplementedError(f"{type(self).__name__} asks no model; write its complete()")

    def template(self, name: str) -> Template:
        """A template, read once: a file that is changed meanwhile does not change a run."""
        if name not in self._templates:
            self._templates[name] = load_template(name)
        return self._templates[name]

    def check(self, request: Request) -> str:
        """A template of the other kind, a reference that is absent or not to be seen, a rollout without text.

        One that is too long is not refused here but by `answer`, so that the others are judged.
        """
        ask, template = request.ask, self._template_of(request.ask)
        probability = template.scale.kind == "probability"
        if probability is not isinstance(ask, Value):
            return (
                f"judge template {template.name} answers with {template.scale.kind}, which is no "
                f"{'value of a state' if isinstance(ask, Value) else 'verdict on units'}; give another template"
            )
        if template.privileged:
            if not isinstance(ask, Judge) or not ask.privileged:
                return (
                    f"judge template {template.name} shows the reference, and the verdicts were not asked for as "
                    "privileged; say privileged=True where they are for training only, or take another template"
                )
            if request.trajectory.reference is None:
                return (
                    f"{_called(request.trajectory)} has no reference, which judge template {template.name} shows; give "
                    "Trajectory.reference, or take a template without"
                )
        try:
            self._prompt(request)
        except TooLong:
            return ""  # this one is refused when its turn comes, the others are judged
        except NoText as problem:
            return f"{_called(request.trajectory)} cannot be shown to a judge: {problem}"
        return ""

    def content(self, request: Request) -> bytes:
        """The template and everything that the judge would be shown."""
        template = self._template_of(request.ask)
        digest = hashlib.blake2b(template.digest.encode(), digest_size=20)
        if isinstance(request.ask, Value):
            digest.update(repr(self.rewards).encode())
        try:
            for text in _texts(self._prompt(request).messages):
                digest.update(_bytes(text) + b"\0")
        except NoText as problem:  # it is refused later
            digest.update(str(problem).encode())
        return digest.digest()

    def load(self, request: Request) -> Load:
        """The prompt, counted or estimated, and a reservation that also covers a reminder."""
        template = self._template_of(request.ask)
        try:
            # codes have as many tokens as they have, so only the request's own prompt can be counted
            prompt = self._prompt(request, salt="" if self.count is None else f"{request.seed}")
        except NoText:
            return Load(exact=False)
        most, expected = self._most(template, prompt), template.tokens(max(len(prompt.numbers), 1)) / 2
        return load_of(prompt.messages, _reminder(template, prompt), most, expected, self.count)

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """One verdict, or one value, for each."""
        out: list[Reply | Trouble | Refusal] = []
        for request in requests:
            try:
                out.append(self._ask(request))
            except (Trouble, Refusal) as problem:
                out.append(problem)
        return out

    def _ask(self, request: Request) -> Reply:
        """Ask, and once more with the reminder."""
        template = self._template_of(request.ask)
        try:
            prompt = self._prompt(request, salt=f"{request.seed}")
        except NoText as problem:
            raise Refusal(f"a rollout cannot be shown to the judge: {problem}") from None
        messages: Messages = list(prompt.messages)
        most, schema = self._most(template, prompt), schema_of(template, prompt.numbers, prompt.code)
        read = wrote = 0
        notes: list[str] = []
        why = reply = ""
        for attempt in range(CALLS):
            try:
                done = self.complete(messages, seed=request.seed + attempt, max_tokens=most, schema=schema)
            except (Trouble, Refusal) as problem:
                problem.spent |= attempt > 0  # the first call was answered
                problem.requests = attempt + 1
                raise
            shown, said, odd = taken(messages, done, most, self.count)
            read, wrote, notes = read + shown, wrote + said, [*notes, *odd]
            try:
                value = self._read(request.ask, template, prompt, done.text)
            except NoVerdict as problem:
                why, reply = str(problem), done.text
            else:
                return Reply(value, read, wrote, _note([*notes, *([REMINDED] if attempt else [])]), attempt + 1)
            messages += [
                {"role": "assistant", "content": clean(reply[:REPEATED], self.special)[:REPEATED]},
                {"role": "user", "content": _reminder(template, prompt)},
            ]
        if isinstance(request.ask, Value):
            refusal = Refusal(f"the judge gave no probability ({why})", spent=True)
            refusal.requests = CALLS
            raise refusal
        verdict = no_verdict(template, len(prompt.numbers), why, reply)
        return Reply(self._placed(request.ask, verdict), read, wrote, _note([*notes, UNREADABLE]), CALLS)

    def _most(self, template: Template, prompt: Prompt) -> int:
        """Tokens of one reply at most."""
        return template.tokens(max(len(prompt.numbers), 1)) + self.thinking

    def _read(self, ask: Any, template: Template, prompt: Prompt, reply: str) -> Any:
        if isinstance(ask, Value):
            failure, success = self.rewards
            return failure + (success - failure) * read_probability(reply, template, prompt.code)
        return self._placed(ask, read_verdict(reply, template, prompt.numbers, prompt.code))

    def _placed(self, ask: Any, verdict: Any) -> Any:
        """A verdict on one unit among all of the ask."""
        if ask.focus is None:
            return verdict
        before, after = ask.focus, len(ask.units) - ask.focus - 1
        scores = (None,) * before + verdict.scores + (None,) * after
        return replace(verdict, scores=scores, labels=(None,) * before + verdict.labels + (None,) * after)

    def _template_of(self, ask: Any) -> Template:
        return self.template(ask.template if isinstance(ask, Judge) else self._value_template)

    def _prompt(self, request: Request, *, salt: str = "") -> Prompt:
        """The prompt of a request. One without salt is wanted several times in a row, so the last is kept."""
        ask, rollout, last = request.ask, request.trajectory, self._last
        assert isinstance(ask, Judge | Value)
        if not salt and last is not None and last[0] is rollout and last[1] is ask:
            return last[2]
        template = self._template_of(ask)
        prompt = render(template, ask, rollout, salt=salt, decode=self.decode, special=self.special)
        if not salt:
            self._last = (rollout, ask, prompt)
        return prompt


def _reminder(template: Template, prompt: Prompt) -> str:
    return f"{template.reminder.strip()} The code is {prompt.code}."


def _note(notes: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(notes))


def _texts(messages: Messages) -> list[str]:
    return [message["content"] for message in messages]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _called(rollout: Trajectory) -> str:
    return "the trajectory" if rollout.id is None else f"trajectory {rollout.id!r}"
