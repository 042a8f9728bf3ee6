"""The runner: what is asked, how often, in which order, and what happens when something fails."""

import itertools
import random
import threading
import time

import pytest

from apportion.asks import Continue, Judge, Place, Score, Value, Verdict
from apportion.data import Step, Trajectory
from apportion.errors import BudgetError, ConfigError, ResourceError
from apportion.resources import (
    OVER_BUDGET,
    Asker,
    BaseResource,
    Budget,
    Cache,
    Load,
    Refusal,
    Reply,
    Retry,
    Table,
    Trouble,
)

HASTY = Retry(attempts=4, first_wait=0.0, longest_wait=0.0, give_up=8)


def rollouts(count, steps=3):
    return [
        Trajectory([Step(prompt_ids=[n, s], ids=[s, s + 1], reward=0.0) for s in range(steps)], group=f"g{n}")
        for n in range(count)
    ]


def draw(request):
    """A value that depends on the request's seed only."""
    return random.Random(request.seed).random()


def table(function=draw, *, kinds=("value", "score"), **options):
    return Table(function, kinds=kinds, identity="test", **options)


ASKS = [Value(Place(n, s)) for n in range(6) for s in range(3)]


def values(answers):
    return [answer.one for answer in answers]


def test_answers_do_not_depend_on_order_or_concurrency_or_batching():
    want = values(Asker(table())(ASKS, rollouts(6)))
    assert len(set(want)) == len(ASKS)
    slow = table(lambda r: (time.sleep(random.random() / 200), draw(r))[1], workers=5)
    slow.batch = 4
    assert values(Asker(slow)(ASKS, rollouts(6))) == want
    backwards = values(Asker(table())(ASKS[::-1], rollouts(6)))
    assert backwards[::-1] == want
    assert values(Asker(table(), seed=1)(ASKS, rollouts(6))) != want


def test_what_another_ask_is_about_changes_no_answer():
    moved = [Value(Place(n + 1, s)) for n in range(5) for s in range(3)]
    first = rollouts(6)
    assert values(Asker(table())(moved, [first[5], *first[:5]])) == values(Asker(table())(ASKS, first))[:15]


def test_more_samples_begin_with_the_fewer():
    made = table(lambda r: Verdict((draw(r),)), kinds=["judge"])
    few = Asker(made)([Judge(0, (Place(0),), "t", votes=2)], rollouts(1))[0].samples
    many = Asker(made)([Judge(0, (Place(0),), "t", votes=5)], rollouts(1))[0].samples
    assert many[:2] == few
    assert len(set(many)) == 5


def test_equal_asks_are_asked_once_and_tags_tell_them_apart():
    made = table()
    asks = [Score(0), Score(0), Score(1), Score(0, tag="again")]
    answers = Asker(made)(asks, rollouts(2))
    assert made.calls == 3
    assert answers[0].one == answers[1].one != answers[3].one
    # the same rollout twice in the batch
    twice = rollouts(1) * 2
    made = table()
    Asker(made)([Score(0), Score(1)], twice)
    assert made.calls == 1


def test_trouble_is_tried_again_and_refusal_is_not():
    tries = itertools.count()
    flaky = table(lambda r: _raise(Trouble("429")) if next(tries) % 3 else draw(r))
    ask = Asker(flaky, retry=HASTY)
    assert None not in values(ask(ASKS, rollouts(6)))
    assert ask.summary.retried == flaky.calls - len(ASKS) > 0
    stubborn = table(lambda r: _raise(Refusal("no such state")))
    ask = Asker(stubborn, retry=HASTY)
    answers = ask(ASKS, rollouts(6))
    assert stubborn.calls == len(ASKS)
    assert {(a.one, a.failed, a.reason) for a in answers} == {(None, 1, "no such state")}
    assert ask.summary.failed == {"no such state": len(ASKS)}
    assert "18 without an answer" in " ".join(ask.summary.lines())


def test_a_server_that_died_is_not_asked_for_everything():
    dead = table(lambda r: _raise(Trouble("connection refused")))
    ask = Asker(dead, retry=Retry(attempts=2, first_wait=0, longest_wait=0, give_up=3))
    answers = ask(ASKS, rollouts(6))
    assert dead.calls < 2 * len(ASKS) / 2
    reasons = {a.reason for a in answers}
    assert "connection refused" in reasons
    assert "not asked: 3 requests in a row had failed (connection refused)" in reasons


def test_some_samples_of_an_ask_may_fail():
    made = table(lambda r: _raise(Refusal("x")) if r.number == 1 else Verdict((float(r.number),)), kinds=["judge"])
    (answer,) = Asker(made)([Judge(0, (Place(0),), "t", votes=3)], rollouts(1))
    assert [v.scores[0] for v in answer.samples] == [0.0, 2.0]
    assert answer.failed == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "5", None, [1.0], Verdict((1.0,))])
def test_what_is_no_answer_is_none(bad):
    answers = Asker(table(lambda r: bad))([Score(0)], rollouts(1))
    assert answers[0].one is None
    assert answers[0].reason.startswith("the answer cannot be used")


def test_a_mistake_in_a_resource_is_raised_and_earlier_answers_are_kept(tmp_path):
    count = itertools.count()
    broken = table(lambda r: _raise(ZeroDivisionError("mine")) if next(count) == 4 else draw(r))
    with Asker(broken, cache=tmp_path / "c") as ask, pytest.raises(ZeroDivisionError, match="mine"):
        ask(ASKS, rollouts(6))
    made = table()
    with Asker(made, cache=tmp_path / "c") as ask:
        ask(ASKS, rollouts(6))
    assert made.calls <= len(ASKS) - 4


class Priced(BaseResource):
    """Costs 10 prompt tokens and up to 5 generated; really 10 and 2."""

    name, kinds, identity = "priced", frozenset(["value"]), "priced"

    def __init__(self, workers=1, batch=1):
        self.calls, self.workers, self.batch = 0, workers, batch
        self.lock = threading.Lock()

    def load(self, request):
        return Load(10, 5, 2.0)

    def answer(self, requests):
        with self.lock:
            self.calls += len(requests)
        return [Reply(draw(r), 10, 2) for r in requests]


def test_a_budget_refuses_before_the_first_call():
    priced = Priced()
    with pytest.raises(
        BudgetError, match=r"this run may need 18 requests where the budget is 17, so nothing was asked"
    ):
        Asker(priced, budget=Budget(requests=17))(ASKS, rollouts(6))
    with pytest.raises(BudgetError, match=r"may need 270 tokens where the budget is 269"):
        Asker(priced, budget=Budget(tokens=269))(ASKS, rollouts(6))
    assert priced.calls == 0
    ask = Asker(priced, budget=Budget(requests=18, tokens=270))
    ask(ASKS, rollouts(6))
    assert (priced.calls, ask.budget.used_requests, ask.budget.used_tokens) == (18, 18, 18 * 12)


def test_a_later_round_that_is_refused_does_not_say_that_nothing_was_asked():
    ask = Asker(Priced(), budget=Budget(requests=17))
    ask(ASKS[:1], rollouts(6))
    with pytest.raises(BudgetError, match=r"may need 18 requests .* 17, so no more was asked; raise") as refused:
        ask(ASKS, rollouts(6))
    assert "nothing was asked" not in str(refused.value)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_partial_budget_is_spent_to_the_request_and_never_over(workers):
    priced = Priced(workers, batch=3)
    ask = Asker(priced, budget=Budget(requests=7, when_short="partial"))
    answers = ask(ASKS, rollouts(6))
    assert priced.calls == 7
    assert [a.one is not None for a in answers] == [True] * 7 + [False] * 11
    assert answers[7].reason == OVER_BUDGET
    priced = Priced(workers)
    ask = Asker(priced, budget=Budget(tokens=100, when_short="partial"))
    ask(ASKS, rollouts(6))
    assert priced.calls == 8  # after seven that took 12 each, one of 15 at most still fits into 100
    assert ask.budget.used_tokens == 96


def test_tries_count_against_the_budget_too():
    flaky = table(lambda r: _raise(Trouble("503")))
    ask = Asker(flaky, budget=Budget(requests=20, when_short="partial"), retry=Retry(9, 0.0, 0.0, give_up=99))
    ask(ASKS, rollouts(6))
    assert flaky.calls == 20


def test_a_time_out_keeps_its_reservation():
    class Slow(Priced):
        def answer(self, requests):
            return [Trouble("timed out", spent=True) for _ in requests]

    ask = Asker(Slow(), budget=Budget(tokens=1000), retry=Retry(attempts=1, give_up=99))
    ask(ASKS[:3], rollouts(6))
    assert ask.budget.used_tokens == 45


def test_what_the_cache_holds_needs_no_budget(tmp_path):
    with Asker(Priced(), cache=tmp_path / "c") as ask:
        want = values(ask(ASKS, rollouts(6)))
    priced = Priced()
    with Asker(priced, cache=tmp_path / "c", budget=Budget(requests=0)) as ask:
        answers = ask(ASKS, rollouts(6))
    assert values(answers) == want
    assert (priced.calls, ask.summary.cached, ask.summary.asked) == (0, 18, 0)
    assert answers[0].prompt_tokens == 10  # what it cost when it was asked


def test_nobody_to_ask_and_nobody_who_can():
    with pytest.raises(ConfigError, match=r"nobody answers 'continue' \(table answers score, value\)"):
        Asker(table())([Continue(Place(0), 1)], rollouts(1))
    with pytest.raises(ConfigError, match="an Asker needs somebody to ask"):
        Asker()
    with pytest.raises(ConfigError, match="int is no resource"):
        Asker(3)

    class Choosy(Priced):
        def check(self, request):
            return "it cannot be continued there; restore the environment"

        def answer(self, requests):
            raise AssertionError

    with pytest.raises(ResourceError, match="this run: it cannot be continued there"):
        Asker(Choosy())(ASKS, rollouts(6))

    class Absent(Priced):
        def open(self):
            raise ResourceError("nobody listens at port 1; start the server")

    with pytest.raises(ResourceError, match="nobody listens"):
        Asker(Absent())(ASKS, rollouts(6))


def test_progress_counts_up_to_the_end():
    seen = []
    ask = Asker(table(workers=2), progress=seen.append)
    ask(ASKS, rollouts(6))
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert (seen[-1].done, seen[-1].total, seen[-1].failed) == (18, 18, 0)
    assert seen[-1].seconds_left == 0


def test_a_stop_keeps_the_answers_that_are_under_way(tmp_path):
    started = threading.Event()

    def slow(request):
        started.set()
        time.sleep(0.3)
        return draw(request)

    def stop(progress):
        if started.is_set():
            raise KeyboardInterrupt

    made = table(slow, workers=4)
    with Asker(made, cache=tmp_path / "c", progress=stop) as ask, pytest.raises(KeyboardInterrupt):
        ask(ASKS, rollouts(6))
    assert len(Cache(tmp_path / "c")) == made.calls == 4


def test_a_measured_speed_prices_the_next_run(tmp_path):
    with Asker(table(lambda r: (time.sleep(0.01), draw(r))[1]), cache=tmp_path / "c") as ask:
        ask(ASKS, rollouts(6))
        speed = ask.cache.speed(ask.resources[0].identity)
    assert speed.requests == 18
    assert 0.18 <= speed.seconds < 5


def _raise(problem):
    raise problem
