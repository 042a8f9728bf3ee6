"""Asking one resource when things go wrong: nothing is lost, nobody is hammered, what is spent is known."""

import itertools
import os
import sys
import threading
import time
from collections import Counter

import pytest

from apportion.asks import Place, Value
from apportion.errors import ResourceError
from apportion.resources import OVER_BUDGET, Asker, BaseResource, Budget, Cache, Load, Reply, Retry, Table, Trouble
from tests.resources.test_runner import ASKS, HASTY, draw, rollouts, values


class Scripted(BaseResource):
    """Answers by a function of the request and of how often it was asked before."""

    name, kinds, identity = "scripted", frozenset(["value"]), "scripted"

    def __init__(self, function, workers=1, batch=1, load=None):
        self.function, self.workers, self.batch = function, workers, batch
        self.asked, self.times, self.lock = Counter(), [], threading.Lock()
        self.price = load if load is not None else Load()
        self.checked = self.priced = 0

    def check(self, request):
        self.checked += 1
        return ""

    def load(self, request):
        self.priced += 1
        return self.price

    def answer(self, requests):
        out = []
        for request in requests:
            with self.lock:
                before = self.asked[request.seed]
                self.asked[request.seed] += 1
                self.times.append(time.monotonic())
            out.append(self.function(request, before))
        return out


def test_answers_that_came_together_with_an_error_are_stored(tmp_path):
    together = threading.Barrier(4)

    def function(request, before):
        together.wait(5)
        if request.ask.at.step == 2 and request.ask.at.traj == 0:
            time.sleep(0.05)  # the error comes in among answers, and before some
            raise ResourceError("the key was taken away; set another")
        time.sleep(0.1 * (request.ask.at.traj == 1))
        return Reply(draw(request))

    made = Scripted(function, workers=4)
    with Asker(made, cache=tmp_path / "c") as ask, pytest.raises(ResourceError, match="the key was taken away"):
        ask(ASKS[:4], rollouts(6))
    assert len(Cache(tmp_path / "c")) == 3


def test_a_stop_between_two_answers_of_one_batch_loses_neither(tmp_path, monkeypatch):
    made = Scripted(lambda request, before: Reply(draw(request)), batch=6)
    cache = Cache(tmp_path / "c")
    put, count = cache.put, Counter()

    def stopped(kind, key, reply):
        count["puts"] += 1
        if count["puts"] == 3:
            raise KeyboardInterrupt
        return put(kind, key, reply)

    monkeypatch.setattr(cache, "put", stopped)
    with pytest.raises(KeyboardInterrupt):
        Asker(made, cache=cache)(ASKS[:6], rollouts(6))
    assert len(cache) == 6


def test_a_server_that_wants_silence_gets_it():
    def function(request, before):
        if before == 0 and request.ask.at == Place(0, 0):
            return Trouble("429", wait=0.4)
        time.sleep(0.02)  # as a server would; in no time, others could be through before the one thread tells its own
        return Reply(draw(request))

    made = Scripted(function, workers=2)
    ask = Asker(made, retry=HASTY)
    assert None not in values(ask(ASKS, rollouts(6)))
    times = sorted(made.times)
    assert sum(t < times[0] + 0.39 for t in times) <= 3  # what was out already, and nothing else


def test_a_storm_is_waited_out_before_anything_new_is_asked():
    over = threading.Event()

    def function(request, before):
        return Reply(draw(request)) if over.is_set() else Trouble("503")

    made = Scripted(function, workers=3)
    threading.Timer(0.3, over.set).start()
    ask = Asker(made, retry=Retry(attempts=50, first_wait=0.02, longest_wait=0.05))
    assert None not in values(ask(ASKS, rollouts(6)))
    tried = [n for n in made.asked.values() if n > 1]
    assert len(tried) <= 2 * made.workers  # not all 18 met the storm
    assert ask.summary.retried == sum(made.asked.values()) - 18


def test_a_dead_server_is_left_after_as_few_tries_as_the_rule_says():
    made = Scripted(lambda request, before: Trouble("connection refused"), workers=4)
    ask = Asker(made, retry=Retry(attempts=3, first_wait=0.01, longest_wait=0.01, give_up=2))
    answers = ask(ASKS, rollouts(6))
    assert max(made.asked.values()) == 3
    assert len(made.asked) <= 8
    assert all(a.failed == 1 and a.one is None for a in answers)
    assert sum(ask.summary.failed.values()) == 18


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("limit", [14, 15, 27, 100, 216, 300])
def test_a_partial_budget_buys_all_that_it_can_in_the_order_of_the_plan(limit, workers):
    made = Scripted(lambda r, before: Reply(draw(r), 10, 2), workers=workers, load=Load(10, 5, 2.0))
    ask = Asker(made, budget=Budget(tokens=limit, when_short="partial"))
    answers = ask(ASKS, rollouts(6))
    fits = max([0, *(n for n in range(1, 19) if 12 * (n - 1) + 15 <= limit)])
    assert [a.one is not None for a in answers] == [True] * fits + [False] * (18 - fits)
    assert ask.budget.used_tokens == 12 * fits <= limit
    assert ask.summary.failed == ({OVER_BUDGET: 18 - fits} if fits < 18 else {})


def test_one_sample_of_an_ask_is_checked_and_priced_for_all():
    made = Scripted(lambda request, before: Reply(draw(request)))
    made.kinds = frozenset(["continue"])
    from apportion.asks import Continue

    with pytest.raises(ResourceError, match="was not answered"):
        _want(Asker(made)([Continue(Place(0), 5)], rollouts(1)))
    assert (made.checked, made.priced) == (1, 1)


def _want(answers):
    if answers[0].failed:
        raise ResourceError(f"was not answered: {answers[0].reason}")


def test_what_was_odd_about_answers_is_counted_and_not_stored(tmp_path):
    made = Table(lambda r: Reply(draw(r), note="the server miscounts"), kinds=["value"], identity="t")
    with Asker(made, cache=tmp_path / "c") as ask:
        ask(ASKS, rollouts(6))
        assert ask.summary.notes == {"the server miscounts": 18}
        assert "18 answers: the server miscounts" in ask.summary.lines()
        assert ask.summary.to_dict()["notes"] == {"the server miscounts": 18}
    with Asker(made, cache=tmp_path / "c") as ask:
        ask([Value(Place(0, 0))], rollouts(6))
        assert ask.summary.notes == {}


class Interrupting:
    """Raises one Ctrl-C at the n-th line that the asking thread runs in the room's files."""

    FILES = ("drain.py", "workers.py")

    def __init__(self, at):
        self.at, self.lines, self.raised = at, 0, False

    def __call__(self, frame, event, argument):
        if os.path.basename(frame.f_code.co_filename) not in self.FILES:
            return None
        if event == "line" and not self.raised:
            self.lines += 1
            if self.lines > self.at:
                self.raised = True
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("batch", [1, 2])
def test_ctrl_c_at_any_line_loses_no_answer_that_was_given(batch):
    asks = [Value(Place(0, s)) for s in range(3)]
    for line in itertools.count():
        given = []
        resource = Table(
            lambda request, given=given: given.append(request) or 0.5, kinds=("value",), identity="t", workers=2
        )
        resource.batch = batch
        ask, interrupting = Asker(resource, cache=Cache()), Interrupting(line)
        sys.settrace(interrupting)
        try:
            ask(asks, rollouts(1))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert len(ask.cache) == len(given), f"at line event {line}"
        if not interrupting.raised:
            break
    assert line > 40
