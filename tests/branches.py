"""Trees of decisions for tests: nested tuples as rollouts that fork, or leaf by leaf, and plain values of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.data import Batch, Step, Trajectory

# A node is a list of (choice, what follows); what follows is a node, or a number: the outcome (None: not scored).
Node = list[tuple[int, Any]]


def forked(root: Node, group: str = "g") -> Trajectory:
    """One rollout whose steps fork: each edge once. A branch that is not the first repeats its context, as forks do."""
    steps: list[Step] = []
    seen: set[int] = set()

    def grow(node: Node, parent: int, context: list[int]) -> None:
        for choice, after in node:
            again = bool(steps) and (parent in seen or parent != len(steps) - 1)
            seen.add(parent)
            ends = not isinstance(after, list)
            steps.append(
                Step(
                    prompt_ids=context if again else [0],
                    ids=[choice],
                    fresh=again,
                    parent=parent if steps else None,
                    reward=after if ends else None,
                )
            )
            if not ends:
                grow(after, len(steps) - 1, [*context, choice, 0])

    grow(root, -1, [0])
    return Trajectory(steps, group=group, outcome=value(root))


def leaf_by_leaf(root: Node, group: str = "g") -> list[Trajectory]:
    """One rollout for each leaf, from the root on."""
    return [
        Trajectory([Step(prompt_ids=[0], ids=[choice]) for choice in way], outcome=outcome, group=group)
        for way, outcome in ways(root)
    ]


def ways(node: Node, before: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], float | None]]:
    """Choices to each leaf, and its outcome."""
    out = []
    for choice, after in node:
        way = (*before, choice)
        out += ways(after, way) if isinstance(after, list) else [(way, after)]
    return out


def batch(*roots: Node, flat: bool = False) -> Batch:
    """One group per root."""
    rollouts: list[Trajectory] = []
    for g, root in enumerate(roots):
        rollouts += leaf_by_leaf(root, f"g{g}") if flat else [forked(root, f"g{g}")]
    return Batch.from_trajectories(rollouts)


def value(after: Any, *, leaves: bool = False) -> float | None:
    """V of what follows a choice, by recursion; None where nobody scored anything below."""
    if not isinstance(after, list):
        return None if after is None else float(after)
    if leaves:
        told = [outcome for _, outcome in ways(after) if outcome is not None]
    else:
        told = [v for _, below in after if (v := value(below)) is not None]
    return sum(told) / len(told) if told else None


def edges(root: Node) -> list[tuple[Node, Any]]:
    """(siblings, what follows) of each edge in the order that `forked` writes them."""
    out: list[tuple[Node, Any]] = []
    for _, after in root:
        out.append((root, after))
        if isinstance(after, list):
            out += edges(after)
    return out


def random_root(seed: int, depth: int = 3, repeat: bool = False) -> Node:
    """A tree of few choices, unequal depths, equal outcomes and unscored leaves among them, but not only these."""
    rng = np.random.default_rng([seed, 41])

    def node(left: int) -> Node:
        count = int(rng.integers(1, 4))
        drawn = [int(rng.integers(1, 3)) for _ in range(count)] if repeat else list(range(1, count + 1))
        return [(choice, follow(left)) for choice in drawn]

    def follow(left: int) -> Any:
        if left == 0 or rng.random() < 0.3:
            return None if rng.random() < 0.1 else float(rng.integers(0, 3)) / 2
        return node(left - 1)

    root = node(depth)
    return root if value(root) is not None else random_root(seed + 7919, depth, repeat)
