"""Two rollouts of one name, or one rollout twice."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.data import Trajectory


@register("duplicate-id", on="rollouts")
def duplicate_id(rollouts: Sequence[Trajectory]) -> Yields:
    """Ids that several rollouts share; says how many of those have the same text and tokens."""
    positions: dict[str, list[int]] = {}
    for n, trajectory in enumerate(rollouts):
        if isinstance(trajectory.id, str):
            positions.setdefault(trajectory.id, []).append(n)
    again = {name: where for name, where in positions.items() if len(where) > 1}
    if not again:
        return
    extra = sum(len(where) - 1 for where in again.values())
    copies = sum(_content(rollouts[n]) == _content(rollouts[where[0]]) for where in again.values() for n in where[1:])
    same = f"; {copies} of them are copies, which would count twice" if copies else ""
    name, where = next(iter(again.items()))
    yield Finding(
        "duplicate-id",
        "error",
        f"{count(extra, 'rollout')} of {len(rollouts)} have an id that another one has: "
        f"{named(again, len(again))} ({name!r} at {', '.join(map(str, where[:5]))}){same}; no batch takes them",
        "give every rollout its own id, or leave the ids out to number them; remove copies",
        {
            "ids": len(again),
            "rollouts": extra,
            "of": len(rollouts),
            "share": extra / len(rollouts),
            "copies": copies,
        },
        places(again),
    )


def _content(trajectory: Trajectory) -> tuple[object, ...]:
    return tuple(
        (
            step.observation,
            step.action,
            None if step.prompt_ids is None else tuple(step.prompt_ids),
            None if step.ids is None else tuple(step.ids),
        )
        for step in trajectory.steps
    )
