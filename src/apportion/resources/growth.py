"""Growing trees of segments from prompts, for `spo_tree`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from apportion.asks import Continue, Move, Place
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.resources.asker import Asker
from apportion.resources.context import tokens_of
from apportion.resources.past import has_ids


def grow_tree(
    ask: Asker,
    prompts: Batch | Iterable[Trajectory],
    *,
    branching: Sequence[int] = (6, 6, 6),
    tokens: int = 30,
    who: str = "grow_tree",
) -> Batch:
    """Sample a tree of segments below each prompt: one rollout whose steps are its edges, each of them held once.

    Each node gets ``branching[d]`` children of ``tokens`` tokens, fewer where the policy stops by itself; those of the
    last level run to the end. The costs are at most b0 + b0 b1 + … requests a prompt.

    Args:
        ask: a policy that continues text, with a scorer for its answers.
        prompts: rollouts whose first step holds the prompt (`Step.prompt_ids`, or `Step.observation` in text); what was
            sampled in them is left out. Group and reference are kept.
        branching: children at each depth (the authors': 6, 6, 6).
        tokens: of an edge that is not on the last level (30 for short answers, 600 for long ones).

    Returns:
        One rollout per prompt. A leaf's score is the reward of its step; the outcome is the mean over the leaves.
        Edges that failed are left out, leaves that nobody could score stay unscored.

    Raises:
        ConfigError: a branching or a length below 1, or an answer in several moves (an environment's).
        BudgetError, ResourceError: as `Asker`.

    Source: arXiv:2505.23564.
    """
    if not branching or min(branching) < 1 or tokens < 1:
        raise ConfigError(f"{who}: branching={tuple(branching)}, tokens={tokens}; give whole numbers from 1 on")
    asked = list(prompts.trajectories if isinstance(prompts, Batch) else prompts)
    trees = [_Tree.of(prompt) for prompt in asked]
    live = [_Node(t) for t in range(len(trees))]
    for depth, children in enumerate(branching):
        last = depth == len(branching) - 1
        limit = None if last else tokens
        stems = [trees[node.tree].stem(node) for node in live]
        asks = [
            Continue(Place(i, 0, node.size), children, max_tokens=limit, stop_at_limit=not last, tag=node.tag)
            for i, node in enumerate(live)
        ]
        grown: list[_Node] = []
        for node, answer in zip(live, ask(asks, stems, who=who), strict=True):
            for number, sample in enumerate(answer.samples):
                if len(sample.moves) != 1:
                    raise ConfigError(
                        f"{who}: an answer came in {len(sample.moves)} moves; ask a policy that writes text"
                    )
                ended = sample.finished or last
                step = trees[node.tree].add(node, sample.moves[0], scored=ended and sample.scored, ended=ended)
                if not ended:
                    grown.append(node.child(step, number, sample.moves[0]))
        live = grown
    return Batch.from_trajectories(tree.rollout() for tree in trees if tree.steps)


@dataclass(frozen=True, slots=True)
class _Node:
    """A place in a tree: the step that leads to it, what was sampled on the way, which child of which child it is."""

    tree: int
    step: int = -1
    ids: tuple[int, ...] = ()
    text: str = ""
    size: int = 0
    tag: str = ""

    def child(self, step: int, number: int, move: Move) -> _Node:
        size = self.size + (len(move.ids) or tokens_of(move.action))
        return _Node(self.tree, step, (*self.ids, *move.ids), self.text + move.action, size, f"{self.tag}.{number}")


@dataclass(slots=True)
class _Tree:
    """The rollout that grows below one prompt."""

    prompt: Trajectory
    ids: bool
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def of(cls, prompt: Trajectory) -> _Tree:
        return cls(prompt, has_ids(prompt))

    def stem(self, node: _Node) -> Trajectory:
        """The way to a node as a rollout of one step, to be continued."""
        first = self.prompt.steps[0]
        fields: dict[str, Any] = {"observation": first.observation, "prompt_ids": first.prompt_ids}
        said: dict[str, Any] = {"action": node.text, "ids": node.ids} if self.ids else {"action": node.text}
        return replace(self.prompt, steps=[Step(**fields, **said)], outcome=None, outcomes={}, final_value=None)

    def add(self, node: _Node, move: Move, *, scored: bool, ended: bool) -> int:
        """One edge below a node; returns the index of its step."""
        first = self.prompt.steps[0]
        root = node.step < 0
        fields: dict[str, Any] = {"observation": first.observation if root else "", "action": move.action}
        if self.ids:
            context = [] if first.prompt_ids is None else np.asarray(first.prompt_ids).tolist()
            fields |= {"prompt_ids": [*context, *node.ids], "ids": move.ids, "logp": move.logp}
        self.steps.append(
            Step(
                **fields,
                parent=node.step if self.steps else None,
                fresh=self.ids and bool(self.steps),
                reward=move.reward if scored else None,
                terminated=ended,
            )
        )
        return len(self.steps) - 1

    def rollout(self) -> Trajectory:
        """The tree, with the mean over its scored leaves as outcome."""
        got = [step.reward for step in self.steps if step.reward is not None]
        outcome = float(np.mean(got)) if got else None
        return replace(self.prompt, steps=self.steps, outcome=outcome, outcomes={}, final_value=None)
