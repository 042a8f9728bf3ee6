"""From observations to token ids: pieces are encoded once and put together as ids, never tokenized anew."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from apportion.train.tokenizer import ACT, action_token

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around observations and actions.

    first  observation  before  ACTION  [stop]  between  observation  before  ACTION  …
    """

    first: str = ""
    before: str = ""
    between: str = ""
    stop: bool = False
    """A stop token ends every action, also one that was complete without sampling it."""

    @classmethod
    def of(cls, tokenizer: Any, *, free_text: bool) -> Frame:
        """The chat template's frame, that of our own tokenizers, or a plain prompt sign."""
        if getattr(tokenizer, "chat_template", None):
            return _chat_frame(tokenizer)
        if ACT in tokenizer.get_vocab():
            return cls(before=ACT, stop=free_text)
        return cls(before="\n> ", between="\n", stop=False)


class Prompts:
    """Makes contexts for one tokenizer.

    Args:
        tokenizer: any transformers tokenizer.
        window: steps shown before the present observation; None = the context grows.
        free_text: actions end with a stop token.
    """

    def __init__(self, tokenizer: Any, *, window: int | None, free_text: bool) -> None:
        self.tokenizer = tokenizer
        self.window = window
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()
        frame = Frame.of(tokenizer, free_text=free_text)
        self.stop_id = int(tokenizer.eos_token_id)
        self._stop: Ids = (self.stop_id,) if frame.stop else ()
        self.encode = lru_cache(maxsize=100_000)(self._encode)
        self._first = self.encode(frame.first)
        self._before = self.encode(frame.before)
        self._between = self.encode(frame.between)

    def _encode(self, text: str) -> Ids:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False)) if text else ()

    def encode_action(self, action: str) -> Ids:
        """One token where the vocabulary has one for the whole action, else its tokens."""
        whole = self._vocabulary.get(action_token(action))
        return (int(whole),) if whole is not None else self.encode(action)

    def start(self) -> Dialogue:
        """An empty dialogue."""
        return Dialogue(self)

    def present(self, observation: str) -> Ids:
        """The observation and what leads over to the action."""
        return (*self.encode(observation), *self._before)

    def after(self, action: Ids) -> Ids:
        """What follows a sampled action before the next observation, its stop token if it has none."""
        stop = self._stop if action[-1:] != self._stop else ()
        return (*stop, *self._between)

    def prompt(self, turns: list[tuple[Ids, Ids]], present: Ids) -> Ids:
        """A whole prompt: turns of (present, action), then the present."""
        out = list(self._first)
        for shown, action in turns:
            out += (*shown, *action, *self.after(action))
        return (*out, *present)


class Dialogue:
    """The steps of one episode, as the policy sees them."""

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts
        self._turns: list[tuple[Ids, Ids]] = []
        self._present: Ids = ()

    def see(self, observation: str) -> tuple[Ids, bool]:
        """New context ids before the next action, and whether they are a whole prompt of their own."""
        p = self._prompts
        self._present = p.present(observation)
        if not self._turns:
            return p.prompt([], self._present), False
        if p.window is None:
            return (*p.after(self._turns[-1][1]), *self._present), False
        return p.prompt(self._turns[-p.window :] if p.window else [], self._present), True

    def act(self, ids: Ids) -> None:
        """Take note of what was sampled."""
        keep = max(self._prompts.window or 0, 1)
        self._turns = [*self._turns, (self._present, ids)][-keep:]


def _chat_frame(tokenizer: Any) -> Frame:
    """Cut the template's own rendering at placeholders, so that any template works."""
    one, answer, two = "\ue000", "\ue001", "\ue002"

    def render(*messages: tuple[str, str]) -> str:
        listed = [{"role": role, "content": content} for role, content in messages]
        return str(tokenizer.apply_chat_template(listed, tokenize=False, add_generation_prompt=True))

    first, before = render(("user", one)).split(one)
    whole = render(("user", one), ("assistant", answer), ("user", two))
    between = whole.split(answer)[1].split(two)[0]
    stop = tokenizer.eos_token
    ends = stop is not None and between.startswith(stop)
    return Frame(first, before, between.removeprefix(stop) if ends else between, stop=ends)
