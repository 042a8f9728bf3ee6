"""BabyAI levels as a text game: the view ahead in words, six named actions, the package's bot as expert.

    goal put the red ball next to the grey box . see you carry a red ball ; grey box 2 right ; wall 1 forward

The view is 7 x 7 squares, relative to the player, who looks ahead; what lies behind is not seen, so the
observation is not the full state. Toggling a box destroys it, for good.

Source    the minigrid package (Apache-2.0), levels of arXiv:1810.08272; wording after arXiv:2302.02662.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from apportion.envs.babyai_bot import ACTIONS, PREFIXES, bot_plan
from apportion.envs.babyai_levels import OTHERWISE, STEPS
from apportion.envs.babyai_view import Square, look, no_view
from apportion.envs.base import BaseEnv
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.errors import ConfigError, UnknownName, missing_extra

REWARDS = {
    "success": "1 for reaching the goal, which ends the episode; 0 otherwise",
    "minigrid": "1 - 0.9 * steps / max_steps for reaching the goal, which ends the episode; 0 otherwise",
}
UNMENTIONED = ("unseen", "empty", "wall", "floor", "agent")


@register("babyai", extra="envs")
class BabyAI(BaseEnv):
    """A BabyAI level as a text environment.

    Args:
        level: a level of minigrid whose name starts with "BabyAI-".
        max_steps: steps of an episode; None = two and a half times what the bot needs in that level, and 32 at least
            (`babyai_levels`). In the default level it needs 7 on average and at most 12 (300 seeds); in mazes hundreds.
        reward: "success" pays 1, "minigrid" pays less the later.
    """

    def __init__(
        self, *, level: str = "BabyAI-PutNextLocalS5N3-v0", max_steps: int | None = None, reward: str = "success"
    ) -> None:
        if reward not in REWARDS:
            raise ConfigError(f"babyai: reward is {reward!r}; it takes {' or '.join(REWARDS)}")
        if max_steps is None:
            max_steps = STEPS.get(level, OTHERWISE)
        super().__init__(
            EnvSpec(
                name="babyai",
                options=(("level", level), ("max_steps", max_steps), ("reward", reward)),
                full_state=False,
                shows_time=False,
                noise=DETERMINISTIC,
                max_steps=max_steps,
                free_text=False,
                reward=REWARDS[reward],
                return_range=(0.0, 1.0),
            )
        )
        self._graded = reward == "minigrid"
        self._world = _make_level(level)
        self._image: list[list[Square]] = []

    def actions(self) -> tuple[str, ...]:
        """All six, always; one that finds nothing to act on passes the time."""
        self._require_start("actions")
        return ACTIONS

    def expert(self) -> list[str] | None:
        """The bot's actions from here until it wins or time is up; None where it knows no way.

        The bot knows a level from its start. Asked while something is in its hands, it puts it down first.
        """
        self._require_start("expert")
        if self._over:
            return []
        for prefix in PREFIXES if self._world.carrying else PREFIXES[:1]:
            plan = bot_plan(_copy(self._world), prefix, self.steps_left)
            if plan is not None:
                return plan
        return None

    def _start(self, seed: int) -> None:
        with _silence():  # the level sampler prints what it rejects
            self._world.reset(seed=seed)
        self._world.max_steps = self._spec.max_steps  # reset computes a limit of its own
        self._image = look(self._world)

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        _, reward, terminated, _, _ = self._world.step(ACTIONS.index(action))
        self._image = look(self._world)
        success = bool(terminated and reward > 0)
        return float(reward) if self._graded else float(success), bool(terminated), success

    def _idle(self) -> None:
        self._world.step_count += 1

    def _observe(self) -> str:
        seen = _describe_view(self._image)
        if self._world.carrying is not None:
            seen.insert(0, f"you carry a {self._world.carrying.color} {self._world.carrying.type}")
        return f"goal {self._world.mission} . see {' ; '.join(seen) or 'nothing'}"

    def _state(self) -> str:
        world = self._world
        x, y = world.agent_pos
        cells = [f"{i}:{_thing(cell)}" for i, cell in enumerate(world.grid.grid) if cell is not None]
        return (
            f"{world.mission} at {int(x)},{int(y)},{int(world.agent_dir)} holds {_thing(world.carrying)} "
            f"progress {_progress(world.instrs, world.carrying)} grid {' '.join(cells)}"
        )

    def _save(self) -> Any:
        return _copy(self._world), self._image

    def _load(self, state: Any) -> None:
        world, self._image = state  # the image is replaced by every step, never changed
        self._world = _copy(world)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _make_level(level: str) -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        with _silence():
            import gymnasium
            import minigrid  # noqa: F401  (registers the levels)
    except ImportError as error:
        raise missing_extra("BabyAI", "minigrid", "envs") from error
    levels = [name for name in gymnasium.registry if name.startswith("BabyAI-")]
    if level not in levels:
        near = get_close_matches(level, levels, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "its names start with 'BabyAI-'"
        raise UnknownName(f"babyai: minigrid has no level named {level!r}; {hint}")
    world: Any = gymnasium.make(level, disable_env_checker=True).unwrapped
    world.gen_obs = no_view  # `look` does its work
    return world


def _copy(world: Any) -> Any:
    """A copy that shares what no step changes; the spaces and the random state are half the cost."""
    fixed = (world.observation_space, world.action_space, world.spec, world.actions, world._np_random)
    return copy.deepcopy(world, {id(part): part for part in fixed})


@lru_cache(maxsize=1)
def _words() -> tuple[dict[int, str], dict[int, str], dict[int, str]]:
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT, STATE_TO_IDX

    return dict(IDX_TO_OBJECT), dict(IDX_TO_COLOR), {number: word for word, number in STATE_TO_IDX.items()}


def _describe_view(image: list[list[Square]]) -> list[str]:
    """The things in view, near rows first, then the nearest walls. image[i][j] is (object, colour, state)."""
    objects, colours, states = _words()
    n = len(image)
    x, y = n // 2, n - 1  # the player stands in the middle of the last row and looks up
    seen = []
    for j in range(n - 1, -1, -1):
        for i in range(n):
            kind = objects[image[i][j][0]]
            if kind in UNMENTIONED or (i, j) == (x, y):
                continue
            words = [states[image[i][j][2]]] if kind == "door" else []
            words += [colours[image[i][j][1]], kind]
            if i != x:
                words += [str(abs(i - x)), "left" if i < x else "right"]
            if j != y:
                words += [str(y - j), "forward"]
            seen.append(" ".join(words))
    rays = {
        "forward": [image[x][y - k][0] for k in range(1, n)],
        "left": [image[x - k][y][0] for k in range(1, x + 1)],
        "right": [image[x + k][y][0] for k in range(1, x + 1)],
    }
    for side, ray in rays.items():
        distance = next((k for k, number in enumerate(ray, 1) if objects[number] == "wall"), None)
        if distance is not None:
            seen.append(f"wall {distance} {side}")
    return seen


def _thing(thing: Any) -> str:
    """An object with everything about it that can matter, a box's contents included."""
    if thing is None:
        return "-"
    door = f"{int(thing.is_open)}{int(thing.is_locked)}" if thing.type == "door" else ""
    inside = f"({_thing(thing.contains)})" if thing.contains is not None else ""
    return f"{thing.color[:2]}{thing.type}{door}{inside}"


def _progress(instruction: Any, carrying: Any) -> str:
    """What the verifier of the mission remembers: which parts are done, which objects it follows, where."""
    parts = [type(instruction).__name__]
    for name in ("a_done", "b_done"):
        if hasattr(instruction, name):
            parts.append(str(getattr(instruction, name)))
    if hasattr(instruction, "preCarrying"):
        before = instruction.preCarrying
        parts.append("same" if before is carrying else _thing(before))
    for name in ("desc", "desc_move", "desc_fixed"):
        if hasattr(instruction, name):
            described = getattr(instruction, name)
            followed = ["held" if o is carrying else _position(o.cur_pos) for o in described.obj_set]
            matches = [_position(p) for p in described.obj_poss]
            parts.append(f"{described!r}={'/'.join(sorted(followed))}@{'/'.join(sorted(matches))}")
    for name in ("instr_a", "instr_b"):
        if hasattr(instruction, name):
            parts.append(_progress(getattr(instruction, name), carrying))
    return f"[{' '.join(parts)}]"


def _position(position: Any) -> str:
    return "-" if position is None else f"{int(position[0])},{int(position[1])}"
