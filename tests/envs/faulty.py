"""A small honest environment, and one deliberately broken version of it for every rule of the protocol."""

import random
from dataclasses import replace
from typing import ClassVar

from apportion.envs import DETERMINISTIC, BaseEnv, EnvSpec

LENGTH = 5
COINS = frozenset({1, 3})


class Corridor(BaseEnv):
    """Five squares; each coin pays 1 once, the exit at square 4 pays 2 and ends the game.

    `fault` names the one rule it breaks, "" none. `noise` makes a coin pay 0.5 or 1.5 evenly.
    """

    def __init__(self, *, fault: str = "", noise: bool = False, free_text: bool = False) -> None:
        noisy = noise or fault in ("stale noise", "imaginary noise")
        super().__init__(
            EnvSpec(
                name="corridor",
                options=(("fault", fault), ("free_text", free_text), ("noise", noise)),
                full_state=True,
                shows_time=False,
                noise="a coin pays 0.5 or 1.5" if noisy else DETERMINISTIC,
                max_steps=9,
                free_text=free_text,
                reward="1 for each coin, 2 for the exit",
                return_range=(0.0, 5.0 if noisy else 4.0),
            )
        )
        self.fault, self.noisy = fault, noisy
        self.at, self.coins, self.paid = 0, set(COINS), 0.0
        self.own_stream = random.Random(5)

    def actions(self):
        if self._spec.free_text:
            return None
        return {"twins": ("left", "right", "right"), "phantom": ("left", "right", "jump")}.get(
            self.fault, ("left", "right")
        )

    def _accepts(self, action):
        return action in ("left", "right")

    def expert(self):
        if self.fault == "meddling expert":
            self.coins = set()
        return ["left" if self.fault == "lost expert" else "right"] * (LENGTH - 1 - self.at)

    def _start(self, seed):
        self.at = seed % 2
        if self.fault == "global stream":
            self.at = random.randrange(3)
        if self.fault == "own stream":
            self.at = self.own_stream.randrange(3)
        if self.fault == "hash":
            self.at = hash(f"start {seed}") % 3
        self.coins, self.paid = set(COINS), 0.0

    def _observe(self):
        coins = "" if self.fault == "hidden coins" else f", coins at {sorted(self.coins)}"
        return f"square {self.at}{coins}"

    def _state(self):
        if self.fault == "coarse key":
            return str(self.at)
        if self.fault == "clock in key":
            return f"{self.at} {sorted(self.coins)} {self.steps}"
        return f"{self.at} {sorted(self.coins)}"

    def _apply(self, action):
        self.at = max(0, self.at - 1) if action == "left" else self.at + 1
        reward = 0.0
        if self.at in self.coins:
            self.coins.discard(self.at)
            reward = self._coin()
        done = self.at == LENGTH - 1
        reward += 2.0 * done
        if self.fault == "running total":
            self.paid += reward
            reward = self.paid
        return reward, done and self.fault != "endless", done

    def _coin(self):
        if self.fault == "secret noise":
            return random.Random(self.noise_seed).choice((0.5, 1.5))
        if self.fault == "stale noise":
            return random.Random(self._seed * 31 + dict(self._options).get("noise_seed", 0)).choice((0.5, 1.5))
        if self.noisy and self.fault != "imaginary noise":
            return random.Random(self.noise_seed * 1009 + self.steps).choice((0.5, 1.5))
        return 1.0

    def _save(self):
        if self.fault == "shared snapshot":
            return self.at, self.coins
        if self.fault == "forgetful snapshot":
            return self.at, None
        return self.at, set(self.coins)

    def _load(self, state):
        at, coins = state
        self.at = at
        if coins is not None:
            self.coins = coins if self.fault == "shared snapshot" else set(coins)

    def step(self, action):
        fault = self.fault
        if fault == "never over":
            self._over = False
        if fault == "no start needed" and self._seed is None:
            self.reset(seed=0)
        if fault == "blanks count" and action != action.strip():
            action = "no such action"
        invalid = action.strip() not in ("left", "right")
        if invalid and fault == "nonsense moves":
            self.at = min(3, self.at + 1)
        text, reward, terminated, truncated, info = super().step(action)
        if invalid and fault == "nonsense moves":
            text = self._observe()
        if invalid and fault == "nonsense costs":
            reward = -1.0
        if invalid and fault == "nonsense ends":
            terminated, truncated = True, False
        if invalid and fault == "nonsense is free":
            self.steps, truncated, self._over = self.steps - 1, False, False
        if invalid and fault == "nonsense unmarked":
            info["invalid"] = False
        if fault == "integer reward":
            reward = int(reward)
        if fault == "no success":
            info.pop("success", None)
        if fault == "empty text" and terminated:
            text = ""
        if fault == "endless":
            truncated = False
        return text, reward, terminated, truncated, info

    def snapshot(self):
        snapshot = super().snapshot()
        return replace(snapshot, actions=snapshot.actions[:-1]) if self.fault == "lost action" else snapshot


class Interfering(Corridor):
    """Instances share their position."""

    everywhere: ClassVar[list[int]] = [0]

    def _start(self, seed):
        super()._start(seed)
        self.everywhere[0] += 1

    def _observe(self):
        return f"{super()._observe()}, door {self.everywhere[0]}"
