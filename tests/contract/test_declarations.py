"""What `register` refuses: each slip of a declaration is said where it was made, not when somebody calls the method."""

import numpy as np
import pytest

from apportion.asks import Continue, Place
from apportion.assign import assign
from apportion.credit import Credit
from apportion.errors import ConfigError, DataError
from apportion.methods import register, registry
from apportion.resources import Asker, Table
from apportion.testing import random_units


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    registry._SPECS.pop("tests/slip", None)


def outcome(units):
    return Credit(units.outcome_N[units.traj_of_S], units)


def fold(units, answers, *, k=3):
    return outcome(units)


def plan(units, *, k):
    return [Continue(Place(0, 0, 0), k)]


def declare(function=outcome, **changes):
    declared = {"family": "monte-carlo", "reads": ("reward_S",), "source": "this test", **changes}
    return register("tests/slip", **declared)(function)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"reads": "reward_S"}, r"reads is the text 'reward_S'; give a tuple, \('reward_S',\)"),
        ({"holds": "local_to_group"}, "holds is the text 'local_to_group'; give a tuple"),
        ({"units": "step"}, "units is the text 'step'; give a tuple"),
        ({"reads": ("rewards_S",)}, "no unit column named 'rewards_S'; did you mean 'reward_S'"),
        ({"reads": ("outcome_N",)}, "no unit column named 'outcome_N'; there are reward_S"),
        ({"reads": ("columns:prm",)}, "no unit column named 'columns:prm'; there are .*column:NAME"),
        (
            {"function": lambda units, *, k=0: None, "reads_with": {"k": ("logps_S",)}},
            "no unit column named 'logps_S'; did you mean 'logp_S'",
        ),
        (
            {"function": lambda units, *, k=0: None, "reads_with": {"k": "logp_S"}},
            r"reads_with\['k'\] is the text 'logp_S'; give a tuple, \('logp_S',\)",
        ),
        ({"reads_with": ("logp_S",)}, r"reads_with is \('logp_S',\); give a dict from a parameter to a tuple"),
        ({"reads": ("column:",)}, "no unit column named 'column:'"),
        ({"holds": ("local_to_groups",)}, "no law named 'local_to_groups'; did you mean 'local_to_group'"),
        ({"unit": "stepp"}, "no unit named 'stepp'; did you mean 'step'"),
        ({"units": ("steps",)}, "is made for 'step' and accepts steps; add unit= or units="),
        ({"kind": "filter"}, "no kind named 'filter'; there are method, transform"),
        ({"needs": ("gpu",)}, "no resource named 'gpu'; there are policy, reference, reward_model, value_model, judge"),
        ({"needs": ("policy",)}, "a method that needs a resource has a plan, and only such a one"),
        ({"function": lambda: None}, r"a method is called with \(units\); take 'units'"),
        ({"function": lambda: None, "kind": "transform"}, r"a transform is called with \(credit\); take 'credit'"),
        ({"function": lambda units, gamma=0.9: None}, "parameter 'gamma' must be keyword-only; put a [*] before it"),
        ({"function": lambda units, **rest: None}, "parameter 'rest' must be keyword-only"),
        (
            {"plan": plan, "needs": ("policy",)},
            r"is called with \(units, answers\), because it has a plan; take 'answers'",
        ),
        (
            {"function": fold, "plan": lambda units, *, n: [], "needs": ("policy",)},
            "its plan takes 'n', which the method",
        ),
        (
            {"function": fold, "plan": lambda units, *, k=4: [], "needs": ("policy",)},
            "k is 3 in the method and 4 in its plan; leave the plan's default out",
        ),
        (
            {"function": fold, "plan": lambda units, answers, *, k: [], "needs": ("policy",)},
            "a plan that depends on answers, and only such a one, says the most it asks",
        ),
    ],
)
def test_a_slip_is_refused(changes, sentence):
    with pytest.raises(ConfigError, match=f"^tests/slip: .*{sentence}"):
        declare(**changes)


def test_what_is_right_is_taken():
    declare(reads=("column:prm", "outcome_parts:correct", "agent_S"), units=("step", "my_own_cut"))
    declare(fold, plan=lambda units, *, k=3: [], needs=("policy",))
    declare(lambda units, *, k=0: outcome(units), reads_with={"k": ("column:prm", "logp_S")})


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (None, "its plan returned a NoneType; return a list of asks"),
        (Continue(Place(0, 0, 0), 2), "its plan returned a Continue; return a list of asks"),
        ("go on", "its plan returned a str"),
        ((entry for entry in ()), "its plan returned a generator"),
        ([(0, 0, 0)], "its plan lists a tuple; list asks of apportion.asks: Continue, Score"),
    ],
)
def test_a_plan_lists_asks(asked, sentence):
    declare(fold, plan=lambda units: asked, needs=("policy",))
    ask = Asker(Table(lambda request: None, kinds=["continue"], identity="none"))
    with pytest.raises(ConfigError, match=f"^tests/slip: {sentence}"):
        assign("tests/slip", random_units(0), ask=ask)


def test_credit_that_is_none_says_whose_it_is():
    declare(lambda units: Credit(np.full(len(units), np.nan), units))
    with pytest.raises(DataError, match=r"^tests/slip: credit of unit 0 is nan; give a finite number"):
        assign("grpo + tests/slip", random_units(0, "step"))
