"""Recipes of our own: layers of made-up things, each made from things of lower layers, drawn from a seed."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from apportion.envs.textcraft.recipes import Recipe, RecipeBook
from apportion.errors import ConfigError

STUFF = "amber birch bone brass cedar clay copper coral flax flint glass granite hemp iron ivory jade".split()
STUFF += "leather linen marble oak onyx pine quartz reed resin ruby silver slate tin wax".split()
FORMS = "bead blade block bowl brick chain chisel cord disc frame gear hook jar key ladder lamp lens".split()
FORMS += "mask needle panel pin plate ring rod rope screw shell sheet spring tile tube wedge wheel wire".split()


@lru_cache(maxsize=8)
def generated_book(world: int = 0, *, raw: int = 24, layers: int = 4, per_layer: int = 100) -> RecipeBook:
    """A table of ``layers * per_layer`` recipes over ``raw`` things to gather.

    Each recipe takes one to three ingredients, at least one of the layer just below, up to three pieces each, and
    makes one, two or four pieces.

    Raises:
        ConfigError: more things than there are names, or none.
    """
    names = [f"{stuff} {form}" for stuff in STUFF for form in FORMS]
    if min(raw, layers, per_layer) < 1 or raw > len(STUFF) or layers * per_layer > len(names):
        raise ConfigError(
            f"textcraft: {raw} things to gather and {layers} layers of {per_layer} cannot be named; "
            f"at most {len(STUFF)} and {len(names)} in all"
        )
    rng = Random(f"textcraft/{world}")
    rng.shuffle(names)
    below = [rng.sample(STUFF, raw)]
    recipes: list[Recipe] = []
    for layer in range(layers):
        made = names[layer * per_layer : (layer + 1) * per_layer]
        lower = [thing for part in below for thing in part]
        for item in made:
            parts = [rng.choice(below[-1])]
            parts += [thing for thing in rng.sample(lower, rng.choice((0, 1, 1, 2))) if thing not in parts]
            uses = tuple((part, rng.choice((1, 1, 2, 3))) for part in parts)
            recipes.append(Recipe(item, rng.choice((1, 1, 2, 4)), uses))
        below.append(made)
    return RecipeBook(tuple(recipes))
