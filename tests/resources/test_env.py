"""Continuations in environments: restored, compared, played on, with every way of being wrong named."""

import dataclasses
import re

import numpy as np
import pytest

from apportion.asks import Continue, Place
from apportion.assign import assign
from apportion.bench.exact import exact, uniform
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory
from apportion.envs import make
from apportion.errors import ConfigError, EnvError, ResourceError
from apportion.resources import (
    Asker,
    Budget,
    EnvResource,
    FunctionPolicy,
    Refusal,
    Request,
    Retry,
    TextAgent,
    Trouble,
    branch,
)
from apportion.resources.sampling import Sampled
from apportion.units import by_step

OPTIONS = {"horizon": 6, "budget": 2}


def anything(observation, actions, rng):
    return actions[int(rng.integers(len(actions)))]


DRAWS = 27
"""Of a rollout that begins with two actions of two words."""
UNIFORM = FunctionPolicy(anything, identity="uniform")


def play(name="crafttree", options=OPTIONS, seed=0, noise_seed=None, draws=0, steps=99, made=make, **fields):
    """A rollout of the uniform policy, with what is needed to come back to it."""
    env, rng = made(name, **options), np.random.default_rng(draws)
    text, _ = env.reset(seed=seed, options=None if noise_seed is None else {"noise_seed": noise_seed})
    out, over = [], False
    while not over and len(out) < steps:
        action = anything(text, env.actions(), rng)
        key, before = env.state_key(by="state"), text
        text, reward, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        out.append(
            Step(
                observation=before, action=action, reward=reward, state=key, terminated=terminated, truncated=truncated
            )
        )
    meta = {"env": name, "env_options": dict(options), "seed": seed}
    meta |= {} if noise_seed is None else {"noise_seed": noise_seed}
    return Trajectory(out, group=f"{name}/{seed}", final_observation=text, meta=meta, **fields)


def ask_one(asked, rollout, resource=None, **options):
    (answer,) = Asker(resource or EnvResource(make, UNIFORM), **options)([asked], [rollout])
    return answer


@pytest.mark.parametrize("step", [0, 1, 4])
def test_the_mean_continuation_has_the_exact_value(step):
    rollout = play(draws=DRAWS)
    table = task("crafttree", **OPTIONS).table
    truth = exact(table, uniform(table))
    answer = ask_one(Continue(Place(0, step), 400), rollout)
    totals = np.array([c.total() for c in answer.samples])
    env = make("crafttree", **OPTIONS)
    env.reset(seed=0)
    for s in range(step):
        env.step(rollout.steps[s].action)
    want = truth.value_HX[step, table.index[env.state]]
    assert abs(totals.mean() - want) <= 4 * totals.std() / 20 + 1e-12
    assert all(c.finished and c.scored for c in answer.samples)
    assert answer.samples[0].moves[0].observation == ""
    assert all(m.state is not None and m.actions for m in answer.samples[0].moves)
    lengths = {len(c.moves) for c in answer.samples}
    assert max(lengths) == OPTIONS["horizon"] - step


def test_an_action_of_the_rollout_or_another_is_carried_out_first():
    rollout = play(draws=DRAWS)
    size = len(rollout.steps[0].action.split())
    behind = ask_one(Continue(Place(0, 0, size), 5), rollout)
    assert {c.moves[0].action for c in behind.samples} == {""}
    assert {c.moves[1].observation for c in behind.samples} == {rollout.steps[1].observation}
    other = ask_one(Continue(Place(0, 0), 5, first="wait", whole=True), rollout)
    assert {c.moves[1].observation for c in other.samples} == {rollout.steps[0].observation}
    nonsense = ask_one(Continue(Place(0, 0), 2, first="fly", whole=True), rollout)  # costs a step, as in the game
    assert {len(c.moves) for c in nonsense.samples} <= {2, 3, 4, 5, 6}


def test_the_end_of_a_rollout_is_its_own_reward():
    rollout = play(draws=DRAWS)
    last = len(rollout.steps) - 1
    size = len(rollout.steps[last].action.split())
    answer = ask_one(Continue(Place(0, last, size), 1), rollout)
    (only,) = answer.one.moves
    assert (only.reward, only.terminated, only.truncated) == (
        rollout.steps[last].reward, rollout.steps[last].terminated, rollout.steps[last].truncated,
    )  # fmt: skip


def test_equal_seeds_play_alike_alone_and_side_by_side():
    rollout = play(draws=DRAWS)
    asks = [Continue(Place(0, s), 3) for s in range(4)]
    wide = Asker(EnvResource(make, UNIFORM, batch=64))(asks, [rollout])
    narrow = Asker(EnvResource(make, UNIFORM, batch=1))(asks[::-1], [rollout])[::-1]
    one = Asker(EnvResource(make("crafttree", **OPTIONS), UNIFORM))(asks, [rollout])
    assert [a.samples for a in wide] == [a.samples for a in narrow] == [a.samples for a in one]
    assert Asker(EnvResource(make, UNIFORM), seed=1)(asks, [rollout])[0].samples != wide[0].samples


def test_snapshots_spare_replays_and_change_nothing():
    calls = []

    class Counting(type(make("crafttree", **OPTIONS))):
        def step(self, action):
            calls.append(action)
            return super().step(action)

    def counting(name, **options):
        plain = make(name, **options)
        return Counting(plain.spec, plain.rules)

    rollout = play(draws=DRAWS)
    resource = EnvResource(counting, UNIFORM)
    first = ask_one(Continue(Place(0, 4), 1), rollout, resource)
    played = len(calls) - len(first.one.moves)
    assert played == 4
    calls.clear()
    second = ask_one(Continue(Place(0, 4), 1), rollout, resource, seed=5)
    assert len(calls) == len(second.one.moves)  # nothing was replayed
    calls.clear()
    third = ask_one(Continue(Place(0, 5), 1), rollout, resource)
    assert len(calls) - len(third.one.moves) == 1  # one step beyond what was known
    assert third.samples == ask_one(Continue(Place(0, 5), 1), rollout).samples


def changed(rollout, s, **fields):
    steps = list(rollout.steps)
    steps[s] = dataclasses.replace(steps[s], **fields)
    return dataclasses.replace(rollout, steps=steps)


@pytest.mark.parametrize(
    ("rollout", "sentence"),
    [
        (
            changed(play(draws=DRAWS, id="a"), 2, state="elsewhere"),
            r"rollout 'a', step 2: the environment is not where "
            r"the rollout was: state expected 'elsewhere', found 'Goal:",
        ),
        (changed(play(draws=DRAWS), 2, state=None, observation="a cave"), "step 2: .* observation expected 'a cave'"),
        (changed(play(draws=DRAWS), 0, action="get coal"), "the rollout, step 1: the environment is not where"),
        (changed(play(draws=DRAWS), 1, state=None, observation=None), "step 1 has neither state nor observation, so"),
        (play(draws=DRAWS, seed=0, options={"horizon": 2, "budget": 2}, steps=2), None),
    ],
)
def test_another_state_is_refused_and_named(rollout, sentence):
    if sentence is None:  # a rollout that claims to be longer than its environment allows
        rollout = dataclasses.replace(rollout, steps=[*rollout.steps[:1], changed(rollout, 1, truncated=False).steps[1],
                                                      dataclasses.replace(play(draws=DRAWS).steps[2])])  # fmt: skip
        sentence = "played again, the environment ended before step 2, where the rollout went on"
    answer = ask_one(Continue(Place(0, 2), 2), rollout)
    assert answer.samples == ()
    assert answer.failed == 2
    assert re.search(sentence, answer.reason), answer.reason


def test_the_observation_can_be_what_is_compared():
    rollout = changed(play(draws=DRAWS), 2, state="a key of my own")
    assert not ask_one(Continue(Place(0, 2), 1), rollout).samples
    resource = EnvResource(make, UNIFORM, compare="observation")
    assert ask_one(Continue(Place(0, 2), 1), rollout, resource).samples
    by_text = changed(play(draws=DRAWS), 2, state=play(draws=DRAWS).steps[2].observation)
    assert ask_one(Continue(Place(0, 2), 1), by_text).samples  # the key of what is seen is one too


NOISY = {"horizon": 6, "n": 1, "apples": 3, "noise": (0.0, 1.0)}


def test_noise_is_drawn_afresh_and_the_past_is_not():
    rollout = play("keydoor", NOISY, noise_seed=4, draws=1)

    def eater(observation, actions, rng):
        return "eat apple" if "eat apple" in actions else "leave room"

    resource = EnvResource(make, FunctionPolicy(eater, identity="eater"))
    answer = ask_one(Continue(Place(0), 60), rollout, resource)
    totals = [c.total() for c in answer.samples]
    assert np.mean(totals) == pytest.approx(1.5, abs=0.5)  # three apples of 0 or 1
    assert len(set(totals)) > 2
    assert len({c.moves[0].noise for c in answer.samples}) == 60
    calm = EnvResource(make, UNIFORM)
    assert ask_one(Continue(Place(0), 1), play(draws=DRAWS), calm).one.moves[0].noise is None
    # states that differ in earlier noise share no answers, the first state does
    other = play("keydoor", NOISY, noise_seed=5, draws=1)
    for s, same in ((0, True), (1, False)):
        contents = {resource.content(Request(Continue(Place(0, s), 1), r, 0, 0)) for r in (rollout, other)}
        assert (len(contents) == 1) is same


def test_a_branch_with_noise_of_its_own_is_found_again():
    class Hidden(type(make("keydoor", **NOISY))):
        """The state tells what the apples paid."""

        def _state(self):
            return f"{self.state} {getattr(self, 'paid', None)}"

        def _start(self, seed):
            super()._start(seed)
            self.paid = 0.0

        def _apply(self, action):
            reward, done, won = super()._apply(action)
            self.paid += reward
            return reward, done, won

        def _save(self):
            return None  # restored by replay

    def hidden(name, **options):
        plain = make(name, **options)
        return Hidden(plain.spec, plain.rules)

    def eater(observation, actions, rng):
        return "eat apple" if "eat apple" in actions else "leave room"

    resource = EnvResource(hidden, FunctionPolicy(eater, identity="eater"))
    rollout = play("keydoor", NOISY, noise_seed=4, draws=1, made=hidden)
    ask = Asker(resource)
    grown = branch(ask, Batch.from_trajectories([rollout]), [Place(0, 0)], k=6).trajectories[0]
    roots = [s for s, step in enumerate(grown.steps) if step.parent == -1]
    assert len(roots) == 6
    for s in roots:
        at = s + 4  # behind all the apples
        assert ask([Continue(Place(0, at), 1)], [grown])[0].samples, s
    wrong = [dataclasses.replace(s, extra={}) if s.extra else s for s in grown.steps]
    lost = [ask([Continue(Place(0, s + 4), 1)], [dataclasses.replace(grown, steps=wrong)])[0] for s in roots]
    assert not all(answer.samples for answer in lost)  # without the seeds somebody is elsewhere


def test_what_it_refuses_before_asking():
    rollout = play(draws=DRAWS, id="r")
    resource = EnvResource(make, UNIFORM)
    for asked, given, sentence in (
        (Continue(Place(0), 1, without=("planner",)), rollout, "agents cannot be left out of its past"),
        (
            Continue(Place(0), 1),
            dataclasses.replace(rollout, meta={}),
            "rollout 'r': meta has no 'seed', so its environ",
        ),
        (
            Continue(Place(0), 1),
            dataclasses.replace(rollout, meta={"seed": 1}),
            "rollout 'r': meta has no 'env', the name",
        ),
        (Continue(Place(0, 0, 1), 1), rollout, "is inside an action, and this policy chooses whole actions"),
        (Continue(Place(0, 0), 1, first="get"), rollout, "is inside an action, and this policy chooses whole actions"),
        (
            Continue(Place(0, 2), 1),
            changed(rollout, 1, action=None, ids=[3]),
            "step 1 has no action as text, so it cannot",
        ),
    ):
        with pytest.raises(ResourceError, match=sentence):
            Asker(resource)([asked], [given])
    for bad, sentence in (
        (lambda: EnvResource(make, anything), "env: function is no policy; wrap a function in FunctionPolicy"),
        (lambda: EnvResource(3, UNIFORM), "env: a int is neither an environment .reset, step"),
        (lambda: EnvResource(make, UNIFORM, compare="text"), "env: compare is 'text'; give 'state' or 'observation'"),
        (lambda: EnvResource(make, UNIFORM, batch=0), "env: batch=0, max_steps=None; give whole numbers from 1 on"),
        (
            lambda: Asker(EnvResource(lambda name, **o: 3, UNIFORM))([Continue(Place(0), 1)], [rollout]),
            "env: the function made a int, which is no text",
        ),
        (
            lambda: Asker(EnvResource(make, FunctionPolicy(lambda *a: 3, identity="x")))(
                [Continue(Place(0), 1)], [rollout]
            ),
            "the policy function gave a int; it returns the text of an action",
        ),
    ):
        with pytest.raises(ConfigError, match=sentence):
            bad()


def test_an_environment_that_breaks_is_tried_again_and_one_that_objects_is_not():
    kind = type(make("crafttree", **OPTIONS))
    falls = {"left": 2}

    class Shaky(kind):
        def step(self, action):
            if falls["left"]:
                falls["left"] -= 1
                raise OSError("the sandbox is gone")
            return super().step(action)

    class Stubborn(kind):
        def reset(self, **options):
            raise EnvError("no more games today")

    def of(cls):
        def built(name, **options):
            plain = make(name, **options)
            return cls(plain.spec, plain.rules)

        return EnvResource(built, UNIFORM)

    rollout, hasty = play(draws=DRAWS), Retry(attempts=3, first_wait=0.0, longest_wait=0.0)
    with pytest.raises(Trouble, match="the environment broke: OSError: the sandbox is gone"):
        raise of(Shaky).answer([Request(Continue(Place(0), 1), rollout, 0, 1)])[0]
    assert ask_one(Continue(Place(0), 1), rollout, of(Shaky), retry=hasty).samples
    answer = ask_one(Continue(Place(0), 1), rollout, of(Stubborn), retry=hasty)
    assert answer.reason == "the rollout, step 0: the environment cannot be brought there: no more games today"


def test_limits_leave_a_continuation_unfinished():
    rollout = play(draws=DRAWS)
    patient = EnvResource(make, FunctionPolicy(lambda o, a, rng: "wait", identity="wait"), max_steps=2)
    answer = ask_one(Continue(Place(0), 1), rollout, patient)
    assert (len(answer.one.moves), answer.one.finished) == (2, False)
    whole = EnvResource(make, FunctionPolicy(lambda o, a, rng: "wait", identity="wait"))
    assert ask_one(Continue(Place(0), 1), rollout, whole).one.finished  # the environment's own end is one
    short = ask_one(Continue(Place(0), 1, max_tokens=3), rollout, whole)
    assert (len(short.one.moves), short.one.finished) == (3, False)


def test_functions_see_the_history_where_they_want_to():
    seen = []

    def watcher(history, actions, rng):
        seen.append(history)
        return "wait"

    rollout = play(draws=DRAWS)
    resource = EnvResource(make, FunctionPolicy(watcher, identity="w", history=True), max_steps=1)
    ask_one(Continue(Place(0, 2), 1), rollout, resource)
    past = [text for step in rollout.steps[:2] for text in (step.observation, step.action)]
    assert seen == [(*past, rollout.steps[2].observation)]
    with pytest.raises(Refusal, match="a function knows actions as text, not as token ids"):
        resource.policy.text_of((1,), None)


class Speaker:
    """A sampler that answers with the last of the listed actions."""

    identity = "speaker"

    def __init__(self):
        self.prompts = []

    def sample(self, prompts):
        self.prompts += prompts
        return [
            Sampled("\n  " + p.messages[-1][1].splitlines()[-1] + "  \nbecause", generated_tokens=7) for p in prompts
        ]


def test_a_text_model_plays_through_a_chat():
    rollout, speaker = play(draws=DRAWS), Speaker()
    resource = EnvResource(make, TextAgent(speaker, max_tokens=20))
    ask = Asker(resource)
    (answer,) = ask([Continue(Place(0, 1), 2)], [rollout])
    assert {m.action for c in answer.samples for m in c.moves} == {"wait"}
    first = speaker.prompts[0].messages
    assert [role for role, _ in first] == ["user", "assistant", "user"]
    assert first[1][1] == rollout.steps[0].action
    assert "Answer with one of these actions:" in first[2][1]
    assert len({p.seed for p in speaker.prompts}) == len(speaker.prompts)
    steps = OPTIONS["horizon"] - 1
    assert answer.generated_tokens == 2 * steps * 7
    assert resource.load(Request(Continue(Place(0, 1), 1), rollout, 0, 0)).most_generated == steps * 20
    with pytest.raises(ConfigError, match="a int samples no text; give a policy such as OpenAIServer"):
        TextAgent(3)

    class Down(Speaker):
        def sample(self, prompts):
            return [Refusal("too long") for _ in prompts]

    assert ask_one(Continue(Place(0), 1), rollout, EnvResource(make, TextAgent(Down()))).reason == "too long"


def test_the_budget_holds_what_could_be_generated():
    rollout = play(draws=DRAWS)
    resource = EnvResource(make, TextAgent(Speaker(), max_tokens=20))
    budget = Budget(tokens=2 * 6 * 20)
    (answer,) = Asker(resource, budget=budget)([Continue(Place(0), 2)], [rollout])
    assert budget.used_tokens == answer.generated_tokens == 2 * 6 * 7


def test_vineppo_runs_on_it():
    batch = Batch.from_trajectories([play(draws=d) for d in range(3)])
    ask = Asker(EnvResource(make, UNIFORM))
    credit = assign("vineppo", by_step(batch), k=4, ask=ask)
    assert credit.known_S.all()
    assert credit.notes["asks"] == len(by_step(batch))
