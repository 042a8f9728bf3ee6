import itertools

import numpy as np
import pytest

from apportion.bench.agents import coalition_values, shapley_values, without
from apportion.bench.exact import exact, uniform
from apportion.bench.tasks import task
from apportion.errors import ConfigError
from tests.bench import brute


def test_a_coalition_is_worth_what_its_rollouts_pay_on_average():
    table = task("relay", legs=2).table
    pi = uniform(table)
    names, value_C = coalition_values(table, pi)
    assert names == ("planner", "worker")
    for c, value in enumerate(value_C):
        missing = tuple(n for m, n in enumerate(names) if not c >> m & 1)

        def prob(t, x, missing=missing):
            actions = table.rules.actions(x)
            if table.rules.agent(x) in missing:
                return [float(a == table.rules.absent(x)) for a in actions]
            return [1 / len(actions)] * len(actions)

        assert value == pytest.approx(brute.truth(table.rules, prob)[0], abs=1e-12)


def test_the_marginal_contributions_of_good_and_poor_agents():
    table = task("relay").table

    def always(plan, work):
        return {x: [float(a in (plan, work)) for a in table.rules.actions(x)] for x in table.states}

    # map and follow: 0.9 a leg together; a worker alone who follows, and a planner alone, get nothing
    assert shapley_values(table, always("send map", "follow")) == pytest.approx({"planner": 0.45, "worker": 0.45})
    # who improvises does 0.5 of the legs with a map and 0.4 without: the planner is worth half of the difference
    assert shapley_values(table, always("send map", "improvise")) == pytest.approx({"planner": 0.05, "worker": 0.45})
    # a worker who does nothing, and a planner who says nothing, are worth nothing
    assert shapley_values(table, always("say nothing", "improvise")) == pytest.approx({"planner": 0.0, "worker": 0.4})
    assert shapley_values(table, always("send map", "do nothing")) == pytest.approx({"planner": 0.0, "worker": 0.0})


def test_shapley_values_are_the_average_over_orders_and_survive_stamps():
    table, noisy = task("relay").table, task("relay-noisy").table
    names, value_C = coalition_values(table, uniform(table))
    for m, name in enumerate(names):
        gains = []
        for order in itertools.permutations(range(len(names))):
            before = sum(1 << k for k in order[: order.index(m)])
            gains.append(value_C[before | 1 << m] - value_C[before])
        assert shapley_values(table, uniform(table))[name] == pytest.approx(np.mean(gains))
    assert shapley_values(noisy, uniform(noisy)) == pytest.approx(shapley_values(table, uniform(table)))


def test_nobody_is_missing_from_the_whole():
    table = task("relay").table
    np.testing.assert_array_equal(without(table, uniform(table), ()), uniform(table))
    assert coalition_values(table, uniform(table))[1][-1] == pytest.approx(exact(table, uniform(table)).J)
    with pytest.raises(ConfigError, match="the game has no agents; give its rules agent"):
        coalition_values(task("ice").table, uniform(task("ice").table))
