"""What the runner does with verdicts: scale and focus travel, refused work that was done stays spent."""

import pytest

from apportion.asks import Judge, Place, Value, Verdict
from apportion.data import Step, Trajectory
from apportion.errors import ConfigError
from apportion.resources import Asker, Budget, JudgeResource, Load, Refusal, Table, quote
from apportion.resources.quote import Ruler

ROLLOUT = Trajectory([Step(prompt_ids=[1] * 4, ids=[2, 3], reward=0.0) for _ in range(3)])
PLACES = (Place(0, 0), Place(0, 1), Place(0, 2))


def test_focus_is_part_of_the_question():
    seen = []
    table = Table(lambda r: (seen.append(r), Verdict((1.0, None, None)))[1], kinds=["judge"], identity="t")
    asks = [Judge(0, PLACES, "t"), *(Judge(0, PLACES, "t", focus=f) for f in range(3))]
    Asker(table)(asks, [ROLLOUT])
    assert len({request.seed for request in seen}) == 4


def test_focus_lies_among_the_units():
    with pytest.raises(ConfigError, match=r"Judge: focus is 3 of 3 units; they are counted from 0"):
        Judge(0, PLACES, "t", focus=3)


def test_a_focused_ask_is_priced_by_what_it_shows_and_by_nobody_as_by_a_judge():
    told = Trajectory([Step(observation="a door", action=f"knock {n}", reward=0.0) for n in range(3)])

    def price(who, focus):
        priced = quote([Judge(0, PLACES, "coach", focus=focus)], [told], [who])
        return priced.prompt_tokens, priced.generated_tokens

    nobody = [price(Ruler(), focus) for focus in (0, 1, 2, None)]
    assert nobody[0] < nobody[1] < nobody[2]  # each shows one step more
    assert nobody == [price(JudgeResource(identity="a judge"), focus) for focus in (0, 1, 2, None)]


@pytest.mark.parametrize(("spent", "used"), [(False, 30), (True, 50)])
def test_refused_work_that_was_done_stays_spent(spent, used):
    def refuse(request):
        raise Refusal("no verdict", spent=spent)

    table = Table(refuse, kinds=["value"], identity="t")
    table.load = lambda request: Load(30, 20)
    budget = Budget(tokens=100)
    (answer,) = Asker(table, budget=budget)([Value(PLACES[0])], [ROLLOUT])
    assert (answer.samples, answer.reason) == ((), "no verdict")
    assert budget.used_tokens == used
