"""State keys: what is one state, what stays apart, and what was taken out."""

import difflib
import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import Blocks, Near, Normalised, Rule, by_step, by_turn, learn_rules
from apportion.units import similar as similar_room
from apportion.units.similar import common_subsequence, likeness

PERIODIC = "abcdefghij" * 40
SHIRT = "Item detail page. Cotton crew neck shirt, size M, colour blue. Price: $20.00. [Buy now] [Back]"
DEAR = SHIRT.replace("$20.00", "$200.00")
LISTED = "".join(f"Item {i}: shirt, price 20 USD, rating 4 of 5, in stock. " for i in range(1, 9))
PAGE = "Results page 1 of 5. Session 8f3a91c2. Item 1: red shirt $20. Item 2: blue shirt $25. [Next]"
AGAIN = PAGE.replace("8f3a91c2", "77be04d1")
TRIPLE = [f"shirt price {rest}" for rest in ("20 dollars size M", "200 dollars size M", "200 dollars size XL")]


def batch_of(*texts_of_trajectories, group="task"):
    return Batch.from_trajectories(
        [
            Trajectory([Step(observation=text, action="go", reward=0.0) for text in texts], group=group)
            for texts in texts_of_trajectories
        ]
    )


def partition(keys):
    return [keys.index(key) for key in keys]


# --- what the cuts accept -------------------------------------------------------------------------------------------


def test_names_functions_and_objects():
    batch = batch_of([PAGE, "Lobby"], [AGAIN, "lobby"])
    assert by_step(batch, state="exact").state_S.tolist() == by_step(batch).state_S.tolist() == batch.state_S.tolist()
    assert partition(by_step(batch, state="normalised").state_S.tolist()) == [0, 1, 0, 3]
    assert partition(by_step(batch, state=str.lower).state_S.tolist()) == [0, 1, 2, 1]
    assert partition(by_turn(batch, state=Near(0.9, numbers=True)).state_S.tolist()) == [0, 1, 0, 3]
    assert by_step(batch, state="near").options == {"state": "near"}
    assert by_step(batch, state=Near(0.9)).options["state"].startswith("Near(threshold=0.9, numbers=False")
    assert by_step(batch, state=str.lower).options == {"state": "lower"}


def test_a_rule_sees_all_texts_and_their_groups():
    class Size:
        def keys(self, text_S, group_of_S):
            return [
                str(list(zip(group_of_S, text_S, strict=True)).count(pair))
                for pair in zip(group_of_S, text_S, strict=True)
            ]

    rollouts = [*batch_of(["a", "b", "a"]), *batch_of(["a"], group="other")]
    assert by_step(Batch.from_trajectories(rollouts), state=Size()).state_S.tolist() == ["2", "1", "2", "1"]


def test_what_they_refuse():
    batch = batch_of(["a", "b"])

    class Short:
        def keys(self, text_S, group_of_S):
            return ["a"]

    with pytest.raises(
        ConfigError, match="no state rule named 'nera'; there are exact, normalised, learned, near, blo"
    ):
        by_step(batch, state="nera")
    with pytest.raises(ConfigError, match="state is a int; give a name, a function of one text, or a StateKeys object"):
        by_step(batch, state=3)
    with pytest.raises(DataError, match="gave 1 keys for 2 states; one each"):
        by_step(batch, state=Short())
    with pytest.raises(ConfigError, match=r"near: threshold is 1.5; give a number in \(0, 1\]"):
        Near(threshold=1.5)
    with pytest.raises(ConfigError, match="blocks: threshold is 0"):
        Blocks(threshold=0)
    with pytest.raises(ConfigError, match="near: decisive cannot be read as a pattern"):
        Near(decisive="(")
    with pytest.raises(ConfigError, match="no declared state rule named 'uid'; there are ansi, uuid, date"):
        Normalised(["uid"])
    with pytest.raises(ConfigError, match=r"state rule: the pattern '\[' cannot be read"):
        Normalised([Rule("mine", "[")])


def test_states_that_were_not_logged_stay_apart_under_every_rule():
    batch = Batch.from_trajectories([Trajectory([Step(ids=[1], reward=0.0), Step(ids=[2], reward=0.0)], group="g")])
    for state in ("exact", "normalised", "learned", "near", "blocks"):
        assert len(set(by_step(batch, state=state).state_S)) == 2


# --- normalised -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("at 2024-05-01T10:22:33.5Z: ok", "at ⟨date⟩: ok"),
        ("on 2024-05-01 you wake", "on ⟨date⟩ you wake"),
        ("now 10:22:33 PM", "now ⟨time⟩"),
        ("meet at 10:30", "meet at 10:30"),
        ("t=1700000000.123 x", "t=⟨epoch⟩ x"),
        ("order 17000000001234567", "order 17000000001234567"),
        ("obj at 0x7ffe12ab34cd>", "obj at ⟨address⟩>"),
        ("id 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id ⟨uuid⟩"),
        ("commit 9fceb02d0ae598e9", "commit ⟨hex⟩"),
        ("defaced 12345678", "defaced 12345678"),
        ("Session ID: ab-12, user 7", "Session ID: ⟨id⟩, user 7"),
        ("request=991", "request=⟨id⟩"),
        ("a run of luck", "a run of luck"),
        ("Step 3 of 50. You have 3 coins", "Step ⟨n⟩. You have 3 coins"),
        ("turn: 12/30", "turn: ⟨n⟩"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("a \n\t b", "a b"),
        ("saved /var/tmp/x91/log.txt now", "saved ⟨path⟩ now"),
        ("Price: $20.00", "Price: $20.00"),
    ],
)
def test_declared_rules(text, key):
    assert Normalised().key(text) == key


def test_the_report_says_what_was_taken_out():
    report = Normalised().report([PAGE, AGAIN, PAGE, "Step 2 of 9", "Step 3 of 9"], [0, 0, 1, 1, 1])
    assert report.states == 5
    assert report.keys == 3
    assert report.lines() == [
        "hex: 2 in 2 texts, like '8f3a91c2', '77be04d1'",
        "counter: 2 in 2 texts, like 'Step 2 of 9', 'Step 3 of 9'",
        "5 states became 3",
    ]


def test_only_the_rules_asked_for():
    rules = Normalised(["counter", Rule("lamp", "(?P<keep>lamp )(?:lit|dark)", "?")])
    assert rules.key("lamp lit, step 4, 2024-01-02") == "lamp ?, step ⟨n⟩, 2024-01-02"


def test_four_visits_to_one_page_with_four_session_ids():
    # exact: four states of one visit each; normalised: one state, and GiGPO's step part comes alive
    from apportion.assign import assign

    pages = [PAGE.replace("8f3a91c2", f"8f3a91c{k}") for k in range(4)]
    batch = Batch.from_trajectories(
        [
            Trajectory([Step(observation=page, action="a", reward=reward)], group="g")
            for page, reward in zip(pages, [0.9, 0, 0, 0.6561], strict=True)
        ]
    )
    assert assign("anchor", by_step(batch), gamma=0.9).advantage_S.tolist() == [0.0] * 4
    scaled = assign("anchor", by_step(batch, state="normalised"), gamma=0.9, scale="std").advantage_S
    assert scaled.tolist() == pytest.approx([1.1105, -0.8455, -0.8455, 0.5805], abs=5e-5)


# --- learned --------------------------------------------------------------------------------------------------------


def learned(*texts):
    return [rule.name for rule in learn_rules(batch_of(*texts))]


def test_what_differs_between_equal_starts_is_noise():
    first = ["Welcome. Ticket A7-19, port 8080. You have 3 coins.", "Ticket A7-19. You have 2 coins."]
    second = ["Welcome. Ticket B2-03, port 8081. You have 3 coins.", "Ticket B2-03. You have 5 coins."]
    batch = batch_of(first, second)
    assert [rule.name for rule in learn_rules(batch)] == ["learned after 'Ticket'", "learned after 'port'"]
    keys = by_step(batch, state="learned").state_S.tolist()
    assert keys[0] == keys[2] == "Welcome. Ticket ⟨id⟩, port ⟨id⟩. You have 3 coins."
    assert keys[1] == "Ticket ⟨id⟩. You have 2 coins."
    assert keys[3] == "Ticket ⟨id⟩. You have 5 coins."


def test_a_number_that_counts_the_steps_is_noise():
    walks = [[f"Day {t + 1}, in room {room}" for t, room in enumerate(rooms)] for rooms in ([4, 2, 7], [4, 7, 7])]
    assert learned(*walks) == ["counter after 'Day'"]
    assert partition(by_step(batch_of(*walks), state="learned").state_S.tolist()) == [0, 1, 2, 0, 2, 2]


def test_nothing_is_learned_from_starts_that_differ_otherwise():
    assert learned(["You hold 3 apples"], ["You see 4 apples"]) == []
    assert learned(["You hold 3 apples"]) == []
    assert learned(["Room 3 has a lamp"], ["Room 4 has a cat"]) == []


def test_a_word_that_opens_two_places_opens_none():
    assert learned(["port 1 and port 2"], ["port 1 and port 3"]) == []
    assert learned(["port 1 and host 2"], ["port 1 and host 3"]) == ["learned after 'host'"]


def test_learned_rules_see_the_text_as_it_was():
    batch = batch_of(["made at 2024-05-01"], ["made at 9x"])
    assert by_step(batch, state="learned").state_S.tolist() == ["made at ⟨id⟩"] * 2


def test_a_place_must_differ_in_most_groups():
    rollouts = []
    for g, (a, b) in enumerate([("1", "2"), ("5", "5"), ("6", "6")]):
        rollouts += batch_of([f"seed {a}"], [f"seed {b}"], group=f"g{g}")
    assert learn_rules(Batch.from_trajectories(rollouts)) == ()
    assert [rule.name for rule in learn_rules(Batch.from_trajectories(rollouts[:2]))] == ["learned after 'seed'"]


def test_learning_does_not_depend_on_order():
    texts = [["id 1a: Day 0 x", "Day 1 y", "Day 2 x"], ["id 2b: Day 0 x", "Day 1 x", "Day 2 y"]]
    assert learn_rules(batch_of(*texts)) == learn_rules(batch_of(*texts[::-1]))
    assert learned(*texts) == ["learned after 'id'", "counter after 'Day'"]


# --- likeness -------------------------------------------------------------------------------------------------------


def slow_common_subsequence(a, b):
    row = [0] * (len(b) + 1)
    for x in a:
        last = 0
        for k, y in enumerate(b):
            last, row[k + 1] = row[k + 1], last + 1 if x == y else max(row[k + 1], row[k])
    return row[-1]


TEXTS = st.text(alphabet="ab 1é🦊", max_size=24)


@given(TEXTS, TEXTS)
def test_common_subsequence_equals_the_table(a, b):
    assert common_subsequence(a, b) == slow_common_subsequence(a, b)


@given(TEXTS, TEXTS)
def test_likeness_bounds_the_ratio_of_difflib(a, b):
    assert difflib.SequenceMatcher(None, a, b).ratio() <= likeness(a, b) + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_with_and_without_rapidfuzz(monkeypatch, seed):
    pytest.importorskip("rapidfuzz")
    texts = random_pages(seed)
    groups = [0] * len(texts)
    got = [rule.keys(texts, groups) for rule in (Near(0.9, numbers=True), Blocks(0.9))]
    monkeypatch.setattr(similar_room, "_rapidfuzz", lambda: None)
    assert [rule.keys(texts, groups) for rule in (Near(0.9, numbers=True), Blocks(0.9))] == got


# --- blocks: parity with the published code --------------------------------------------------------------------------


def published_groups(texts, threshold):
    """What the authors' code does, one observation after the other."""
    first, out = [], []
    for text in texts:
        for representative in first:
            if difflib.SequenceMatcher(None, text, representative).ratio() >= threshold:
                out.append(representative)
                break
        else:
            first.append(text)
            out.append(text)
    return out


def random_pages(seed, n=25):
    rng = random.Random(seed)
    words = ["".join(rng.choices("etaoinshr", k=rng.randint(2, 8))) for _ in range(60)]
    pages = [" ".join(rng.choices(words, k=rng.randint(5, 60))) for _ in range(6)]
    out = []
    for _ in range(n):
        page = rng.choice(pages)
        for _ in range(rng.choice([0, 0, 1, 2, 5])):
            at = rng.randrange(len(page))
            page = page[:at] + rng.choice(["", "x", "7", " step 3"]) + page[at + rng.randint(0, 2) :]
        out.append(page)
    return out


@pytest.mark.parametrize("threshold", [0.5, 0.95, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_blocks_are_the_published_groups(seed, threshold):
    texts = random_pages(seed)
    assert Blocks(threshold).keys(texts, [0] * len(texts)) == published_groups(texts, threshold)


def test_groups_do_not_see_each_other():
    assert Blocks().keys([SHIRT, DEAR], [0, 1]) == [SHIRT, DEAR]
    assert Near(numbers=True).keys([SHIRT, DEAR], [0, 1]) == [SHIRT, DEAR]


def test_what_is_known_of_the_published_similarity():
    def ratio(a, b):
        return difflib.SequenceMatcher(None, a, b).ratio()

    for at, want in ((1, 0.0025), (200, 0.5019)):  # frequent signs are ignored from 200 signs on
        longer = PERIODIC[:at] + "a" + PERIODIC[at:]
        assert ratio(PERIODIC, longer) == pytest.approx(want, abs=5e-5)
        assert likeness(PERIODIC, longer) == pytest.approx(0.9988, abs=5e-5)
        assert len(set(Blocks().keys([PERIODIC, longer], [0, 0]))) == 2
        assert len(set(Near().keys([PERIODIC, longer], [0, 0]))) == 1
    a, b = f"sess 8f3a91c2 {LISTED}", f"sess 77be04d1 {LISTED}"
    assert sorted([ratio(a, b), ratio(b, a)]) == pytest.approx([0.0135, 0.2422], abs=5e-5)
    assert likeness(a, b) == pytest.approx(0.9843, abs=5e-5)
    assert ratio(SHIRT, DEAR) == pytest.approx(0.9947, abs=5e-5)  # a decisive digit vanishes
    assert len(set(Blocks().keys([SHIRT, DEAR], [0, 0]))) == 1
    assert len(set(Near().keys([SHIRT, DEAR], [0, 0]))) == 2
    assert ratio(PAGE, AGAIN) == pytest.approx(0.9239, abs=5e-5)


def test_blocks_depend_on_the_order_and_near_does_not():
    blocks, near = {}, {}
    for order in itertools.permutations(range(3)):
        texts = [TRIPLE[k] for k in order]
        for rule, found in ((Blocks(), blocks), (Near(numbers=True), near)):
            keys = dict(zip(order, rule.keys(texts, [0] * 3), strict=True))
            found[order] = partition([keys[k] for k in range(3)])
    assert {tuple(found) for found in blocks.values()} == {(0, 0, 2), (0, 0, 0), (0, 1, 1)}
    assert blocks[0, 1, 2] == [0, 0, 2]
    assert blocks[1, 0, 2] == [0, 0, 0]
    assert blocks[2, 1, 0] == [0, 1, 1]
    assert {tuple(found) for found in near.values()} == {(0, 0, 2)}


# --- near -----------------------------------------------------------------------------------------------------------


def slow_near(texts, threshold):
    """Complete linkage from its definition, on sorted different texts; no numbers or decisive words in them."""
    clusters = [[text] for text in sorted(set(texts))]
    while True:
        best = None
        for i, j in itertools.combinations(range(len(clusters)), 2):
            least = min(
                round(2 * slow_common_subsequence(a, b) / (len(a) + len(b)), 12)
                for a in clusters[i]
                for b in clusters[j]
            )
            if least >= threshold and (best is None or least > best[0]):
                best = (least, i, j)
        if best is None:
            break
        _, i, j = best
        clusters[i] = sorted(clusters[i] + clusters.pop(j))
    return [next(cluster[0] for cluster in clusters if text in cluster) for text in texts]


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=9), max_size=9), st.sampled_from([0.5, 0.7, 0.9]))
def test_near_equals_complete_linkage(texts, threshold):
    assert Near(threshold).keys(texts, [0] * len(texts)) == slow_near(texts, threshold)


@given(st.lists(st.text(alphabet="ab1 ", max_size=12), max_size=8), st.randoms())
def test_near_knows_neither_order_nor_frequency(texts, rng):
    key_of = dict(zip(texts, Near(0.6).keys(texts, [0] * len(texts)), strict=True))
    moved = texts * 2
    rng.shuffle(moved)
    assert Near(0.6).keys(moved, [0] * len(moved)) == [key_of[text] for text in moved]


@given(st.lists(st.text(alphabet="ab12-.½二 ", min_size=1, max_size=14), min_size=2, max_size=6))
def test_near_never_merges_two_numbers(texts):
    def numbers(text):
        return [*re.findall(r"[-+]?\d+(?:[.,]\d+)*", text), *re.findall("[½二]", text)]

    keys = Near(0.01).keys(texts, [0] * len(texts))
    for (a, x), (b, y) in itertools.combinations(zip(texts, keys, strict=True), 2):
        assert x != y or numbers(a) == numbers(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The door is now open, go through it please", "The door is now closed, go through it please"),
        ("You can take the lamp from the long table here", "You can't take the lamp from the long table here"),
        ("The corridor leads a long way down to the left", "The corridor leads a long way down to the right"),
    ],
)
def test_decisive_words_stay_apart(a, b):
    assert likeness(a, b) > 0.85
    assert len(set(Near(0.85).keys([a, b], [0, 0]))) == 2
    assert len(set(Near(0.85, decisive="").keys([a, b], [0, 0]))) == 1


@pytest.mark.parametrize(
    ("a", "b"),
    [
        *itertools.combinations(["two", "ten", "thirteen", "fourteen", "twenty", "ninety", "dozens of", "half"], 2),
        *itertools.combinations(["first", "second", "third", "fourth", "thirteenth", "fourteenth", "twentieth"], 2),
        ("twenty-one", "twenty-two"), ("0x1F", "0x1A"), ("1e5", "1e6"), ("-5", "5"), ("1.5", "15"), ("٣", "٤"),
        ("Ⅳ", "Ⅴ"), ("10:30", "10:31"), ("3/4", "3/5"), ("½", "⅓"), ("Two", "Three"), ("once", "twice"),
    ],
)  # fmt: skip
def test_numbers_of_every_spelling_stay_apart(a, b):
    """In a page so long that a likeness says nothing of them."""
    first, second = (f"You are in the old library. The note says {x} and nothing else. " * 3 for x in (a, b))
    assert len(set(Near(0.5, decisive="").keys([first, second], [0, 0]))) == 2
    assert len(set(Near(0.5, numbers=True).keys([first, second], [0, 0]))) == 1


def test_words_that_only_look_like_numbers_do_not_matter():
    pairs = [("someone waits", "somebody waits"), ("the weight", "the height"), ("often here", "of ten here")]
    assert [len(set(Near(0.5).keys([a + " at the gate of the city", b + " at the gate of the city"], [0, 0])))
            for a, b in pairs] == [1, 1, 2]  # fmt: skip


def test_near_merges_when_it_is_told_to():
    assert len(set(Near(0.95, numbers=True).keys([SHIRT, DEAR], [0, 0]))) == 1
    assert len(set(Near(0.9, numbers=True).keys([PAGE, AGAIN, PAGE + " "], [0, 0, 0]))) == 1


def test_texts_that_no_encoding_takes():
    texts = ["\ud800 broken", "\ud800 broken ", "", "\U0001f98a"]
    assert partition(Near(0.9).keys(texts, [0] * 4)) == [0, 0, 2, 3]
    assert partition(Blocks(0.9).keys(texts, [0] * 4)) == [0, 0, 2, 3]


@pytest.mark.parametrize("state", ["normalised", "learned"])
def test_states_of_token_ids_stay_apart(state):
    """Their keys are digests, which look like ids that change by themselves."""
    steps = [Step(prompt_ids=[1, k], ids=[3]) for k in range(3)]
    batch = Batch.from_trajectories([Trajectory(steps, group="g", outcome=float(n)) for n in range(2)])
    assert by_step(batch, state=state).state_S.tolist() == by_step(batch).state_S.tolist()
