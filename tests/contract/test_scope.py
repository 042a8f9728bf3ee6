"""What a method says of its scope is true, bit for bit: rollouts credited whole, and group by group.

The settings to try are those of the test of parameters; nobody is listed here.
"""

import functools

import numpy as np
import pytest

from apportion.assign import beyond_group
from apportion.credit import Credit
from apportion.errors import ApportionError, ConfigError
from apportion.methods import get, names, registry
from apportion.methods.registry import register
from apportion.testing.sample import recut
from apportion.testing.subject import plain_credit
from tests.contract.test_parameters import options, worlds

NAMES = [name for name in names() if not get(name).needs]


def settings(name):
    """The defaults, and every option of every parameter; of numbers a few."""
    yield {}
    for key in get(name).defaults:
        values = options(name, key)[0]
        numbers = [x for x in values if isinstance(x, int | float) and not isinstance(x, bool)]
        yield from ({key: value} for value in values if value not in numbers or value in numbers[:3])


def bits(credit, units, members):
    """Everything that a loss reads of some trajectories."""
    of_S = np.isin(credit.units.traj_of_S, members)
    arrays = [a[of_S] for a in (credit.advantage_S, credit.known_S, credit.train_S, *credit.parts.values())]
    if credit.train_T is not None:
        arrays.append(credit.train_T[np.isin(units.batch.traj_of_T, members)])
    return [array.tobytes() for array in arrays]


@functools.cache
def alone(name, world):
    """The units (or the credit) of each group by itself."""
    data = worlds(name)[world]
    units = data.units if isinstance(data, Credit) else data
    out = []
    for g in range(len(units.batch.group_names)):
        members = np.flatnonzero(units.group_of_N == g)
        few = recut(units, [units.batch.trajectories[n] for n in members])
        out.append((members, plain_credit(few) if isinstance(data, Credit) else few))
    return units, out


def differs(name, world, params):
    """Some group gets other bits beside the others; None where these units or parameters are refused."""
    spec = get(name)
    units, groups = alone(name, world)
    try:
        whole = spec.call(worlds(name)[world], **params)
    except ApportionError:
        return None
    for members, few in groups:
        try:
            part = spec.call(few, **params)
        except ApportionError:  # nobody of this group is scored
            if units.batch.scored_N[members].any():
                raise
            continue
        if bits(whole, units, members) != bits(part, part.units, np.arange(len(members))):
            return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_the_scope_of_a_method_is_what_it_says(name):
    spec = get(name)
    tried = 0
    for given in settings(name):
        params = {**spec.example, **given}
        seen = [differs(name, world, params) for world in range(len(worlds(name)))]
        if not spec.beyond_group(params):
            assert True not in seen, f"{name} with {given} looks beyond the group; declare scope or wide"
        elif not given or next(iter(given)) in spec.wide:
            assert True in seen, f"{name} with {given} says that it looks beyond the group, and never does"
        tried += seen.count(True) + seen.count(False)
    assert tried


@pytest.fixture
def planting(monkeypatch):
    """What is registered here is forgotten again."""
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))


def test_a_method_that_looks_further_than_it_says_is_found(planting):
    @register("planted/wide", family="test", reads=("reward_S",), source="none", holds=("local_to_group",))
    def wide(units, *, share: bool = True):
        """Credit.

        share: over all.
        """
        return Credit(units.reward_S - (units.reward_S.mean() if share else 0.0), units)

    with pytest.raises(AssertionError, match="looks beyond the group; declare scope or wide"):
        test_the_scope_of_a_method_is_what_it_says("planted/wide")


def test_an_expression_looks_as_far_as_its_widest_name():
    assert beyond_group("grpo + 0.5*anchor | clip(limit=1)") == ""
    assert beyond_group("grpo | whiten") == "whiten"
    assert beyond_group("grpo(scale='batch') + anchor") == "grpo(scale='batch')"
    assert beyond_group("gigpo", {"scope": "batch"}) == "gigpo(scope='batch')"
    assert beyond_group("grpo | scale(by=2)") == ""
    assert beyond_group("grpo | scale(by='rms')") == "scale(by='rms')"


def test_wide_names_a_parameter(planting):
    with pytest.raises(ConfigError, match="wide names 'scoop', which the method does not take"):

        @register("planted/typo", family="test", source="none", wide={"scoop": ("batch",)})
        def typo(units):
            """Nothing."""

    with pytest.raises(ConfigError, match="reads_with names 'kl', which the method does not take"):

        @register("planted/typo", family="test", source="none", reads_with={"kl": ("logp_S",)})
        def typo_of_reads(units):
            """Nothing."""
