"""Every method that asks, against somebody who counts: the price is what is asked then, and nobody else is asked.

Nobody is named here: a new method that asks is held to this by being registered.
"""

import functools
import itertools
import threading

import numpy as np
import pytest

from apportion.asks import KINDS, asked_of, samples_of, traj_of
from apportion.assign import assign, cost
from apportion.assign.cost import most_asked
from apportion.errors import BudgetError
from apportion.methods import get, names
from apportion.resources import Asker, BaseResource, Budget, JudgeResource, Load, Reply
from apportion.testing import levels_for, random_units
from apportion.testing.pretend import _sample
from apportion.testing.sample import recut, unscored

ASKING = [name for name in names("method") if get(name).plan is not None]
CUTS = [(name, level) for name in ASKING for level in levels_for(name)]
PROMPT, MOST = 7, 5


class Counting(BaseResource):
    """Answers everything by rule, at a price that it keeps count of by itself."""

    name, kinds, identity, batch, workers = "counting", frozenset(KINDS.values()), "counting", 3, 2

    def __init__(self):
        self.seen, self.prompt, self.generated, self.lock = [], 0, 0, threading.Lock()

    def load(self, request):
        return Load(self.size(request), MOST, MOST / 2)

    def size(self, request):
        """As many tokens as the content before the place says, so that no two prices are alike by chance."""
        return PROMPT + self.content(request)[0] % 11

    def answer(self, requests):
        out = []
        for request in requests:
            wrote = request.seed % (MOST + 1)
            with self.lock:
                self.seen.append((request.seed, request.number))
                self.prompt, self.generated = self.prompt + self.size(request), self.generated + wrote
            sample = _sample(request.ask, request.trajectory, np.random.default_rng(request.seed))
            out.append(Reply(sample, self.size(request), wrote))
        return out


@functools.lru_cache(maxsize=64)
def units_of(seed, level, name):
    columns = [read.removeprefix("column:") for read in get(name).reads if read.startswith("column:")]
    return random_units(seed, level, columns=columns)


def test_the_table_is_not_empty():
    assert len(ASKING) >= 17
    assert {read for name in ASKING for read in get(name).needs} >= {"policy", "reward_model", "judge", "reference"}


@pytest.mark.parametrize(("name", "level"), CUTS)
def test_the_price_is_what_is_counted_then(name, level):
    spec, asked = get(name), 0
    for seed in range(3):
        units, params = units_of(seed, level, name), dict(spec.example)
        there = Counting()
        ask = Asker(there, budget=Budget())
        price = cost(name, units, ask=ask, **params)
        alone = cost(name, units, **params)
        # a judge is shown text: two rollouts of the same words are one question to it, though their ids differ
        judge = Asker(JudgeResource(identity="a judge", decode=str))
        counted = cost(name, units, ask=judge, **params).requests if "judge" in spec.needs else price.requests
        assert (alone.requests, alone.asks) == (counted, price.asks), "nobody to ask, another number"
        assert there.seen == [], "a price was paid for"
        credit = assign(name, units, ask=ask, **params)
        told = (ask.summary.asked, ask.summary.prompt_tokens, ask.budget.used_requests)
        assert told == (len(there.seen), there.prompt, len(there.seen))
        assert len(set(there.seen)) == len(there.seen), "an equal question was asked twice"
        assert ask.budget.used_tokens == there.prompt + there.generated
        assert (credit.cost.requests, credit.notes["asks"]) == (_samples(spec, units), price.asks) or spec.adaptive
        if spec.adaptive:
            assert not price.exact
            assert len(there.seen) <= price.requests
            assert there.prompt <= price.prompt_tokens
        else:
            assert price.exact
            assert (len(there.seen), there.prompt) == (price.requests, price.prompt_tokens)
        assert there.generated <= price.generated_tokens == MOST * price.requests
        assert price.most_requests == price.requests
        again = cost(name, units, ask=ask, **params)
        assert spec.adaptive or (again.requests, again.cached) == (0, price.requests)
        same = assign(name, units, ask=ask, **params)
        assert np.array_equal(same.advantage_S, credit.advantage_S)
        assert len(there.seen) == ask.summary.asked, "asked again"
        asked += len(there.seen)
    assert asked > 0 or level != spec.unit, "the level that it is made for asks nothing on three batches"


def _samples(spec, units):
    """Samples of all asks, equal ones counted as often as they are wanted."""
    return sum(map(samples_of, most_asked(spec, units, spec.bind(dict(spec.example)))))


@pytest.mark.parametrize("name", ASKING)
def test_the_budget_holds_to_the_request(name):
    spec = get(name)
    units, params = units_of(1, spec.unit, name), dict(spec.example)
    price = cost(name, units, ask=Asker(Counting()), **params)
    tokens = price.prompt_tokens + price.generated_tokens
    for budget in (Budget(requests=price.requests - 1), Budget(tokens=tokens - 1)):
        there = Counting()
        with pytest.raises(BudgetError, match=f"{name} may need"):
            assign(name, units, ask=Asker(there, budget=budget), **params)
        assert there.seen == []
    enough = Counting()
    assign(name, units, ask=Asker(enough, budget=Budget(price.requests, tokens)), **params)
    assert 0 < len(enough.seen) <= price.requests
    half = Counting()
    partly = Budget(price.requests // 2, when_short="partial")
    credit = assign(name, units, ask=Asker(half, budget=partly), **params)
    assert len(half.seen) == partly.used_requests == price.requests // 2
    assert np.isfinite(credit.advantage_S).all()


@pytest.mark.parametrize("name", ASKING)
def test_nobody_is_asked_whom_it_does_not_name(name):
    spec = get(name)
    for seed, level in itertools.product(range(2), levels_for(name)):
        units = units_of(seed, level, name)
        asked = {asked_of(ask) for ask in most_asked(spec, units, spec.bind(dict(spec.example)))}
        assert asked <= set(spec.needs)


@pytest.mark.parametrize("name", ASKING)
def test_nobody_answers_and_nothing_is_known_of_what_was_asked(name):
    """No number comes out of silence: what hangs on an answer is unknown, and what is known does not hang on one."""
    spec = get(name)
    units, params = units_of(1, spec.unit, name), dict(spec.example)
    silent = Asker(Counting(), budget=Budget(requests=0, when_short="partial"))
    credit = assign(name, units, ask=silent, **params)
    assert credit.notes["failed_asks"] == _samples(spec, units)
    assert not np.asarray(credit.advantage_S)[~credit.known_S].any()
    heard = [assign(name, units, ask=Asker(Counting(), seed=seed), **params) for seed in (0, 1)]
    assert (heard[0].known_S & ~credit.known_S).any()
    moved = ~np.isclose(heard[0].advantage_S, heard[1].advantage_S, atol=1e-12)
    if "local_to_trajectory" in spec.holds:  # elsewhere the answers about others move what nobody was asked about
        assert not (moved & credit.known_S).any(), "known without an answer, and another number with one"


@pytest.mark.parametrize("name", ASKING)
def test_who_reads_no_reward_credits_rollouts_that_nobody_scored(name):
    """The score is that of whom it asks, so the recorded one makes no difference; who reads rewards knows nothing."""
    spec = get(name)
    units, params = units_of(2, spec.unit, name), dict(spec.example)
    bare = recut(units, map(unscored, units.batch.trajectories))
    if "reward_S" in spec.reads:
        kept = list(units.batch.trajectories)
        lost = next(n for n, valid in enumerate(units.batch.valid_N.tolist()) if valid)
        kept[lost] = unscored(kept[lost])
        one = recut(units, kept)
        credit = assign(name, one, ask=Asker(Counting()), **params)
        assert not credit.known_S[one.traj_of_S == lost].any()
        asked = most_asked(spec, one, spec.bind(params))
        assert lost not in {traj_of(ask) for ask in asked}, "an answer that no number hangs on was paid for"
    else:
        with_scores, without = (assign(name, u, ask=Asker(Counting()), **params) for u in (units, bare))
        assert np.array_equal(with_scores.advantage_S, without.advantage_S)
        assert np.array_equal(with_scores.known_S, without.known_S)
        assert without.known_S.any()
