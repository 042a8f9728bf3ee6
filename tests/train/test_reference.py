"""What is hidden from the policy stands beside its rollouts, for whoever may see it at training time."""

from apportion.envs import make
from apportion.envs.colspec.wishes import behaviour
from apportion.train.rollout import Collector
from tests.train.make import small_policy


def test_rollouts_carry_what_was_wanted_and_no_prompt_tells_it():
    policy = small_policy(env="colspec")
    played = Collector("colspec", {}).collect(policy, range(6), rollouts=2)
    for rollout in played.trajectories:
        env = make("colspec")
        env.reset(seed=rollout.meta["seed"])
        assert rollout.reference == env.wish.program(env.hidden)
        for step in rollout.steps:
            assert rollout.reference not in step.observation
            assert rollout.reference not in policy.tokenizer.decode(step.prompt_ids)
        last = rollout.steps[-1].action
        if last.startswith("write "):
            same = behaviour(last.removeprefix("write ")) == behaviour(rollout.reference)
            assert rollout.meta["success"] == same


def test_an_environment_that_hides_nothing_has_no_reference():
    played = Collector("crafttree", {}).collect(small_policy(), range(1))
    assert played.trajectories[0].reference is None
