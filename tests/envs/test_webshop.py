import json
from dataclasses import replace

import pytest

from apportion.envs import make
from apportion.envs.webshop.goals import Goal, alike, goals_of, kind_match, reward
from apportion.envs.webshop.products import generated_products, read_products
from apportion.errors import ConfigError, FormatError

LAMP = {
    "asin": "B01", "name": "Red Oak Desk Lamp", "query": "desk lamps", "product_category": "Home › Lighting › Lamps",
    "small_description": ["Solid wood.", "Dimmable."], "full_description": "A lamp.", "pricing": "$20.00 to $1,030.50",
    "customization_options": {"Color": [{"value": "Red "}, {"value": "blue"}], "size": None},
}  # fmt: skip
TENT = {
    "asin": "B02", "name": "Blue Tent", "query": "tents", "product_category": "Outdoor › Camping",
    "small_description": [], "full_description": "Dry.", "pricing": "", "customization_options": {},
}  # fmt: skip
GOALS = {"B01": {"attributes": ["solid wood", "dimmable"], "instruction": "Find me a solid wood lamp.",
                 "instruction_attributes": ["solid wood"]}}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "items_shuffle_1000.json").write_text(json.dumps([LAMP, TENT]))
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(GOALS))
    read_products.cache_clear()
    return tmp_path


def test_the_published_format_is_read(folder):
    lamp, tent = read_products(str(folder))
    assert (lamp.asin, lamp.bullets, lamp.options) == (
        "b01", ("Solid wood.", "Dimmable."), (("color", ("red", "blue")),),
    )  # fmt: skip
    assert lamp.categories == {"Home", "Lighting", "Lamps"}
    assert 20 <= lamp.price <= 1030.5
    assert lamp.price == read_products(str(folder))[0].price
    assert (lamp.instruction, lamp.wanted_attributes) == ("Find me a solid wood lamp", ("solid wood",))
    assert (tent.price, tent.options, tent.instruction) == (100.0, (), "")
    texts = [goal.text for goal in goals_of((lamp, tent))]
    assert len(texts) == 2
    assert texts[0].startswith("Find me a solid wood lamp with color: red, and price lower than ")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [("x.json", "{", "is no JSON"), ("x.json", "{}", "holds no product"),
     ("x.json", '[{"asin": "b"}]', r"x\.json, product 1: cannot be read \(KeyError\('name'\)\)")],
)  # fmt: skip
def test_what_cannot_be_read_is_told(name, text, says, tmp_path):
    (tmp_path / name).write_text(text)
    read_products.cache_clear()
    with pytest.raises(FormatError, match=says):
        read_products(str(tmp_path))
    with pytest.raises(ConfigError, match="no product files"):
        read_products(str(tmp_path / "nowhere"))


def test_the_reward_by_hand(folder):
    lamp, tent = read_products(str(folder))
    goal = Goal("b01", "", ("solid wood",), (("color", "red"),), limit=5000.0)
    assert reward(goal, lamp, {"color": "red"}, lamp) == 1.0
    assert reward(goal, lamp, {"color": "blue"}, lamp) == pytest.approx(2 / 3)
    assert reward(replace(goal, limit=1.0), lamp, {}, lamp) == pytest.approx(1 / 3)
    assert reward(replace(goal, limit=None), lamp, {}, lamp) == pytest.approx(2 / 3)
    assert reward(goal, tent, {}, lamp) == 0.0  # nothing of the title is shared
    chair = replace(lamp, name="Red Oak Chair And A Few More Words", query="chairs", categories=frozenset({"Home"}))
    assert kind_match(chair, lamp) == 1.0  # two of four words of the title
    assert kind_match(replace(chair, name="Red thing"), replace(lamp, name="red a b c d e f g")) == 0.5
    assert kind_match(replace(chair, name="Red thing"), replace(lamp, name="red a b c d e f g h i j")) == 0.1


def test_words_are_compared_as_sets():
    assert alike("Long sleeve", "long-sleeve shirt")
    assert not alike("long sleeve", "short sleeve")
    assert alike("!!", "!!")
    assert not alike("!!", "a")


def test_generated_shelves_hold_what_is_asked_for():
    for item in generated_products(1):
        assert set(item.wanted_attributes) <= set(item.attributes)
        goal = goals_of((item,))[0]
        assert reward(goal, item, dict(goal.options), item) == 1.0
    assert generated_products(1) != generated_products(2)


@pytest.fixture
def bm25s():
    return pytest.importorskip("bm25s", reason="the web shop needs the extra 'search'")


def test_a_played_purchase(bm25s, folder):
    env = make("webshop", data=str(folder), split="all", mode="text")
    env.reset(seed=0)
    if dict(env.goal.options) == {"color": "red"}:
        env.reset(seed=1)
    text, *_ = env.step("search[oak LAMP]")
    assert text.endswith(f"[SEP] b01 [SEP] Red Oak Desk Lamp [SEP] ${env.shop.by_asin['b01'].price:.2f}")
    assert env.step("search[again]")[4]["invalid"]
    env.step("click[B01]")
    for where, says in (("description", "A lamp."), ("features", "Solid wood. [SEP] Dimmable.")):
        assert says in env.step(f"click[{where}]")[0]
        env.step("click[< prev]")
    text, *_ = env.step("click[red]")
    assert text.endswith("chosen: color=red")
    text, *_ = env.step("click[Blue]")
    assert text.endswith("chosen: color=blue")
    _, worth, done, _, info = env.step("click[Buy Now]")
    assert (worth, done, info["success"]) == (1.0, True, True)


def test_a_wrong_option_pays_part(bm25s):
    env = make("webshop")
    env.reset(seed=0)
    plan = [action for action in env.expert() if action not in {f"click[{v}]" for _, v in env.goal.options}]
    *_, (_, worth, done, _, info) = [env.step(action) for action in plan]
    assert done
    assert 0 < worth < 1
    assert not info["success"]


def test_pages_turn(bm25s):
    env = make("webshop", mode="text")
    env.reset(seed=0)
    env.step("search[for with a]")
    first = env.shop.shown(env.page)
    env.step("click[next >]")
    second = env.shop.shown(env.page)
    assert (len(first), len(set(first) & set(second))) == (10, 0)
    env.step(f"click[{second[0]}]")
    env.step("click[< prev]")
    assert env.shop.shown(env.page) == second
    env.step("click[< prev]")
    assert env.shop.shown(env.page) == first


def test_the_expert_wins_every_goal(bm25s):
    env = make("webshop", split="all")
    for seed in range(0, env.tasks, 5):
        env.reset(seed=seed)
        for action in env.expert():
            assert action in env.commands()
            *_, info = env.step(action)
        assert info["success"], env.goal


def test_the_expert_helps_from_a_wrong_product(bm25s):
    env = make("webshop", max_steps=30)
    env.reset(seed=3)
    env.step(env.commands()[0])
    env.step(next(c for c in env.commands() if c.startswith("click[b0") and env.goal.asin not in c))
    env.step("click[features]")
    assert [env.step(action) for action in env.expert()][-1][4]["success"]


def test_published_products(bm25s, data_root):
    env = make("webshop", data=str(data_root / "webshop" / "products394.json"), split="test")
    assert len(env.shop.by_asin) == 394
    for seed in range(0, env.tasks, 20):
        env.reset(seed=seed)
        assert [env.step(action) for action in env.expert()][-1][4]["success"], env.goal
