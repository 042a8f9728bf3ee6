"""The trained policy plays on as it rolled out: same prompts, same distribution, any beginning of an action."""

import dataclasses

import numpy as np
import pytest
import torch

from apportion.asks import Continue, Place
from apportion.assign import assign
from apportion.data import Batch
from apportion.envs import make
from apportion.resources import Asker, EnvResource, Refusal, Request, branch, fork
from apportion.train.examples import Examples
from apportion.train.player import TrainedPolicy, digest_of
from apportion.train.policy import Policy
from apportion.train.rollout import Collector
from apportion.units import by_step
from tests.train.make import small_policy

GAME = {"horizon": 5, "budget": 2}


def rolled(window=0, rollouts=3, options=GAME, env="crafttree", **changes):
    policy = small_policy(window, env=env, env_options=options, **changes)
    collector = Collector(env, options)
    return policy, collector.collect(policy, [0], rollouts=rollouts).trajectories


def test_rollouts_tell_how_their_environment_is_started_again():
    _, (first, *_) = rolled()
    assert first.meta["env_options"] == GAME
    assert "noise_seed" not in first.meta
    noisy = {"horizon": 5, "n": 1, "apples": 1}
    _, (_, second, *_) = rolled(env="keydoor", options=noisy)
    assert (second.meta["noise_seed"], second.meta["seed"]) == (1, 0)


@pytest.mark.parametrize("window", [0, 1, None])
def test_every_state_of_a_rollout_is_reached_and_played_from(window):
    policy, rollouts = rolled(window)
    ask = Asker(EnvResource(make, TrainedPolicy(policy)))
    places = [Place(n, s) for n, t in enumerate(rollouts) for s in range(len(t.steps))]
    for answer in ask([Continue(p, 2) for p in places], rollouts):
        assert not answer.failed, answer.reason
        move = answer.samples[0].moves[0]
        assert move.ids
        assert move.action in move.actions
        assert len(move.logp) == len(move.ids)
        assert answer.generated_tokens == sum(len(m.ids) for c in answer.samples for m in c.moves)


@pytest.mark.parametrize("window", [0, None])
def test_its_log_probabilities_are_the_models_and_its_choices_follow_them(window):
    policy, (rollout, *_) = rolled(window, rollouts=1)
    ask = Asker(EnvResource(make, TrainedPolicy(policy)))
    (answer,) = ask([Continue(Place(0, 1), 400)], [rollout])
    context = [int(i) for s in ([1] if window == 0 else [0, 1]) for i in rollout.steps[s].prompt_ids]
    if window is None:
        context = [*rollout.steps[0].prompt_ids, *rollout.steps[0].ids, *rollout.steps[1].prompt_ids]
    actions = rollout.steps[1].actions
    choices = policy.choices(actions)
    with torch.no_grad():
        rows = policy.log_probs(policy.logits([list(map(int, context))]), [choices.allowed(())])[0]
    counts = {}
    for sample in answer.samples:
        move = sample.moves[0]
        assert move.logp[0] == pytest.approx(float(rows[move.ids[0]]), abs=1e-4)
        counts[move.ids[0]] = counts.get(move.ids[0], 0) + 1
    for token, count in counts.items():
        p = float(rows[token].exp())
        assert abs(count / 400 - p) < 4 * np.sqrt(p * (1 - p) / 400) + 1e-3


def test_an_action_can_be_begun():
    letters = small_policy(0, env="crafttree", env_options=GAME, actions="text")
    policy = Policy(letters.model, letters.tokenizer, window=0)  # whose vocabulary has no whole actions
    rollouts = Collector("crafttree", GAME).collect(policy, [0], rollouts=3).trajectories
    ask = Asker(EnvResource(make, TrainedPolicy(policy)))
    n, s = next((n, s) for n, t in enumerate(rollouts) for s, step in enumerate(t.steps) if len(step.ids) > 2)
    ids, actions = tuple(int(i) for i in rollouts[n].steps[s].ids), rollouts[n].steps[s].actions
    (answer,) = ask([Continue(Place(n, s, 2), 8)], rollouts)
    for sample in answer.samples:
        first = sample.moves[0]
        assert (*ids[:2], *first.ids) in policy.choices(actions).ids
        assert policy.tokenizer.decode(first.ids).strip() == first.action
    (whole,) = ask([Continue(Place(n, s), 1, first=ids, whole=True)], rollouts)
    (done,) = ask([Continue(Place(n, s), 1, first=ids)], rollouts)  # begun to its end: nothing is left to choose
    assert whole.one.moves[0].ids == done.one.moves[0].ids == ()
    for one in (whole.one, done.one):
        if s + 1 < len(rollouts[n].steps):
            assert one.moves[1].observation == rollouts[n].steps[s + 1].observation
    (failed,) = ask([Continue(Place(n, s), 1, first=(policy.prompts.stop_id,))], rollouts)
    assert "no admissible action begins with the tokens" in failed.reason


def test_free_text_is_finished_within_its_limit():
    policy = small_policy(0, env="tests/copy", env_options={}, actions="text", max_action_tokens=4)
    rollouts = Collector("tests/copy", {}).collect(policy, [0], rollouts=2).trajectories
    ask = Asker(EnvResource(make, TrainedPolicy(policy)))
    begun = tuple(int(i) for i in rollouts[0].steps[0].ids[:2])
    (answer,) = ask([Continue(Place(0), 20, first=begun)], rollouts)
    assert not answer.failed, answer.reason
    assert max(len(c.moves[0].ids) for c in answer.samples) <= 4 - len(begun)
    (text,) = ask([Continue(Place(0), 1, first="ab")], rollouts)
    assert text.reason == "this policy continues token ids; give the beginning of the action as ids"


def test_another_prompt_than_the_rollouts_is_refused():
    policy, (rollout, *_) = rolled(rollouts=1)
    steps = list(rollout.steps)
    steps[1] = dataclasses.replace(steps[1], prompt_ids=[1, 2, 3])
    wrong = dataclasses.replace(rollout, steps=steps)
    (answer,) = Asker(EnvResource(make, TrainedPolicy(policy)))([Continue(Place(0, 1), 1)], [wrong])
    assert answer.reason.startswith(
        "the policy's prompt at this step is not the one that the rollout was sampled under"
    )


def test_the_identity_follows_the_weights():
    policy, _ = rolled(rollouts=1)
    before = TrainedPolicy(policy).identity
    assert TrainedPolicy(policy).identity == before
    with torch.no_grad():
        next(policy.model.parameters()).add_(0.01)
    assert TrainedPolicy(policy).identity != before
    assert TrainedPolicy(policy, identity="mine").identity.startswith("trained:mine:")
    assert len(digest_of(policy)) == 24


def test_the_budget_is_reserved_for_the_longest_play():
    policy, (rollout, *_) = rolled(rollouts=1)
    resource = EnvResource(make, TrainedPolicy(policy))
    load = resource.load(Request(Continue(Place(0, 2), 1), rollout, 0, 0))
    assert load.most_generated == (GAME["horizon"] - 2) * 32
    assert load.prompt_tokens == len(rollout.steps[2].prompt_ids)
    tight = Asker(EnvResource(make, TrainedPolicy(policy, most_tokens=1)))
    got = tight([Continue(Place(0), 20)], [rollout])[0]
    assert got.samples or "more than most_tokens=1; raise it" in got.reason
    with pytest.raises(Refusal, match="are none of the admissible actions"):
        TrainedPolicy(policy).text_of((0, 0, 0), ("wait",))


@pytest.mark.parametrize("window", [0, None])
def test_branches_are_trained_under_their_own_context(window):
    policy, rollouts = rolled(window, rollouts=2)
    ask = Asker(EnvResource(make, TrainedPolicy(policy)))
    batch = Batch.from_trajectories(rollouts)
    for grown in (branch(ask, batch, [Place(0, 2), Place(1, 0)], k=2), fork(ask, batch, n=5)):
        units = by_step(grown)
        credit = assign("carl", units)
        examples = Examples.of(dataclasses.replace(credit, train_S=np.ones(len(units), bool)).to_tokens(), policy)
        assert len(examples.token_K) == grown.sampled_T.sum()
        with torch.no_grad():
            for k in range(len(examples.token_K)):
                row = examples.inputs[examples.seq_K[k]][: examples.at_K[k] + 1]
                logp = policy.log_probs(policy.logits([row]), [examples.allowed_K[k]])[0, examples.token_K[k]]
                assert float(logp) == pytest.approx(examples.old_logp_K[k], abs=1e-4)
