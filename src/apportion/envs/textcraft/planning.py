"""Ways to a goal: depth first, each item by its shallowest recipe, ingredients set aside as soon as they are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from apportion.envs.textcraft.recipes import RecipeBook, craft_command


class Stuck(Exception):
    """The stock is used up."""


def plan(
    book: RecipeBook,
    goal: str,
    held: Mapping[str, int],
    stock: Mapping[str, int] | None,
    amounts: Mapping[str, tuple[int, ...]],
) -> list[str] | None:
    """Commands that craft the goal once more from here; None where this way of planning finds none.

    Args:
        book: the recipes.
        goal: what to craft.
        held: what is there.
        stock: what can still be gathered; None = without end.
        amounts: how many can be gathered at once, ascending from 1, by thing.
    """
    have, left, out = Counter(held), None if stock is None else Counter(stock), list[str]()

    def gather(item: str, need: int) -> None:
        if left is not None:
            if left[item] < need:
                raise Stuck
            left[item] -= need
        have[item] += need
        while need:
            step = max(n for n in amounts[item] if n <= need)
            out.append(f"get {step} {item}")
            need -= step

    def take(ingredient: str, count: int) -> str:
        """Set so many aside; returns the item that serves."""
        item = ingredient
        if ingredient in book.members:
            serving = book.members[ingredient]
            item = min(serving, key=lambda i: (have[i] < count, book.depth[i], i))
        if have[item] < count:
            if item in book.making:
                make(item, count)
            else:
                gather(item, count - have[item])
        have[item] -= count
        return item

    def make(item: str, count: int) -> None:
        recipe = book.best(item)
        while have[item] < count:
            used = [(take(part, n), n) for part, n in recipe.uses]
            out.append(craft_command(item, recipe.count, used))
            have[item] += recipe.count

    try:
        make(goal, have[goal] + 1)
    except Stuck:
        return None
    return out


def gathered(commands: list[str]) -> Counter[str]:
    """How many of each thing a plan gathers."""
    total: Counter[str] = Counter()
    for command in commands:
        verb, count, item = command.split(" ", 2)
        if verb == "get":
            total[item] += int(count)
    return total
