"""KeyDoor: take a key, cross a room of apples that pay at random, open the door that the key fits.

The decision that matters (the key) is paid many steps later, behind distracting noisy rewards that
it has no influence on: delay and noise, separately adjustable.

Source    the key-to-door task of arXiv:1810.06721, as a one-dimensional game in words.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.tabular import TabularEnv
from apportion.errors import ConfigError

NEXT_ROOM = {"key": "apple", "apple": "door"}
PRIZE = 5.0

State = tuple[str, int, int, int]  # room, square, holds the key, apples left


@dataclass(frozen=True)
class KeyDoor:
    """The rules: three rooms of `n` squares; eating an apple pays one of `noise`, each equally likely."""

    horizon: int = 14
    n: int = 4
    apples: int = 3
    noise: tuple[float, ...] = (0.0, 1.0)
    show_time: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", tuple(float(r) for r in self.noise))
        if self.horizon < 1 or self.n < 1 or self.apples < 0:
            raise ConfigError(
                f"keydoor: horizon {self.horizon}, n {self.n}, apples {self.apples} must be at least 1, 1, 0"
            )
        if not self.noise:
            raise ConfigError("keydoor: noise is empty; give what an apple may pay, such as (0.0, 1.0)")

    def starts(self) -> list[tuple[float, State]]:
        """The first square of the key room."""
        return [(1.0, ("key", 0, 0, self.apples))]

    def text(self, state: State, left: int) -> str:
        """Everything that still matters: apples out of reach are not mentioned."""
        room, square, key, apples = state
        clock = f" {left} steps left." if self.show_time else ""
        return (
            f"You are in the {room} room, square {square} of {self.n}. "
            f"You {'hold the key' if key else 'hold nothing'}. "
            f"{apples if room == 'apple' else 0} apples here.{clock}"
        )

    def actions(self, state: State) -> tuple[str, ...]:
        """Walking always; the key, the apples, the door and the way out where they are."""
        room, square, key, apples = state
        last = square == self.n - 1
        offers = {
            "forward": True,
            "back": True,
            "take key": room == "key" and last and not key,
            "eat apple": room == "apple" and apples > 0,
            "open door": room == "door" and last,
            "leave room": room != "door",
        }
        return tuple(action for action, offered in offers.items() if offered)

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """Only an apple's reward is random. The door ends the game and pays 5 with the key, else 0."""
        room, square, key, apples = state
        if action == "eat apple":
            after = (room, square, key, apples - 1)
            return [(1 / len(self.noise), after, reward, False) for reward in self.noise]
        if action == "open door":
            return [(1.0, state, PRIZE if key else 0.0, True)]
        after = {
            "forward": (room, min(self.n - 1, square + 1), key, apples),
            "back": (room, max(0, square - 1), key, apples),
            "take key": (room, square, 1, apples),
            "leave room": (NEXT_ROOM.get(room, room), 0, key, apples),
        }[action]
        return [(1.0, after, 0.0, False)]

    def won(self, state: State, action: str) -> bool:
        """The door is opened with the key in hand."""
        return action == "open door" and bool(state[2])


@register("keydoor")
def keydoor(
    *,
    horizon: int = 14,
    n: int = 4,
    apples: int = 3,
    noise: tuple[float, ...] = (0.0, 1.0),
    show_time: bool = False,
) -> TabularEnv:
    """KeyDoor as a text environment.

    Args:
        horizon: steps of an episode; the key, all apples and the door take 3n + apples + 1 at n = 4.
        n: squares of each room.
        apples: how many apples lie in the middle room.
        noise: what an apple may pay, each equally likely; one value means no noise.
        show_time: write the steps left into the observation, which makes it Markov.
    """
    rules = KeyDoor(horizon, n, apples, tuple(noise), show_time)
    low, high = apples * min(0.0, *rules.noise), apples * max(0.0, *rules.noise)
    paid = " or ".join(f"{r:g}" for r in rules.noise)
    noisy = apples > 0 and len(set(rules.noise)) > 1
    spec = EnvSpec(
        name="keydoor",
        options=tuple(sorted(asdict(rules).items())),
        full_state=True,
        shows_time=show_time,
        noise=f"eating an apple pays {paid}, each equally likely" if noisy else DETERMINISTIC,
        max_steps=horizon,
        free_text=False,
        reward=f"{PRIZE:g} for opening the door with the key, which ends the episode; {paid} for each apple",
        return_range=(low, high + PRIZE),
    )
    return TabularEnv(spec, rules)
