"""Choosing an admissible action token by token: only what still leads to one of them can be drawn."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.errors import ConfigError

Ids = tuple[int, ...]


class Choices:
    """The admissible actions of one moment as a tree of token ids.

    Args:
        actions: texts. ids: their tokens. stop: appended to every action when one is the beginning of another.
    """

    def __init__(self, actions: Sequence[str], ids: Sequence[Ids], stop: int) -> None:
        if not actions:
            raise ConfigError("there is no admissible action; set actions to 'text' for free answers")
        if any(a != b and b[: len(a)] == a for a in ids for b in ids):
            ids = [(*action, stop) for action in ids]
        self.actions = tuple(actions)
        self.ids = tuple(ids)
        self._by_ids = dict(zip(self.ids, self.actions, strict=True))
        if len(self._by_ids) < len(self.actions) or () in self._by_ids:
            twice = next(a for a, i in zip(self.actions, self.ids, strict=True) if self._by_ids[i] != a or not i)
            raise ConfigError(
                f"action {twice!r} cannot be told from another by its tokens; use a tokenizer that knows its words"
            )
        self._next: dict[Ids, Ids] = {}
        for action in self.ids:
            for k in range(len(action)):
                known = self._next.get(action[:k], ())
                if action[k] not in known:
                    self._next[action[:k]] = (*known, action[k])

    def allowed(self, prefix: Ids) -> Ids:
        """Tokens that may follow; none when the action is complete."""
        return self._next.get(prefix, ())

    def action(self, ids: Ids) -> str:
        """Text of a complete action."""
        return self._by_ids[ids]

    def ids_of(self, action: str) -> Ids:
        """Tokens of an action.

        Raises:
            ConfigError: it is not admissible.
        """
        for text, ids in zip(self.actions, self.ids, strict=True):
            if text == action:
                return ids
        raise ConfigError(f"{action!r} is not among the admissible actions {', '.join(map(repr, self.actions))}")
