"""Checks that every environment passes; an author runs them on a new one.

    conform("crafttree", budget=3)                   # a registered name with options
    conform("mypackage.games:Maze")                  # module:attribute of a factory

Each check takes a factory of fresh environments, plays short seeded episodes, and raises an EnvError that
says what was seen, at which seed and step, and what the rule is.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from apportion.envs.episodes import NONSENSE, SEEDS, act, branches, choose, expert_wins, go_on, play, walk
from apportion.envs.protocol import DETERMINISTIC, KeySource, Snapshot, TextEnv
from apportion.envs.registry import resolve
from apportion.envs.second_process import record, record_elsewhere
from apportion.errors import EnvError

Make = Callable[[], TextEnv]

KEY_SEEDS = range(8)  # episodes in which equal keys are looked for
KEY_PAIRS = 60  # how many pairs of moments with one key are compared
TINY = 1e-9
HASH_SEEDS = ("1", "77")


def check_seeded(make: Make) -> None:
    """The seed alone fixes the episode; the random state of the process is neither read nor moved."""
    for seed in SEEDS:
        first = play(make(), seed)
        random.seed(seed + 12345)
        np.random.seed(seed + 12345)  # noqa: NPY002  (what a careless environment would draw from)
        before = _global_random_state()
        one, other = make(), make()
        side_by_side = list(zip(walk(one, seed), walk(other, seed), strict=False))
        if _global_random_state() != before:
            raise _broken(one, "seeded", seed, None, "it moved the random state of the process")
        for step, (moment, beside) in enumerate(side_by_side):
            if not moment == beside == first[step]:
                why = "episodes of one seed differ; the seed alone must fix them, whatever else is played"
                raise _broken(one, "seeded", seed, step, why)
        if play(one, seed) != first:
            raise _broken(one, "seeded", seed, None, "a second reset gives another episode; it must forget")


def check_second_process(reference: str, options: dict[str, Any] | None = None) -> None:
    """Other processes, with other hash seeds, play the same episodes."""
    given = json.dumps(options or {})
    here = record(resolve(reference, json.loads(given)))
    for hash_seed in HASH_SEEDS:
        if record_elsewhere(reference, given, hash_seed) != here:
            raise EnvError(
                f"{reference}: check 'second_process' failed: under PYTHONHASHSEED={hash_seed} an equal seed "
                f"gives another episode; do not use hash() or the order of a set"
            )


def check_snapshot(make: Make) -> None:
    """From a snapshot the same actions give the same continuation, twice, also in another instance."""
    _check_continuation(make, "snapshot", lambda snapshot: snapshot)


def check_replay(make: Make) -> None:
    """The same, restored by replaying the actions: what serves where the state cannot be copied."""
    _check_continuation(make, "replay", lambda snapshot: snapshot.portable())


def check_rewards(make: Make) -> None:
    """Rewards are increments: a step without effect pays 0, and the sum stays in the declared range."""
    for seed in SEEDS:
        env = make()
        low, high = env.spec.return_range
        for expert in (False, True):
            total = 0.0
            for step, moment in enumerate(walk(env, seed, expert=expert)):
                total += moment.reward
                if moment.over or env.spec.free_text:
                    continue
                here = env.snapshot()
                idle = act(env, NONSENSE).reward
                env.restore(here)
                if abs(idle) > TINY:
                    why = f"a step without effect paid {idle:g}, the one before it {moment.reward:g}"
                    raise _broken(env, "rewards", seed, step, f"{why}; a reward is an increment, not a total")
            if not low - TINY <= total <= high + TINY:
                why = f"the rewards sum to {total:g}, and the declared range is {low:g} to {high:g}"
                raise _broken(env, "rewards", seed, None, f"{why}; a reward is an increment, not a total")


def check_invalid_actions(make: Make) -> None:
    """An invalid action costs a step, pays 0, changes nothing else, and is marked."""
    for seed in SEEDS:
        env = make()
        if env.spec.free_text:
            return
        text, _ = env.reset(seed=seed)
        key, timed = env.state_key(by="state"), env.spec.shows_time
        for step in range(env.spec.max_steps):
            after = act(env, NONSENSE)
            faults = {
                "was not marked with info['invalid']": not after.invalid,
                f"paid {after.reward!r} instead of 0": after.reward != 0.0,
                "changed the observation": after.text != text and not timed,
                "changed the state key": after.key != key and not timed,
                "terminated the episode": after.terminated,
                "did not cost one step": after.truncated is not (step + 1 == env.spec.max_steps),
            }
            for fault, seen in faults.items():
                if seen:
                    raise _broken(env, "invalid_actions", seed, step, f"the action {NONSENSE!r} {fault}")


def check_actions(make: Make) -> None:
    """Every listed action is accepted, blanks around it do not count, and the list has no doubles."""
    for seed in SEEDS:
        env = make()
        for step, moment in enumerate(walk(env, seed)):
            if moment.over:
                break
            listed = env.actions()
            if (listed is None) is not env.spec.free_text:
                why = f"actions() is {listed!r}, spec.free_text is {env.spec.free_text}; None means free"
                raise _broken(env, "actions", seed, step, why)
            if listed is None:
                continue
            if not listed or len(set(listed)) < len(listed) or any(a != a.strip() or not a for a in listed):
                why = f"{listed!r} is empty, holds doubles, or has blanks around an action"
                raise _broken(env, "actions", seed, step, why)
            here = env.snapshot()
            for action in listed:
                plain = act(env, action)
                env.restore(here)
                spaced = act(env, f" {action}\n")
                env.restore(here)
                if plain.invalid:
                    raise _broken(env, "actions", seed, step, f"the listed action {action!r} counts as invalid")
                if plain != spaced:
                    raise _broken(env, "actions", seed, step, f"blanks around {action!r} change what it does")


def check_order(make: Make) -> None:
    """Calls before the first reset, and steps after the end, are refused with an EnvError."""
    env = make()
    early: dict[str, Callable[[], object]] = {
        "step": lambda: env.step(NONSENSE),
        "state_key": env.state_key,
        "snapshot": env.snapshot,
    }
    for call, use in early.items():
        if not _refused(use):
            raise _broken(env, "order", None, None, f"{call} before the first reset is not refused")
    play(env, SEEDS[0])
    if not _refused(lambda: env.step(NONSENSE)):
        raise _broken(env, "order", SEEDS[0], None, "a step after the end is not refused")


def check_types(make: Make) -> None:
    """Texts are text, rewards finite, flags bool, the limit holds, the end tells of success."""
    for seed in SEEDS:
        env: Any = make()  # Any: what the annotations promise is what is in doubt here
        text, info = env.reset(seed=seed)
        if not isinstance(text, str) or not text or not isinstance(info, dict):
            why = f"reset returned {text!r} and {info!r}; it returns a text and a dict"
            raise _broken(env, "types", seed, None, why)
        rng = random.Random(seed)
        for step in range(env.spec.max_steps):
            text, reward, terminated, truncated, info = env.step(choose(env, rng))
            over = terminated or truncated
            limit = step + 1 == env.spec.max_steps
            faults = {
                f"the observation is {text!r}, not a text": not isinstance(text, str) or not text,
                f"the reward is {reward!r}, not a finite float": not _finite_float(reward),
                f"terminated is {terminated!r}, not a bool": not isinstance(terminated, bool),
                f"truncated is {truncated!r}, not a bool": not isinstance(truncated, bool),
                "it is terminated and truncated at once": terminated and truncated,
                "info['invalid'] is no bool": not isinstance(info.get("invalid"), bool),
                "info['success'] is no bool at the end": over and not isinstance(info.get("success"), bool),
                "no end at spec.max_steps": limit and not over,
                "truncated before spec.max_steps": truncated and not limit,
            }
            for fault, seen in faults.items():
                if seen:
                    raise _broken(env, "types", seed, step, fault)
            if over:
                break


def check_expert(make: Make) -> None:
    """The expert wins from the start, and asking it disturbs nothing."""
    for seed in SEEDS:
        asked, alone = make(), make()
        asked.reset(seed=seed)
        if asked.expert() is None:
            return
        expected = play(alone, seed)
        rng = random.Random(seed)
        for step in range(len(expected) - 1):
            key = asked.state_key(by="state")
            if seed == SEEDS[0]:
                asked.expert()
            if asked.state_key(by="state") != key or act(asked, choose(asked, rng)) != expected[step + 1]:
                raise _broken(asked, "expert", seed, step, "asking the expert changed the game")
        if not expert_wins(asked, seed):
            raise _broken(asked, "expert", seed, None, "the expert does not reach the goal from the start")


def check_state_key(make: Make) -> None:
    """Equal true-state keys read and behave alike; where full_state is declared, so do equal texts."""
    sources: list[KeySource] = ["state"]
    if make().spec.full_state:
        sources.append("observation")
    for by in sources:
        env = make()
        seen: dict[str, tuple[int, Snapshot]] = {}
        compared = 0
        for seed in KEY_SEEDS:
            for step, moment in enumerate(walk(env, seed)):
                if moment.over:
                    break
                key, here = env.state_key(by=by), env.snapshot()
                env.restore(here)
                if env.state_key(by=by) != key:
                    raise _broken(env, "state_key", seed, step, f"the key by {by} is another one after restore")
                if key not in seen:
                    seen[key] = (seed, here)
                    continue
                first_seed, first = seen[key]
                if compared == KEY_PAIRS or first.actions == here.actions:
                    continue
                compared += 1
                if branches(env, first) != branches(env, here):
                    where = f"seed {first_seed} after {len(first.actions)} steps"
                    why = f"the key by {by} is that of {where}, but text, actions or what they do are not"
                    raise _broken(env, "state_key", seed, step, why)
                env.restore(here)


def check_noise(make: Make) -> None:
    """Declared deterministic: other noise changes nothing. Declared noisy: it does, also after a restore."""
    env = make()
    if env.spec.noise == DETERMINISTIC:
        for seed in SEEDS:
            for expert in (False, True):
                runs = [play(env, seed, expert=expert, options={"noise_seed": k}) for k in (0, 1)]
                if runs[0] != runs[1]:
                    why = "it is declared deterministic, and its noise seed changes the episode"
                    raise _broken(env, "noise", seed, None, why)
        return
    episodes = {tuple(play(env, 0, expert=True, options={"noise_seed": k})) for k in range(16)}
    if len(episodes) < 2:
        raise _broken(env, "noise", 0, None, f"the declared noise ({env.spec.noise}) was not seen")
    env.reset(seed=0)
    here, fresh = env.snapshot(), set()
    for noise_seed in range(16):
        env.restore(here, noise_seed=noise_seed)
        fresh.add(tuple(go_on(env, random.Random(0), expert=True)))
    if len(fresh) < 2:
        raise _broken(env, "noise", 0, None, "restore(..., noise_seed=...) does not draw the noise afresh")


CHECKS: tuple[Callable[[Make], None], ...] = (
    check_types,
    check_order,
    check_invalid_actions,
    check_actions,
    check_rewards,
    check_seeded,
    check_snapshot,
    check_replay,
    check_state_key,
    check_noise,
    check_expert,
)


def conform(reference: str, **options: Any) -> None:
    """Run every check on one environment; raises the first failure."""
    make = resolve(reference, options)
    for check in CHECKS:
        check(make)
    check_second_process(reference, options)


# within


def _broken(env: TextEnv, check: str, seed: int | None, step: int | None, why: str) -> EnvError:
    at = "".join(f", {word} {n}" for word, n in (("seed", seed), ("step", step)) if n is not None)
    return EnvError(f"{env.spec.name}: check {check!r} failed{at}: {why}")


def _check_continuation(make: Make, check: str, change: Callable[[Snapshot], Snapshot]) -> None:
    for seed in SEEDS:
        env, other = make(), make()
        length = len(play(env, seed))
        for start in sorted({0, length // 3, (2 * length) // 3} - {length - 1}):  # not from the end
            episode = walk(env, seed)
            for _ in range(start + 1):
                next(episode)
            key, here = env.state_key(by="state"), change(env.snapshot())
            going_on = list(go_on(env, random.Random(99)))
            for again, who in (
                (env, "the same instance"),
                (env, "it once more"),
                (other, "another instance"),
            ):
                again.restore(here)
                if again.state_key(by="state") != key or list(go_on(again, random.Random(99))) != going_on:
                    why = f"restored in {who}, the same actions went another way"
                    raise _broken(env, check, seed, start, f"{why}; hold all that matters, nothing that play changes")


def _finite_float(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _global_random_state() -> tuple[object, object]:
    legacy: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), (legacy[1].tobytes(), legacy[2])


def _refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except EnvError:
        return True
    return False
