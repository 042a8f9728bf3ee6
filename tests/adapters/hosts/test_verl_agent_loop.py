"""Steps that an agent loop tells arrive in the rows that verl stores."""

import asyncio
import types

import pytest

from apportion.adapters.verl import CreditedLoop, StepLog
from apportion.errors import DataError
from tests.adapters.hosts.verl_hosts import PRESENT, WHY


def output(size, score=None):
    return types.SimpleNamespace(response_ids=[0] * size, reward_score=score, extra_fields={})


def test_a_loop_writes_its_steps_onto_its_output():
    class Loop(CreditedLoop):
        async def run(self, sampling_params):
            self.steps.add(0, 2, state="hall")
            self.steps.reward(0.25)
            await asyncio.sleep(0)
            self.steps.add(3, 4, state="cellar", reward=0.5, agent="cook", turn=1)
            self.steps.reward(0.25)
            return output(5)

    made = asyncio.run(Loop().run({}))
    assert made.extra_fields == {
        "steps": [[0, 2], [3, 4]],
        "step_rewards": [0.25, 0.75],
        "states": ["hall", "cellar"],
        "agents": [None, "cook"],
        "turns": [None, 1],
    }
    assert made.reward_score == 1.0


def test_rollouts_that_run_side_by_side_do_not_mix():
    class Loop(CreditedLoop):
        async def run(self, number):
            for k in range(3):
                self.steps.add(k, k + 1, state=f"{number}.{k}")
                await asyncio.sleep(0)
            return output(3, score=float(number))

    async def all_of_them():
        loop = Loop()  # also where one object serves them all
        return await asyncio.gather(*(loop.run(number) for number in range(5)))

    for number, made in enumerate(asyncio.run(all_of_them())):
        assert made.extra_fields["states"] == [f"{number}.{k}" for k in range(3)]
        assert "step_rewards" not in made.extra_fields
        assert made.reward_score == number


def test_a_subclass_shares_the_log_and_a_loop_inside_has_its_own():
    class Base(CreditedLoop):
        async def run(self):
            self.steps.add(0, 1, state="base")
            return output(3)

    class Helper(CreditedLoop):
        async def run(self):
            self.steps.add(0, 1, state="inner")
            return output(1)

    class Loop(Base):
        async def run(self):
            made = await super().run()
            self.inner = await Helper().run()
            self.steps.add(1, 2, state="own")
            return made

    loop = Loop()
    made = asyncio.run(loop.run())
    assert made.extra_fields["states"] == ["base", "own"]
    assert loop.inner.extra_fields["states"] == ["inner"]
    with pytest.raises(DataError, match=r"use it inside run\(\)"):
        _ = loop.steps


def test_several_outputs_and_a_length_limit():
    log = StepLog()
    log.add(0, 2, reward=0.0)
    log.next_output()
    log.add(0, 3)
    log.reward(0.5)
    log.add(4, 6, reward=0.5)
    rows = [output(2), output(5)]
    assert log.onto(rows) is rows
    assert rows[0].extra_fields == {"steps": [[0, 2]], "step_rewards": [0.0]}
    assert rows[1].extra_fields == {"steps": [[0, 3], [4, 5]], "step_rewards": [0.5, 0.5], "truncated": True}
    assert [row.reward_score for row in rows] == [None, 1.0]
    with pytest.raises(DataError, match=r"the loop returned 1 outputs and told the steps of 2; call next_output"):
        log.onto([output(2)])


def test_a_loop_that_tells_nothing_changes_nothing():
    made = output(3)
    assert StepLog().onto(made) is made
    assert made.extra_fields == {}
    with pytest.raises(DataError, match="a reward came before any step"):
        StepLog().reward(1.0)
    log = StepLog()
    log.add(0, 2)
    with pytest.raises(DataError, match=r"step 1 spans tokens 1 to 3, and the step before ended at 2"):
        log.add(1, 3)


@pytest.mark.skipif(not PRESENT, reason=WHY)
def test_what_verl_stores_of_it():
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

    class Loop(CreditedLoop, AgentLoopBase):
        def __init__(self): ...

        async def run(self, sampling_params, **row):
            self.steps.add(0, 2, state="hall", reward=0.5)
            return AgentLoopOutput(
                prompt_ids=[1], response_ids=[2, 3], response_mask=[1, 1], metrics=AgentLoopMetrics()
            )

    stored = asyncio.run(Loop().run({})).as_dict()
    assert stored["extra_fields"]["steps"] == [[0, 2]]
    assert stored["extra_fields"]["states"] == ["hall"]
    assert stored["rm_scores"].tolist() == [0.0, 0.5]
