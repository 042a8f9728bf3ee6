"""Every parameter of every registered method does something, is tested, and refuses what cannot be meant.

The options of a parameter are those that its own error sentence names; nobody is listed here.
"""

import functools
import inspect
import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from apportion.errors import ApportionError, ConfigError
from apportion.methods import get, names
from apportion.methods.spec import REQUIRED
from apportion.methods.values import annotations_of
from apportion.testing import levels_for, random_units
from apportion.testing.subject import plain_credit
from apportion.units import CUTS, by_step, by_token, by_tree
from tests.grown import grown, random_words

EVERY = [(name, key) for name in names() if not get(name).needs for key in get(name).defaults]
EXEMPT = {("matpo", "planner"): "planner and worker count alike where there are two agents; test_matpo draws three"}
TESTS = Path(__file__).parents[1] / "methods"
COLUMNS = ("prm_logp", "prob_square", "planning", "weight")
NAMED = (
    "format",
    "work",
    "correct",
    "length",
    "coder",
    *COLUMNS,
)  # names that `random_trajectories` uses for parts, agents and columns
NUMBERS = (0.0, 0.5, 1.0, 1.7, 3.0, 0, 1, 2, 40, -0.5)


@functools.cache
def worlds(name):
    """Data to try a method on: random units of every level, and some that share prefixes."""
    spec = get(name)
    levels = levels_for(name)
    drawn = [random_units(seed, levels[seed % len(levels)], columns=COLUMNS) for seed in range(max(9, len(levels)))]
    for words in (random_words(0), random_words(1), (["AeBC", "AeBD", "AeC", "B"], [1.0, 0.0, 0.5, 0.0])):
        batch = grown(*words)
        cuts = (
            (by_token, by_step, by_tree) if not spec.units else [CUTS[u] for u in spec.units if u in ("token", "step")]
        )
        drawn += [cut(batch) for cut in cuts]
    return [plain_credit(units) if spec.kind == "transform" else units for units in drawn]


def seen(credit):
    """Everything that a loss or a reader sees."""
    arrays = (credit.advantage_S, credit.known_S, credit.train_S, credit.train_T, *credit.parts.values())
    return [None if array is None else np.asarray(array, dtype=np.float64).round(9).tobytes() for array in arrays]


CACHE = {}


def fingerprint(name, world, params):
    """What comes out; None where these units or parameters are refused."""
    key = (name, world, repr(sorted(params.items())))
    if key not in CACHE:
        try:
            CACHE[key] = seen(get(name).call(worlds(name)[world], **params))
        except ApportionError:
            CACHE[key] = None
    return CACHE[key]


@functools.cache
def refusal(name, key):
    """What the method says when the parameter is a text that it cannot know."""
    for data in worlds(name):
        try:
            get(name).call(data, **{**get(name).example, key: "no such thing"})
        except ConfigError as problem:
            return str(problem)
        except ApportionError:
            continue
    return ""


@functools.cache
def options(name, key):
    """Values to try in place of the default, and whether each of them has to make a difference."""
    spec = get(name)
    default = spec.example.get(key, spec.defaults[key])
    kind = str(spec.kinds.get(key, ""))
    if isinstance(default, bool):
        return [not default], True
    if "Sequence" in kind:
        if "float" in kind:
            return [(0.5, 2.0)], True
        return ([[[i] for i in range(0, 1000, 7)]] if "int" in kind else [("length",)]), True
    if "str" in kind and "; give" in (said := refusal(name, key)):
        return [word for word in re.findall(r"'([^']*)'", said.split("; give", 1)[1]) if word != default], True
    if "str" in kind:
        return [word for word in NAMED if word != default], False
    return [x for x in NUMBERS if x != default], False


def settings(name, key):
    """What the other parameters are while one is tried: all defaults, or one or two of them at another option."""
    yield {}
    others = [(k, v) for k in get(name).defaults if k != key for v in options(name, k)[0]]
    texts = [(k, v) for k, v in others if isinstance(v, str | bool | tuple)]
    numbers = [(k, v) for k, v in others if isinstance(v, int | float) and v in (0.5, 2) and v is not True]
    for k, v in [*texts, *numbers]:
        yield {k: v}
    for (k, v), (m, w) in product(texts, [*texts, *numbers]):
        if k < m:
            yield {k: v, m: w}


def differs(name, key, value):
    """Some units and some other parameters under which this value gives another result than the default."""
    for given in settings(name, key):
        base = {**get(name).example, **given}
        for world in range(len(worlds(name))):
            after = fingerprint(name, world, {**base, key: value})
            if after is not None and after != (fingerprint(name, world, base) or after):
                return True
    return False


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_no_parameter_is_dead(name, key):
    if (name, key) in EXEMPT:
        pytest.skip(EXEMPT[name, key])
    values, each = options(name, key)
    assert values, f"{name}: nothing to try for {key}"
    if each:
        dead = [value for value in values if not differs(name, key, value)]
        assert dead == [], f"{name}: {key}={dead[0]!r} changes nothing"
    else:
        assert any(differs(name, key, value) for value in values), f"{name}: {key} changes nothing"


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_what_cannot_be_meant_is_refused_in_one_sentence(name, key):
    spec = get(name)
    units = random_units(3, levels_for(name)[0] if spec.units else spec.unit, columns=COLUMNS)
    data = plain_credit(units) if spec.kind == "transform" else units
    for wrong in ("nonsense", None, math.nan, math.inf, -math.inf, -1, [1, 2], {"a": 1}, True, 10**400, object()):
        try:
            credit = spec.call(data, **{**spec.example, key: wrong})
        except ApportionError as problem:
            said = str(problem)
        else:
            said = ""
        if said:
            assert key in said or "nonsense" in said, f"{name}: {key}={wrong!r}: {said}"
            assert "\n" not in said
        else:
            assert np.isfinite(credit.advantage_S).all(), f"{name}: {key}={wrong!r} gives {credit.advantage_S}"


@pytest.mark.parametrize("name", sorted({name for name, _ in EVERY}))
def test_the_signature_says_what_its_defaults_are(name):
    spec = get(name)
    assert set(spec.kinds) == set(spec.defaults), f"{name}: every parameter has an annotation"
    given = {key: value for key, value in spec.defaults.items() if value is not REQUIRED}
    assert (
        spec.bind({**spec.example, **given}).keys() == spec.defaults.keys()
    )  # a default that is refused is no default


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_every_parameter_is_told_on_a_line_of_its_own(name, key):
    assert re.search(rf"^    {key}: ", inspect.cleandoc(get(name).doc), re.MULTILINE), f"{name}: document {key}"


@pytest.mark.parametrize("name", [name for name in names() if not get(name).needs])
def test_every_method_is_held_to_its_truths(name):
    spec = get(name)
    path = TESTS / f"test_{name}.py"
    text = path.read_text(encoding="utf-8")
    assert re.search(r"def test_\w*(worked|mission|by_hand)", text), f"{path.name}: a worked example"
    for key in spec.defaults:
        assert re.search(rf"\b{key}\b", text), f"{path.name} never sets {key}"
    assert "slow_reference" in text, f"{path.name}: a slow reference"
    exact = re.search(r"def test_\w*(true|exact|optimum|whole_tree|least)", text)
    assert exact or "No enumerable truth" in text, f"{path.name}: an exact answer, or why there is none"


def test_a_parameter_without_an_annotation_takes_what_it_is_given():
    """A plug-in need not annotate; setting such a parameter was a KeyError."""

    def method(units, *, share=0.5, gamma: float = 1.0):
        """Never called."""

    assert annotations_of(method) == {"gamma": float}
