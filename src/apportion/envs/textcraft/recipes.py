"""Recipes: what makes what. A table of them has no cycles, so every item has a depth and a plan.

    craft 4 oak planks using 1 oak logs

An ingredient is an item or a *tag*, a kind that several craftable items belong to. Items that no recipe makes are
gathered. Everything here is sorted and immutable: no task can change another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, order=True)
class Recipe:
    """``count`` of item ``makes`` from ``uses``, pairs of (ingredient, how many)."""

    makes: str
    count: int
    uses: tuple[tuple[str, int], ...]

    @property
    def line(self) -> str:
        """The command as the game lists it."""
        return craft_command(self.makes, self.count, self.uses)


def craft_command(makes: str, count: int, uses: Iterable[tuple[str, int]]) -> str:
    """The crafting command with these ingredients."""
    return f"craft {count} {makes} using {', '.join(f'{n} {item}' for item, n in uses)}"


@dataclass(frozen=True)
class RecipeBook:
    """An acyclic table. ``tags`` maps each tag to the craftable items that serve for it."""

    recipes: tuple[Recipe, ...]
    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @cached_property
    def making(self) -> dict[str, tuple[Recipe, ...]]:
        """Recipes by the item they make."""
        out: dict[str, tuple[Recipe, ...]] = {}
        for recipe in sorted(self.recipes):
            out[recipe.makes] = (*out.get(recipe.makes, ()), recipe)
        return out

    @cached_property
    def using(self) -> dict[str, tuple[Recipe, ...]]:
        """Recipes by ingredient."""
        out: dict[str, tuple[Recipe, ...]] = {}
        for recipe in sorted(self.recipes):
            for ingredient, _ in recipe.uses:
                out[ingredient] = (*out.get(ingredient, ()), recipe)
        return out

    @cached_property
    def members(self) -> dict[str, tuple[str, ...]]:
        """Items of each tag."""
        return dict(self.tags)

    @cached_property
    def depth(self) -> dict[str, int]:
        """Crafts one upon another that an item, a tag or a gathered thing takes at least; gathered things 0."""
        known: dict[str, int] = {}

        def of(name: str) -> int:
            if name not in known:
                if name in self.members:
                    known[name] = min(of(item) for item in self.members[name])
                else:
                    made = self.making.get(name, ())
                    known[name] = min((1 + max(of(part) for part, _ in r.uses) for r in made), default=0)
            return known[name]

        for recipe in self.recipes:
            of(recipe.makes)
        return known

    def serves(self, item: str, ingredient: str) -> bool:
        """Whether the item can stand for this ingredient."""
        return item == ingredient or item in self.members.get(ingredient, ())

    def best(self, item: str) -> Recipe:
        """The recipe of least depth, the first among equals."""
        return min(self.making[item], key=lambda r: (max(self.depth[part] for part, _ in r.uses), r))

    def needed(self, goal: str) -> tuple[Recipe, ...]:
        """Every recipe that can matter for making the goal, sorted."""
        found: set[Recipe] = set()
        seen: set[str] = set()
        open_ = [goal]
        while open_:
            name = open_.pop()
            if name in seen:
                continue
            seen.add(name)
            open_ += self.members.get(name, ())
            for recipe in self.making.get(name, ()):
                found.add(recipe)
                open_ += [part for part, _ in recipe.uses]
        return tuple(sorted(found))

    def distractors(self, needed: Iterable[Recipe]) -> tuple[Recipe, ...]:
        """Recipes of no use that take an ingredient of a useful one."""
        useful = set(needed)
        near = {other for recipe in useful for part, _ in recipe.uses for other in self.using.get(part, ())}
        return tuple(sorted(near - useful))


def without_cycles(recipes: Iterable[Recipe], members: dict[str, tuple[str, ...]]) -> Iterator[Recipe]:
    """The recipes in order, without those that would let an item be made from itself."""
    parts_of: dict[str, set[str]] = {}

    def reaches(start: str, target: str) -> bool:
        seen, open_ = set[str](), [start]
        while open_:
            name = open_.pop()
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                open_ += [*parts_of.get(name, ()), *members.get(name, ())]
        return False

    for recipe in recipes:
        if not any(reaches(part, recipe.makes) for part, _ in recipe.uses):
            parts_of.setdefault(recipe.makes, set()).update(part for part, _ in recipe.uses)
            yield recipe
