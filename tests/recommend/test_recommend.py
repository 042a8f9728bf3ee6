"""The guide on generated situations: every rule fires where it should and only there, and the data have a say."""

import json
from dataclasses import replace

import numpy as np
import pytest

import apportion as ap
from apportion.bench.check.world import every, rollouts, seen_as, step
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, FormatError
from apportion.grams import starter
from apportion.methods import get, names
from apportion.recommend import FACTS, RESOURCES, facts_of, guide
from apportion.recommend.guide import parsed
from apportion.units import CUTS, by_step
from tests.make import random_trajectories

GUIDE = guide()
RULES = {rule.id: rule for rule in GUIDE.rules}


def world(seed=0):
    """Agents in a small world: groups, recurring states, outcomes only."""
    return rollouts(np.random.default_rng(seed), groups=4, members=4)


def alone():
    """Nobody has a sibling, and nothing recurs."""
    return [replace(t, group=t.id) for t in world()]


def unlike():
    """Groups in which every later observation is seen once."""
    return [
        seen_as(t, [f"{s.observation} sign {n}-{k}" if k else s.observation for k, s in enumerate(t.steps)])
        for n, t in enumerate(world())
    ]


def answers(text="the first and then the second of them so it is", start=True):
    """One step each: a question and its answer; ``start`` gives each half of a group a common beginning."""
    rng, out = np.random.default_rng(1), []
    for g in range(4):
        for m in range(4):
            words = " ".join(f"w{k}" for k in rng.integers(0, 10_000, size=70))
            body = f"{'now' if m < 2 else 'well'} {text} {words}" if start else f"{words} {text}"
            out.append(
                Trajectory(
                    [step(f"question {g}", body, terminated=True)], group=f"q{g}", id=f"{g}/{m}", outcome=float(m % 2)
                )
            )
    return out


def numbers(name, value=-0.5):
    """The world with a number for every sampled token."""
    return [every(t, **{name: [[value] * len(s.ids) for s in t.steps]}) for t in world()]


def columns(name, **more):
    return [
        every(
            t,
            columns=[{name: [-0.5] * len(s.ids)} for s in t.steps],
            **{k: [[v] * len(s.ids) for s in t.steps] for k, v in more.items()},
        )
        for t in world()
    ]


def both(extra=None):
    return [
        every(t, logp=[[-1.0] * len(s.ids) for s in t.steps], ref_logp=[[-1.5] * len(s.ids) for s in t.steps])
        for t in (extra or world())
    ]


def two_agents(rewards=False):
    out = [every(t, agent=["planner" if k % 2 == 0 else "worker" for k in range(len(t.steps))]) for t in world()]
    return [every(t, rewards=[{"work": 0.5} for _ in t.steps]) for t in out] if rewards else out


def rewarded():
    return [replace(every(t, reward=[0.25] * len(t.steps)), outcome=None) for t in world()]


def forked():
    out = []
    for t in world():
        steps = [*t.steps[:2], replace(t.steps[1], parent=0, action="go elsewhere", ids=[7, 8])]
        out.append(replace(t, steps=tuple(replace(s, terminated=False) for s in steps)))
    return out


def cut_off():
    return [every(t, terminated=False, truncated=[False] * (len(t.steps) - 1) + [True]) for t in world()]


def known():
    return [replace(t, reference="the answer") for t in world()]


def planning():
    return answers(", ".join(starter().phrases[:5]))


SITUATIONS = {
    "agents-coalitions": (two_agents, ["reward_model"]),
    "agents-replay": (two_agents, ["policy", "environment"]),
    "agents-judge": (two_agents, ["judge"]),
    "agents-free": (two_agents, []),
    "agents-planner": (lambda: two_agents(rewards=True), []),
    "turn-rewards": (rewarded, []),
    "named-step-rewards": (lambda: two_agents(rewards=True), []),
    "several-outcomes": (lambda: [replace(t, outcomes={"right": 1.0, "short": 0.5}) for t in world()], []),
    "process-rewards": (rewarded, []),
    "regenerate-text": (answers, ["policy"]),
    "restart-environment": (world, ["policy", "environment"]),
    "forks": (forked, []),
    "choices": (forked, []),
    "shared-prefixes": (answers, []),
    "states-recur": (world, []),
    "gold-answer": (known, ["policy"]),
    "hindsight": (world, ["policy"]),
    "judge": (world, ["judge"]),
    "judge-with-answer": (known, ["judge"]),
    "privileged-critic": (known, ["training"]),
    "told-process": (lambda: [every(t, rewards=[{"prm": 0.5} for _ in t.steps]) for t in world()], []),
    "promises": (lambda: [every(t, rewards=[{"promise": 0.5} for _ in t.steps]) for t in world()], []),
    "told-critic": (lambda: [every(t, rewards=[{"advantage": 0.5} for _ in t.steps]) for t in world()], []),
    "told-utterances": (
        lambda: [every(t, rewards=[{"q": 0.5, "v": 0.25} for _ in t.steps]) for t in world()],
        [],
    ),
    "values": (lambda: [every(t, value=0.5) for t in world()], []),
    "token-values": (lambda: numbers("token_values"), []),
    "implicit-reward": (lambda: columns("prm_logp", logp=-1.0, ref_logp=-1.5), []),
    "sequence-reward-model": (answers, ["reward_model"]),
    "learned-critic": (world, ["training"]),
    "learned-implicit-reward": (world, ["training"]),
    "reference-logprobs": (both, []),
    "one-chain-strategy": (planning, []),
    "entropies": (lambda: numbers("entropy", 0.5), []),
    "surprisal": (lambda: numbers("logp"), []),
    "token-baseline": (lambda: columns("prob_square", logp=-1.0), []),
    "groups-only": (world, []),
    "no-groups": (alone, []),
    "reference-model": (answers, ["reference_model"]),
    "preference-tuned": (lambda: both([replace(t, outcome=None) for t in world()]), []),
    "cut-off": (cut_off, []),
}

NOT = {
    "states-recur": (unlike, []),
    "groups-only": (alone, []),
    "no-groups": (world, []),
    "hindsight": (world, []),
    "shared-prefixes": (lambda: answers(start=False), []),
    "judge-with-answer": (world, ["judge"]),
    "regenerate-text": (world, ["policy"]),  # agents: a text cannot go on without its environment
    "restart-environment": (world, ["policy"]),
    "one-chain-strategy": (lambda: answers("no such words"), []),
    "preference-tuned": (both, []),  # there are outcomes
}
"""Situations close by in which the rule does not fire; elsewhere the plain world, with nothing else at hand, is one."""


def advice(situation):
    build, have = situation
    return ap.recommend(Batch.from_trajectories(build()), have=have)


def facts(situation):
    build, have = situation
    return facts_of(by_step(Batch.from_trajectories(build())), have)


def test_every_rule_has_a_situation():
    assert set(SITUATIONS) == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_the_rule_fires_where_it_should_and_not_close_by(name):
    assert RULES[name].fires(facts(SITUATIONS[name]))
    assert not RULES[name].fires(facts(NOT.get(name, (world, []))))


@pytest.mark.parametrize("name", RULES)
def test_every_condition_of_the_rule_matters(name):
    """Each condition, broken alone, stops the rule."""
    rule, told = RULES[name], facts(SITUATIONS[name])
    for condition in rule.when:
        broken = {
            ">=": condition.number - 1e-9,
            ">": condition.number,
            "<": condition.number,
            "<=": condition.number + 1,
        }
        assert not rule.fires({**told, condition.fact: broken[condition.comparison]}), condition


@pytest.mark.parametrize("name", [rule.id for rule in GUIDE.rules if rule.methods])
def test_methods_of_a_rule_that_fires_fit_or_say_what_the_data_lack(name):
    rule, given = RULES[name], advice(SITUATIONS[name])
    for method in rule.methods:
        option = given.of(method)
        if not option.fits:
            assert "the data are not enough" in option.why, (method, option.why)
        elif option.rule == name:
            assert option.evidence == tuple(condition.told(given.facts) for condition in rule.when)
            assert (option.why, option.source, option.question) == (rule.why, rule.source, rule.question)
    assert any(given.of(method).fits for method in rule.methods), "a rule fires and nothing that it names fits"


@pytest.mark.parametrize("name", [rule.id for rule in GUIDE.rules if rule.methods])
def test_methods_of_a_rule_that_does_not_fire_say_why_not(name):
    rule, given = RULES[name], advice(NOT.get(name, (world, [])))
    for method in rule.methods:
        option = given.of(method)
        if option.rule == name:
            assert not option.fits
            assert option.why == rule.why_not
            assert option.evidence
            assert option.evidence == tuple(c.told(given.facts) for c in rule.when if not c.holds(given.facts))


def test_every_name_in_the_guide_is_a_method_and_every_method_is_answered_for():
    named = {name for rule in GUIDE.rules for name in rule.methods} | set(GUIDE.generic)
    assert named - set(names()) == set()
    assert {name for caution in GUIDE.cautions for name in caution.methods} <= named
    assert {option.name for option in advice((world, [])).options} == set(names()) - set(GUIDE.generic)


def test_a_method_without_a_rule_says_so(monkeypatch):
    from apportion.recommend import front

    shorter = replace(GUIDE, rules=tuple(rule for rule in GUIDE.rules if "gigpo" not in rule.methods))
    monkeypatch.setattr(front, "guide", lambda: shorter)
    option = advice((world, [])).of("gigpo")
    assert (option.fits, option.rule) == (False, "none")
    assert option.why == "the guide has no rule for it; the data have what it reads"


def test_what_fits_can_be_assigned():
    """A method that asks nobody and is said to fit does give credit."""
    for situation in (
        SITUATIONS["states-recur"],
        SITUATIONS["surprisal"],
        SITUATIONS["turn-rewards"],
        SITUATIONS["values"],
    ):
        batch = Batch.from_trajectories(situation[0]())
        for option in ap.recommend(batch).options:
            spec = get(option.name)
            if option.fits and option.kind == "method" and spec.plan is None:
                units = CUTS[spec.unit](batch)
                ap.assign(option.name, units, **spec.example)


def test_what_a_model_would_tell_need_not_be_there_where_one_is_trained():
    without, trained = advice((world, [])), advice((world, ["training"]))
    for method in ("archer", "agentprm", "gae", "prime"):
        assert not without.of(method).fits
        assert (trained.of(method).fits, trained.of(method).cost_class) == (True, "training")
    assert not trained.of("sweet_rl").fits  # no artefact
    told = advice(SITUATIONS["told-utterances"]).of("archer")
    assert (told.fits, told.rule, told.cost_class) == (True, "told-utterances", "free")


def test_what_the_method_reads_has_the_last_word():
    given = advice((lambda: columns("prm_logp"), []))  # prime reads a reference too
    prime = given.of("prime")
    assert not prime.fits
    assert "reference log-probabilities" in prime.why


def test_the_order_is_that_of_the_guide_and_what_fits_comes_first():
    given = advice((world, ["policy", "environment"]))
    fits = [option.fits for option in given.options]
    assert fits == sorted(fits, reverse=True)
    questions = [option.question for option in given.options if option.fits]
    assert questions == sorted(questions)
    assert given.best.name == "vineppo"
    assert advice((world, [])).best.question == 3 or advice((world, [])).best.name == "gigpo"
    assert {row["name"] for row in given.elsewhere} >= {"ARPO"}


def test_prices_are_those_of_cost_and_a_budget_is_kept():
    batch = Batch.from_trajectories(world())
    given = ap.recommend(batch, have=["policy", "environment"], max_tokens=50)
    option = given.of("vineppo")
    price = ap.cost("vineppo", ap.by_step(batch), max_tokens=50)
    assert option.cost["requests"] == price.requests
    assert option.cost["tokens"] == price.prompt_tokens + price.expected_tokens
    poor = ap.recommend(batch, have=["policy", "environment"], max_tokens=50, budget_tokens=option.cost["tokens"] - 1)
    assert not poor.of("vineppo").fits
    assert "more than the budget" in poor.of("vineppo").why
    assert (
        ap.recommend(batch, have=["policy", "environment"], max_tokens=50, budget_tokens=option.cost["tokens"])
        .of("vineppo")
        .fits
    )
    assert (given.of("gigpo").cost, given.of("gigpo").cost_class) == (None, "free")
    assert given.of("vineppo").cost_class == "extra rollouts"
    assert {given.of(name).cost_class for name in ("capo", "mappa")} == {"judge calls"}


def test_the_price_of_a_large_batch_is_scaled():
    batch = Batch.from_trajectories(rollouts(np.random.default_rng(0), groups=100, members=6))
    told = ap.recommend(batch, have=["policy", "environment"], max_tokens=50).of("vineppo").cost
    price = ap.cost("vineppo", ap.by_step(batch), max_tokens=50)
    assert not told["exact"]
    assert told["requests"] == pytest.approx(price.requests, rel=0.2)


def alike():
    return [replace(t, outcome=1.0) for t in world()]


@pytest.mark.parametrize("parts", [("prm",), ("promise",), ("advantage",), ("q", "v")])
def test_numbers_of_a_fitted_model_are_no_rewards_to_be_weighed(parts):
    """A critic's Q and V added up as rewards would be a wrong credit; each part has a method that reads it."""
    told = [every(t, rewards=[dict.fromkeys(parts, 0.5) for _ in t.steps]) for t in world()]
    given = ap.recommend(Batch.from_trajectories(told))
    assert not given.of("turn_credit").fits
    beside = [every(t, rewards=[dict.fromkeys((*parts, "work"), 0.5) for _ in t.steps]) for t in world()]
    assert ap.recommend(Batch.from_trajectories(beside)).of("turn_credit").fits


def test_a_judge_is_told_to_be_of_use_where_there_is_text():
    def minds(build, method="llm_critic"):
        return " ".join(ap.recommend(Batch.from_trajectories(build()), have=["judge"]).of(method).cautions)

    def bare():
        return [every(t, action=None, observation=None) for t in world()]

    assert "give the policy's tokenizer" in minds(bare)
    assert "--unit segment" in minds(answers)
    assert not minds(world)


def test_only_exact_shapley_values_are_said_to_cost_two_to_the_agents():
    crowd = [every(t, agent=[f"a{k}" for k in range(len(t.steps))]) for t in world()]
    given = ap.recommend(Batch.from_trajectories([t for t in crowd if len(t.steps) > 6]), have=["reward_model"])
    assert "2^n" in " ".join(given.of("shapley").cautions)
    assert "2^n" not in " ".join(given.of("sharp").cautions)


def test_a_policy_that_still_is_its_reference_has_no_log_ratio_to_read():
    """As at the start of a run: both columns are there, and the process reward would be 0 everywhere."""

    def at(reference, outcomes=True):
        made = world() if outcomes else [replace(t, outcome=None) for t in world()]
        return [
            every(t, logp=[[-1.0] * len(s.ids) for s in t.steps], ref_logp=[[reference] * len(s.ids) for s in t.steps])
            for t in made
        ]

    same = ap.recommend(Batch.from_trajectories(at(-1.0001))).of("spro")
    assert not same.fits
    assert same.evidence == ("log_ratio >= 0.001 (here 0.0001)",)
    assert "every log-ratio is 0" in same.why
    assert ap.recommend(Batch.from_trajectories(at(-1.5))).of("spro").fits
    assert not ap.recommend(Batch.from_trajectories(at(-1.0, outcomes=False))).of("implicit_q").fits
    assert ap.recommend(Batch.from_trajectories(at(-0.5, outcomes=False))).of("implicit_q").fits


def minded(trajectories, method="dr_grpo"):
    option = ap.recommend(Batch.from_trajectories(trajectories)).of(method)
    assert option.fits
    return " ".join(option.cautions)


def test_outcomes_that_only_rank_are_said_to():
    def pairs(scores):
        return [
            Trajectory(
                [Step(observation=f"question {g}", action=f"answer {m} of {g}")],
                group=f"{g}",
                outcome=scores[m],
                meta={"preferred": m == 0},
            )
            for g in range(3)
            for m in range(2)
        ]

    assert "which of two won" in minded(pairs([1.0, 0.0]))
    assert "which of two won" not in minded(pairs([7.5, 2.0]))  # scores of both, which measure


def test_rollouts_of_several_authors_in_one_group_are_said_to_be():
    made = [replace(t, steps=t.steps[-1:]) for t in answers(start=False)]
    speakers = [every(t, agent=f"model {n % 4}") for n, t in enumerate(made)]
    assert "several authors" in minded(speakers)
    assert "several authors" in minded([replace(t, meta={"model": f"m{n % 2}"}) for n, t in enumerate(made)])
    assert "several authors" not in minded([replace(t, meta={"model": "m"}) for t in speakers])
    assert "several authors" not in minded(made)
    assert "several authors" not in minded(two_agents())  # who work together in each rollout


def test_dropping_what_a_game_s_own_limit_cut_is_said_to_leave_the_solved():
    def game(cut, won):
        return [replace(t, outcome=won if n < cut else 1.0) for n, t in enumerate([*cut_off()[:cut], *world()[cut:]])]

    assert "solved alone" in minded(game(12, 0.0), "drop_truncated")
    assert "solved alone" not in minded(game(6, 0.0), "drop_truncated")
    assert "solved alone" not in minded(game(12, 0.5), "drop_truncated")


def test_where_an_environment_speaks_in_between_a_policy_that_only_writes_is_not_enough():
    """The rule of `assign`: what fits is not refused there afterwards."""
    batch = Batch.from_trajectories(two_agents())
    told = ap.recommend(batch, have=["policy"]).of("ccpo")
    assert not told.fits
    assert "cannot play the environment that spoke after step 1 of rollout" in told.why
    assert ap.recommend(batch, have=["policy", "environment"]).of("ccpo").fits


def test_agents_that_write_on_without_an_environment_can_be_run_again_by_the_policy():
    made = [
        every(
            replace(t, steps=t.steps[:2]),
            observation=["question", None],
            prompt_ids=[[1, 2], []],
            terminated=[False, True],
        )
        for t in two_agents()
    ]
    assert ap.recommend(Batch.from_trajectories(made), have=["policy"]).of("ccpo").fits


def test_a_chain_of_text_among_which_one_was_answered_is_not_continued():
    made = [*answers(), chat(("ten and a four", "hit"), ("seventeen", "stand"), group="h")]
    made[-1] = replace(made[-1], id="hand")
    bare = [every(t, ids=None, prompt_ids=None, logp=None) for t in made]
    told = ap.recommend(Batch.from_trajectories(bare), have=["policy"]).of("vineppo")
    assert not told.fits
    assert "spoke after step 0 of rollout hand" in told.why


CAUTIONS = {
    "pooled": alike,
    "mt_grpo": rewarded,
    "pure": rewarded,
    "gigpo": lambda: [
        replace(t, steps=(*t.steps[:1], *[t.steps[1]] * (20 if n % 3 == 0 else 1), *t.steps[1:]))
        for n, t in enumerate(world())
    ],
    "grpo": lambda: [replace(t, outcome=1.0) if t.group != "task 0" else t for t in world()],
}


@pytest.mark.parametrize("name", CAUTIONS)
def test_cautions_are_told_where_they_hold(name):
    told = ap.recommend(Batch.from_trajectories(CAUTIONS[name]())).of(name)
    assert told.fits
    assert told.cautions


@pytest.mark.parametrize("k", range(len(GUIDE.cautions)))
def test_every_caution_can_hold_and_not_hold(k):
    caution = GUIDE.cautions[k]
    base = facts((world, []))
    up = {">=": lambda c: c.number, ">": lambda c: c.number + 1, "<": lambda c: c.number - 1, "<=": lambda c: c.number}
    down = {
        ">=": lambda c: c.number - 1,
        ">": lambda c: c.number,
        "<": lambda c: c.number,
        "<=": lambda c: c.number + 1,
    }
    held = {**base, **{c.fact: up[c.comparison](c) for c in caution.when}}
    assert all(c.holds(held) for c in caution.when)
    for c in caution.when:
        assert not c.holds({**held, c.fact: down[c.comparison](c)})


def test_facts_by_hand():
    told = facts((world, ["judge"]))
    batch = Batch.from_trajectories(world())
    assert told["rollouts"] == 16
    assert told["groups_compared"] == 4
    assert told["group"] == 4
    assert told["varied_groups"] == 1.0
    assert told["steps"] == np.median([len(t.steps) for t in batch])
    assert told["have_judge"] == 1
    assert told["have_policy"] == 0
    assert set(told) == set(FACTS)
    a, b, c = (
        Trajectory([Step(action="", ids=ids, prompt_ids=[1])], group="g", outcome=0.0)
        for ids in ([1, 2, 3], [1, 2, 9, 9], [1, 5])
    )
    assert facts_of(by_step(Batch.from_trajectories([a, b, c])))["shared_prefix"] == pytest.approx(2 / 9)
    assert facts((forked, []))["forks"] == 16


def chat(*turns, group="g"):
    """Text: what was seen and what was said, in turns."""
    return Trajectory([Step(observation=seen, action=said) for seen, said in turns], group=group, outcome=0.0)


def test_a_common_beginning_is_one_of_prompts_and_observations_too():
    hands = [chat((hand, "hit"), ("seventeen", "stand")) for hand in ("ten and a four", "five and a six")]
    assert facts((lambda: hands, []))["shared_prefix"] == 0
    same = [chat(("ten and a four", "hit"), (seen, "stand")) for seen in ("seventeen", "twenty")]
    other = chat(("ten and a four", "wait"), ("a pause", "stand"))
    assert facts((lambda: [*same, other], []))["shared_prefix"] == pytest.approx(2 / 6)


def test_a_template_that_the_whole_group_shares_is_no_tree():
    """All part at once behind it: there is one place to compare, and that comparison is the group's own."""
    made = [
        Trajectory([Step(observation="1 + 1?", action=f"Let me think step by step. {n}")], group="g", outcome=n % 2)
        for n in range(4)
    ]
    told = ap.recommend(Batch.from_trajectories(made))
    assert told.facts["shared_prefix"] == 0
    assert told.best.name == "dr_grpo"


def test_a_first_answer_that_is_alike_does_not_make_a_tree_of_long_rollouts():
    made = [
        chat(("I want a lamp", "look it up"), *((f"found {n}-{k}", f"try {n} {k}") for k in range(30)), group="lamp")
        for n in range(4)
    ]
    assert not ap.recommend(Batch.from_trajectories(made)).of("tempo").fits


def test_where_states_recur_the_step_is_compared_before_the_beginning():
    made = [
        chat(("a door", "knock"), ("a voice", f"say {n % 2}"), ("a lock", "turn it"), ("a room", f"go {n}"))
        for n in range(4)
    ]
    told = ap.recommend(Batch.from_trajectories([replace(t, outcome=float(n % 2)) for n, t in enumerate(made)]))
    assert told.of("tempo").fits
    assert told.best.name == "gigpo"
    alike = ap.recommend(Batch.from_trajectories([replace(t, outcome=1.0) for t in made]))
    assert not alike.of("tempo").fits


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ids", [True, False])
def test_odd_rollouts_get_plain_advice(seed, ids):
    batch = Batch.from_trajectories(random_trajectories(seed, ids=ids, logp=ids, values=ids, parts=seed % 2 == 0))
    given = ap.recommend(batch, have=RESOURCES, budget_tokens=10_000)
    json.dumps(given.to_dict(), allow_nan=False)
    assert all(option.why and option.rule and option.evidence for option in given.options)


def test_a_reward_at_the_end_alone_is_an_outcome():
    made = [replace(every(t, reward=[None] * (len(t.steps) - 1) + [t.outcome or 0.5]), outcome=None) for t in world()]
    assert facts((lambda: made, []))["step_rewards"] == 0.0
    assert facts((rewarded, []))["step_rewards"] == 1.0


def test_rules_are_in_the_order_of_the_questions():
    questions = [rule.question for rule in GUIDE.rules]
    assert questions == sorted(questions)
    text = (RULE + RULE.replace('"a"', '"b"')).replace("question = 1", "question = 2", 1)
    assert [rule.id for rule in parsed(text).rules] == ["b", "a"]


def test_one_agent_in_each_rollout_is_not_several():
    made = [every(t, agent=f"model {n % 4}") for n, t in enumerate(world())]
    assert facts((lambda: made, []))["agents"] == 1
    assert facts((two_agents, []))["agents"] == 2


def test_a_method_that_would_ask_nothing_does_not_fit():
    """One turn in each rollout, so that hindsight has nothing to compare."""
    made = [every(t, turn=0) for t in known()]
    option = ap.recommend(Batch.from_trajectories(made), have=["policy"]).of("hcapo")
    assert not option.fits
    assert option.why == "on these rollouts there is no place that it would ask about"


def test_what_is_refused():
    batch = Batch.from_trajectories(world())
    with pytest.raises(ConfigError, match="no resource named 'oracle'; there are policy, environment"):
        ap.recommend(batch, have=["oracle"])
    with pytest.raises(ConfigError, match="budget_tokens is -1"):
        ap.recommend(batch, budget_tokens=-1)


RULE = """
[[rule]]
id = "a"
question = 1
when = [["agents", ">=", 2]]
methods = []
why = "w"
why_not = "n"
source = "s"
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (RULE + RULE, "two rules of one id"),
        (RULE.replace("agents", "agent"), "asks for 'agent'; facts are"),
        (RULE.replace(">=", "=="), "compares by '=='"),
        (RULE.replace('why = "w"\n', ""), "has no why"),
        (RULE.replace('[["agents", ">=", 2]]', "[]"), "has no condition"),
        ("rule = 1 1", "is no TOML"),
    ],
)
def test_a_broken_guide_is_a_sentence(text, sentence):
    with pytest.raises(FormatError, match=sentence):
        parsed(text)
