"""TextCraft: gather and craft, with the recipes in the prompt, until the goal is made.

    Crafting commands:
    craft 4 torch using 1 stick, 1 coal
    craft 4 stick using 2 planks

    Goal: craft torch.
    Inventory: 2 oak planks.

Accepted are the listed recipes alone, any item of a kind standing for it, so the observation is the full state.
Gathering without end makes every mistake harmless but for the time; with ``stock="limited"`` there is just enough,
and a wrong craft cannot be made good.

Source    arXiv:2311.05772 (ADaPT). Against the package: a seed fixes the task in every process, no task changes the
          recipes of another, the inventory is always shown, and one recipe is one command in choice mode.
"""

from __future__ import annotations

import re
from functools import lru_cache
from random import Random

from apportion.envs.commands import CommandEnv, is_text
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.splits import at_seed, choose_split, digest
from apportion.envs.textcraft.generate import generated_book
from apportion.envs.textcraft.minecraft import package_book
from apportion.envs.textcraft.planning import gathered, plan
from apportion.envs.textcraft.recipes import Recipe, RecipeBook, craft_command
from apportion.errors import ConfigError

GET = re.compile(r"get ([1-9]\d{0,3}) (.+)")
CRAFT = re.compile(r"craft (?:([1-9]\d{0,3}) )?(.+?) using (.+)")
PART = re.compile(r"([1-9]\d{0,3}) (.+)")
STOCKS = ("endless", "limited")
LOOK = "inventory"  # always admissible and without effect: with limited stock there may be nothing else left


@register("textcraft")
class TextCraft(CommandEnv):
    """TextCraft as a text environment.

    Args:
        recipes: "generated" (ours, no download) or "minecraft" (the package `textcraft`, extra "textcraft").
        world: number of the generated table.
        split: "train", "valid", "test" or "all": which goals are drawn. Goals of different splits differ.
        stock: "endless", or "limited": of each thing as much as the expert's plan gathers, and of things that only
            useless recipes take, one recipe's worth.
        spare: with limited stock, how many more of each thing.
        distractors: useless recipes listed beside the useful ones, at most.
        min_depth, max_depth: crafts one upon another that a goal takes at least.
        longest: goals whose plan has more commands are left out.
        max_steps: steps of an episode.
        mode: "choice" among what is feasible, or "text".
    """

    def __init__(
        self,
        *,
        recipes: str = "generated",
        world: int = 0,
        split: str = "train",
        stock: str = "endless",
        spare: int = 0,
        distractors: int = 5,
        min_depth: int = 2,
        max_depth: int = 4,
        longest: int = 16,
        max_steps: int = 32,
        mode: str = "choice",
    ) -> None:
        options = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        if stock not in STOCKS:
            raise ConfigError(f"textcraft: stock is {stock!r}; it takes {' or '.join(STOCKS)}")
        if recipes not in ("generated", "minecraft"):
            raise ConfigError(f"textcraft: recipes is {recipes!r}; it takes generated or minecraft")
        if min(spare, distractors) < 0:
            raise ConfigError(f"textcraft: spare {spare} and distractors {distractors} must be 0 or more")
        super().__init__(
            EnvSpec(
                name="textcraft",
                options=tuple(sorted(options.items())),
                full_state=True,
                shows_time=False,
                noise=DETERMINISTIC,
                max_steps=max_steps,
                free_text=is_text("textcraft", mode),
                reward="1 for crafting the goal, which ends the episode; 0 otherwise",
                return_range=(0.0, 1.0),
            )
        )
        self.book = generated_book(world) if recipes == "generated" else package_book()
        self._limited, self._spare, self._distractors = stock == "limited", spare, distractors
        self.goals = choose_split("textcraft", _goals(self.book, min_depth, max_depth, longest), split)
        self.goal = ""
        self._held: dict[str, int] = {}
        self._stock: dict[str, int] = {}

    def commands(self) -> tuple[str, ...]:
        """Each feasible `get` (one piece, or what a recipe takes), each feasible listed craft, `inventory`."""
        gets = [
            f"get {n} {item}"
            for item, amounts in self._amounts.items()
            for n in amounts
            if not self._limited or self._stock.get(item, 0) >= n
        ]
        crafts = dict.fromkeys(command for recipe in self._listed for command in self._feasible(recipe))
        return (*gets, *crafts, LOOK)

    def expert(self) -> list[str] | None:
        """A plan from here; None where the stock no longer allows one that the planner knows."""
        self._require_start("expert")
        if self._over:
            return []
        return plan(self.book, self.goal, self._held, self._stock if self._limited else None, self._amounts)

    def _start(self, seed: int) -> None:
        self.goal = at_seed(self.goals, seed)
        needed = self.book.needed(self.goal)
        rng = Random(f"textcraft/{self.goal}/{seed}")
        extra = self.book.distractors(needed)
        lines = [*needed, *rng.sample(extra, min(self._distractors, len(extra)))]
        rng.shuffle(lines)
        self._listed = tuple(lines)
        self._lines = "\n".join(recipe.line for recipe in lines)
        self._held = {}
        self._amounts = _amounts(self.book, self._listed)
        self._stock = {}
        if self._limited:
            for recipe in sorted(self._listed):
                for part, n in recipe.uses:
                    if part in self._amounts:
                        self._stock[part] = max(self._stock.get(part, 0), n if recipe not in needed else 0)
            wanted = gathered(plan(self.book, self.goal, {}, None, self._amounts) or [])
            self._stock.update({item: wanted[item] + self._spare for item in sorted(wanted)})
            self._stock = {item: n for item, n in self._stock.items() if n}

    def _observe(self) -> str:
        text = f"Crafting commands:\n{self._lines}\n\nGoal: craft {self.goal}.\nInventory: {_listing(self._held)}."
        return f"{text}\nLeft to gather: {_listing(self._stock)}." if self._limited else text

    def _state(self) -> str:
        return f"{self.goal} {digest(self._lines):x} has {_listing(self._held)} left {_listing(self._stock)}"

    def _accepts(self, action: str) -> bool:
        return self._read(action) is not None

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        read = self._read(action)
        assert read is not None
        made, used = read
        if self._limited and not used:
            _add(self._stock, {item: -n for item, n in made.items()})
        _add(self._held, made)
        _add(self._held, {item: -n for item, n in used.items()})
        done = bool(used) and self.goal in made
        return float(done), done, done

    def _read(self, action: str) -> tuple[dict[str, int], dict[str, int]] | None:
        """What the command makes and what it uses up; None where it is not possible now."""
        if action == LOOK:
            return {}, {}
        if found := GET.fullmatch(action):
            count, item = int(found[1]), found[2]
            known = item in self._amounts and (self._spec.free_text or count in self._amounts[item])
            enough = not self._limited or self._stock.get(item, 0) >= count
            return ({item: count}, {}) if known and enough else None
        found = CRAFT.fullmatch(action)
        if found is None:
            return None
        parts = [PART.fullmatch(part) for part in found[3].split(", ")]
        given = [(part[2], int(part[1])) for part in parts if part is not None]
        if len(given) < len(parts) or any(self._held.get(item, 0) < n for item, n in given):
            return None
        if len({item for item, _ in given}) < len(given):
            return None
        for recipe in self._listed:
            if (recipe.makes, str(recipe.count)) == (found[2], found[1] or "1") and self._fits(recipe, given):
                return {recipe.makes: recipe.count}, dict(given)
        return None

    def _fits(self, recipe: Recipe, given: list[tuple[str, int]]) -> bool:
        """Whether each ingredient has one that serves for it; in choice mode in the order of the recipe."""
        open_ = list(given)
        for part, n in recipe.uses:
            serving = next((g for g in open_ if g[1] == n and self.book.serves(g[0], part)), None)
            if serving is None or (serving != open_[0] and not self._spec.free_text):
                return False
            open_.remove(serving)
        return not open_

    def _feasible(self, recipe: Recipe) -> list[str]:
        """The commands of a recipe with what is held, one for each choice among items of a kind."""
        chosen: list[list[tuple[str, int]]] = [[]]
        for part, n in recipe.uses:
            serving = [item for item in sorted(self._held) if self._held[item] >= n and self.book.serves(item, part)]
            chosen = [[*so_far, (i, n)] for so_far in chosen for i in serving if i not in dict(so_far)]
        return [craft_command(recipe.makes, recipe.count, used) for used in chosen]

    def _save(self) -> object:
        static = (self.goal, self._listed, self._lines, self._amounts)  # replaced by a reset, never changed
        return static, tuple(self._held.items()), tuple(self._stock.items())

    def _load(self, state: object) -> None:
        assert isinstance(state, tuple)
        (self.goal, self._listed, self._lines, self._amounts), held, stock = state
        self._held, self._stock = dict(held), dict(stock)


@lru_cache(maxsize=32)
def _goals(book: RecipeBook, min_depth: int, max_depth: int, longest: int) -> tuple[str, ...]:
    """Goals within the depths whose plan is short enough."""
    out = []
    for item in sorted(book.making):
        if min_depth <= book.depth[item] <= max_depth:
            amounts = _amounts(book, book.needed(item))
            if len(plan(book, item, {}, None, amounts) or ()) <= longest:
                out.append(item)
    return tuple(out)


def _amounts(book: RecipeBook, listed: tuple[Recipe, ...]) -> dict[str, tuple[int, ...]]:
    """What can be gathered, and how many at once: one, or what a listed recipe takes."""
    out: dict[str, set[int]] = {}
    for recipe in listed:
        for part, n in recipe.uses:
            if part not in book.making and part not in book.members:
                out.setdefault(part, {1}).add(n)
    return {item: tuple(sorted(out[item])) for item in sorted(out)}


def _listing(things: dict[str, int]) -> str:
    return ", ".join(f"{things[item]} {item}" for item in sorted(things)) or "nothing"


def _add(things: dict[str, int], more: dict[str, int]) -> None:
    for item, n in more.items():
        things[item] = things.get(item, 0) + n
        if not things[item]:
            del things[item]
