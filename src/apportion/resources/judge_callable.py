"""A judge behind a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apportion.resources.judge import JudgeResource
from apportion.resources.judge_price import Completion, Messages


class JudgeCallable(JudgeResource):
    """A judge behind a function: a local model, a client of your own, or a rule in a test.

        JudgeCallable(lambda messages, seed, max_tokens: my_model.chat(messages), identity="my-model-7b, temperature 0")

    Args:
        function: ``(messages, seed, max_tokens)`` in, where messages are dicts with "role" and "content"; the reply
            out, as text or as a `Completion` that says what it cost. Raises `Trouble` or `Refusal`.
        identity: of the model and how it is sampled; change it when the replies change.
        options: as `JudgeResource`.
    """

    def __init__(
        self, function: Callable[[Messages, int, int], str | Completion], *, identity: str, **options: Any
    ) -> None:
        super().__init__(identity=f"judge:{identity}", **options)
        self.function = function

    def complete(self, messages: Messages, *, seed: int, max_tokens: int, schema: dict[str, Any]) -> Completion:
        """The function's reply; the schema is not passed on."""
        done = self.function([dict(message) for message in messages], seed, max_tokens)
        return done if isinstance(done, Completion) else Completion(done)
