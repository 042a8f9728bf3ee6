import pytest

from apportion.bench.tasks import register_task, task, task_names
from apportion.envs.table import best_actions, optimal_values, tabulate
from apportion.errors import ConfigError, UnknownName

SIZES = {  # states, (time, state) pairs, best return
    "keydoor": (72, 564, 6.5),
    "crafttree": (787, 2504, 1.0),
    "hidden_object": (105, 105, 0.875),  # three questions tell eight objects apart, but for one pair
    "twins": (9, 45, 0.92),  # pull red, push or pull as the switch is: 0.8 * 1 + 0.2 * 0.6
    "relay": (24, 24, 0.9),
    "chain": (60, 60, 1.0),
    "ice": (12, 111, 0.7466),
}


@pytest.mark.parametrize("name", SIZES)
def test_the_published_sizes(name):
    table = task(name).table
    value_HX, _ = optimal_values(table)
    assert (len(table.states), table.pairs) == SIZES[name][:2]
    assert table.start_X @ value_HX[0] == pytest.approx(SIZES[name][2], abs=5e-5)


def test_there_is_a_size_for_every_task():
    assert set(task_names()) == set(SIZES)


@pytest.mark.parametrize("name", task_names())
def test_rules_keep_the_contract(name):
    one = task(name)
    assert one.about
    assert list(one.strengths) == sorted(one.strengths)
    rules, table = one.rules, one.table
    assert tabulate(rules) is table
    assert hash(rules) == hash(task(name).rules)
    for x, actions in zip(table.states, table.actions, strict=True):
        assert len(set(actions)) == len(actions) > 0
        assert rules.text(x, 3).strip()
        for action in actions:
            assert sum(p for p, *_ in rules.step(x, action)) == pytest.approx(1.0)
    assert best_actions(table).shape == (rules.horizon, len(table.states))


@pytest.mark.parametrize("name", task_names())
def test_the_clock_is_written_when_asked_for(name):
    plain, timed = task(name).rules, task(name, show_time=True).rules
    x = plain.starts()[0][1]
    assert plain.text(x, 3) == plain.text(x, 4)
    assert timed.text(x, 3) != timed.text(x, 4)


def test_wrong_names_and_options():
    with pytest.raises(UnknownName, match=r"no task named 'keydor'; did you mean 'keydoor'\?"):
        task("keydor")
    with pytest.raises(UnknownName, match="there are chain, crafttree, hidden_object, ice, keydoor"):
        task("???")
    with pytest.raises(ConfigError, match="task keydoor: unknown option 'budget'; it takes apples, horizon, n, noise"):
        task("keydoor", budget=3)
    with pytest.raises(ConfigError, match="task 'keydoor' is already taken"):
        register_task("keydoor", about="", strengths=(), small={})(lambda: None)
    with pytest.raises(UnknownName, match=r"no task named 'ice-nosy'; did you mean 'ice-noisy'\?"):
        task("ice-nosy")
    with pytest.raises(ConfigError, match="task ice: unknown option 'stamps'; it takes height, horizon"):
        task("ice", stamps=2)
    with pytest.raises(ConfigError, match="stamps is 0; give at least 1"):
        task("ice-noisy", stamps=0)


class Broken:
    """Rules with one fault each."""

    horizon, show_time = 3, False

    def __init__(self, fault):
        self.fault = fault

    def __repr__(self):
        return "broken"

    def starts(self):
        return [(0.5 if self.fault == "starts" else 1.0, 0)]

    def text(self, state, left):
        return str(state)

    def actions(self, state):
        return () if self.fault == "actions" and state == 1 else ("go",)

    def step(self, state, action):
        return [(0.9 if self.fault == "outcomes" else 1.0, state + 1, 0.0, False)]

    def won(self, state, action):
        return False


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("starts", "the probabilities of the listed outcomes sum to 0.5; they must sum to 1"),
        ("outcomes", "sum to 0.9; they must sum to 1"),
        ("actions", "broken: state 1 has no actions; give every unfinished state at least one"),
    ],
)
def test_rules_that_are_no_game_are_refused(fault, says):
    with pytest.raises(ConfigError, match=says):
        tabulate(Broken(fault))


class Timeless(Broken):
    """Says the steps left, and does not say that it does."""

    def text(self, state, left):
        return f"{state}, {left} left"


class Clockless(Broken):
    def __getattribute__(self, name):
        if name == "show_time":
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (Timeless(""), "Timeless: the text of state 0 tells the steps left; set show_time = True"),
        (Clockless(""), "Clockless has no show_time; rules of a game that can be listed have horizon, show_time"),
    ],
)
def test_rules_say_whether_their_text_tells_the_time(rules, says):
    with pytest.raises(ConfigError, match=says):
        tabulate(rules)


def test_a_game_too_large_to_walk_is_refused():
    assert len(tabulate(Broken("")).states) == 3
    with pytest.raises(ConfigError, match="more than 2 states; take smaller options or raise cap"):
        tabulate(Broken(""), cap=2)
