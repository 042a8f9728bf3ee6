"""Groups whose members did not start from the same place."""

from __future__ import annotations

from collections.abc import Iterable

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.check.starts import start_of
from apportion.data import Batch, Trajectory

CONTEXT = 24
"""Characters shown on each side of a difference."""


@register("first-observation", on="batch", cheap=True)
def first_observation(batch: Batch) -> Yields:
    """Groups whose members have different first observations, so that they are not rollouts of one start."""
    members: dict[int, dict[str, list[int]]] = {}
    for n, trajectory in enumerate(batch.trajectories):
        key = start_of(trajectory)
        if key is not None:
            members.setdefault(int(batch.group_of_N[n]), {}).setdefault(key, []).append(n)
    comparable = {g: starts for g, starts in members.items() if sum(map(len, starts.values())) > 1}
    mixed = {g: starts for g, starts in comparable.items() if len(starts) > 1}
    if not mixed:
        return
    example = max(mixed, key=lambda g: len(mixed[g]))
    starts = mixed[example]
    sizes = sum(map(len, starts.values()))
    at, shown = _difference([batch.trajectories[group[0]] for group in starts.values()])
    part = "" if at is None else f", from character {at} on"
    yield Finding(
        "first-observation",
        "warning",
        f"{len(mixed)} of {count(len(comparable), 'group')} have members with different first observations: "
        f"{named((batch.group_names[g] for g in mixed), len(mixed))}; in {batch.group_names[example]!r} "
        f"{sizes} members have {len(starts)} starts{part}, so their outcomes differ by more than the policy's choices",
        "group by task instance and start state (seed); where only a time, an id or a simulated user's wording "
        "differs, the groups are right and this can stay",
        {
            "groups": len(mixed),
            "of": len(comparable),
            "share": len(mixed) / len(comparable),
            "example_group": batch.group_names[example],
            "example_starts": len(starts),
            "example_members": sizes,
            "differs_at": at,
            "shown": shown,
        },
        places(batch.group_names[g] for g in mixed),
    )


def _difference(trajectories: Iterable[Trajectory]) -> tuple[int | None, list[str]]:
    """Where the texts begin to differ, and how each goes on there; None for token ids."""
    texts = [step.observation for step in (t.steps[0] for t in trajectories) if step.observation is not None]
    if len(texts) < 2:
        return None, []
    low, high = min(texts), max(texts)
    at = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return at, [text[max(0, at - CONTEXT) : at + CONTEXT] for text in texts[:3]]
