"""A judge as a resource: the one reminder, what no verdict costs, values, and what is refused before it is asked."""

import json
import math
import re

import pytest

from apportion.asks import Judge, Place, Value
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import BudgetError, ConfigError, ResourceError
from apportion.resources import Asker, Budget, Refusal, Retry, Trouble, quote
from apportion.resources.judge import REMINDED, UNREADABLE, JudgeResource
from apportion.resources.judge_callable import JudgeCallable
from apportion.resources.judge_options import judge_of
from apportion.resources.judge_price import (
    FRAME_TOKENS,
    MISCOUNTED,
    OTHERWISE,
    REPEATED,
    UNCOUNTED,
    Completion,
)
from apportion.resources.judge_template import load_template
from apportion.units import by_step

PLACES = tuple(Place(0, s) for s in range(2))
TALK = Trajectory([Step(observation="q", action="right"), Step(action="wrong")], reference="gold", id="talk")


def code_of(messages):
    return re.search(r'"code", which must be "([0-9a-f]{8})"', messages[0]["content"])[1]


def labels(messages, *given):
    return json.dumps(
        {"code": code_of(messages), "verdicts": [{"unit": n + 1, "label": x} for n, x in enumerate(given)]}
    )


def judge(*replies, **options):
    """A judge that gives these replies in turn: a function of the messages, a text, or a failure."""
    left, seen = list(replies), []

    def function(messages, seed, max_tokens):
        seen.append((messages, seed, max_tokens))
        reply = left.pop(0) if len(left) > 1 else left[0]
        reply = reply(messages) if callable(reply) else reply
        if isinstance(reply, Exception):
            raise reply
        return reply

    made = JudgeCallable(function, identity="test", **options)
    made.seen = seen
    return made


def good_bad(messages):
    return labels(messages, "good", "bad")


def ask(made, *asks, rollout=TALK, **options):
    return Asker(made, retry=Retry(attempts=3, first_wait=0, longest_wait=0), **options)(asks, [rollout])


def test_a_verdict():
    made = judge(good_bad)
    (answer,) = ask(made, Judge(0, PLACES, "labels"))
    assert (answer.one.scores, answer.one.labels) == ((1, -1), ("good", "bad"))
    ((messages, seed, max_tokens),) = made.seen
    assert [m["role"] for m in messages] == ["system", "user"]
    assert max_tokens == load_template("labels").tokens(2)
    assert seed >= 0


def test_votes_differ_in_seed_and_codes():
    made = judge(good_bad)
    (answer,) = ask(made, Judge(0, PLACES, "labels", votes=3))
    assert len(answer.samples) == 3
    assert len({seed for _, seed, _ in made.seen}) == 3
    assert len({code_of(messages) for messages, _, _ in made.seen}) == 3


def test_an_unreadable_reply_is_reminded_once():
    made = judge("I liked it.", good_bad)
    (answer,) = ask(made, Judge(0, PLACES, "labels"))
    assert answer.one.scores == (1, -1)
    (first, seed, _), (second, again, _) = made.seen
    assert second[:2] == first
    assert [m["role"] for m in second[2:]] == ["assistant", "user"]
    assert second[2]["content"] == "I liked it."
    reminder = load_template("labels").reminder
    assert second[3]["content"] == f"{reminder} The code is {code_of(first)}."
    assert again == seed + 1


def test_two_unreadable_replies_are_no_verdict_which_is_kept_and_paid_for():
    made = judge(Completion("no", 100, 7), Completion("still no", 120, 9))
    asker = Asker(made)
    for _ in range(2):
        (answer,) = asker([Judge(0, PLACES, "labels")], [TALK])
        assert answer.one.scores == (None, None)
        assert answer.one.text == "no verdict: the reply is no JSON object\nstill no"
        assert (answer.failed, answer.prompt_tokens, answer.generated_tokens) == (0, 220, 16)
    assert len(made.seen) == 2


def test_units_without_a_word_are_none_and_need_no_reminder():
    made = judge(lambda m: labels(m, "good"))
    assert ask(made, Judge(0, PLACES, "labels"))[0].one.scores == (1, None)
    assert len(made.seen) == 1


def test_a_unit_in_focus_keeps_its_place():
    def of_two(messages):
        assert "from 2 to 2" in messages[0]["content"]
        return json.dumps({"code": code_of(messages), "verdicts": [{"unit": 2, "score": 3}]})

    made = judge(of_two)
    (answer,) = ask(made, Judge(0, PLACES, "coach", focus=1))
    assert (answer.one.scores, answer.one.labels, answer.one.scale) == ((None, 3), (None, None), (0, 10))
    assert made.seen[0][2] == load_template("coach").tokens(1)
    (answer,) = ask(judge("no"), Judge(0, PLACES, "coach", focus=0))
    assert answer.one.scores == (None, None)


def test_a_value_is_a_probability_between_the_rewards():
    def half(messages):
        return json.dumps({"code": code_of(messages), "reason": "?", "probability": 0.75})

    assert ask(judge(half), Value(Place(0, 1)))[0].one == 0.75
    made = judge(half, rewards=(-1.0, 3.0), thinking=11)
    assert ask(made, Value(Place(0, 1)))[0].one == 2.0
    assert made.seen[0][2] == load_template("value").tokens(1) + 11
    before = judge(half).content(request(Value(Place(0, 1))))
    assert judge(half, rewards=(0.0, 2.0)).content(request(Value(Place(0, 1)))) != before


def test_a_value_that_nobody_states_is_unknown_and_spent():
    budget = Budget(tokens=100_000)
    made = judge("perhaps")
    (answer,) = ask(made, Value(Place(0, 1)), budget=budget)
    assert (answer.samples, answer.failed) == ((), 1)
    assert answer.reason == "the judge gave no probability (the reply is no JSON object)"
    load = made.load(request(Value(Place(0, 1))))
    assert budget.used_tokens == load.prompt_tokens + load.most_generated
    assert len(made.seen) == budget.used_requests == 2


def test_what_fails_is_tried_again_and_what_was_answered_stays_spent():
    made = judge(Trouble("busy"), Trouble("busy"), good_bad)
    budget = Budget(tokens=10**6)
    (answer,) = ask(made, Judge(0, PLACES, "labels"), budget=budget)
    assert answer.one.scores == (1, -1)
    once = budget.used_tokens
    broken = judge("what?", Trouble("busy"), good_bad)  # the first reply was paid for before the second broke
    budget = Budget(tokens=10**6)
    (answer,) = ask(broken, Judge(0, PLACES, "labels"), budget=budget)
    assert answer.one.scores == (1, -1)
    load = broken.load(request(Judge(0, PLACES, "labels")))
    assert budget.used_tokens == once + load.prompt_tokens + load.most_generated
    assert budget.used_requests == len(broken.seen) == 3
    refused = judge("what?", Refusal("too long"))
    (answer,) = ask(refused, Judge(0, PLACES, "labels"))
    assert (answer.samples, answer.reason) == ((), "too long")


def request(one, rollout=TALK):
    from apportion.resources import Request

    return Request(one, rollout, 0, 0)


def test_the_reservation_covers_both_tries_of_any_tokenizer():
    def by_bytes(messages, seed, max_tokens):
        # the worst there is: a token per byte, and all that may be generated is
        return Completion("é" * 5000, sum(len(m["content"].encode()) for m in messages) + 20, max_tokens)

    made = JudgeCallable(by_bytes, identity="worst")
    one = Judge(0, PLACES, "labels")
    load = made.load(request(one))
    (answer,) = ask(made, one)
    assert answer.prompt_tokens + answer.generated_tokens <= load.prompt_tokens + load.most_generated
    assert answer.generated_tokens == 2 * load_template("labels").tokens(2)
    sent = sum(len(m["content"].encode()) for m in made._prompt(request(one)).messages)
    reminder = f"{load_template('labels').reminder.strip()} The code is 12345678."
    again = sent + 4 * REPEATED + len(reminder.encode())
    most = 2 * load_template("labels").tokens(2) + sent + again + 2 * FRAME_TOKENS
    assert load.prompt_tokens + load.most_generated == most
    assert (load.exact, load.requests, load.shared) == (False, 2, True)
    assert load.prompt_tokens == math.ceil(sent / 4)  # an estimate, for people


def pieces(messages):
    """Tokens of a chat by a tokenizer of ours: a piece is a digit, or a run of anything else."""
    return sum(3 + len(re.findall(r"[0-9]|[^0-9]+", message["content"])) for message in messages)


def test_a_tokenizer_counts_each_prompt_and_makes_the_reservation_tight():
    counted, blind = judge(good_bad, count=pieces), judge(good_bad)
    one = Judge(0, PLACES, "labels", votes=6)
    asker = Asker(counted)
    price = quote([one], [TALK], [counted])
    asker([one], [TALK])
    # the codes of each vote have as many digits as they have, and each vote is counted by its own
    sizes = [pieces(messages) for messages, _, _ in counted.seen]
    assert len(set(sizes)) > 1
    assert (price.prompt_tokens, price.exact) == (sum(sizes), True)
    assert asker.summary.prompt_tokens == price.prompt_tokens
    assert (price.requests, price.most_requests) == (6, 12)
    tight, wide = counted.load(request(one)), blind.load(request(one))
    assert tight.prompt_tokens + tight.most_generated < 0.9 * (wide.prompt_tokens + wide.most_generated)
    assert tight.expected_generated == wide.expected_generated == load_template("labels").tokens(2) / 2


def test_a_reminder_is_a_request_and_fits_its_reservation():
    def never(messages):
        return Completion("é" * 5000, pieces(messages), load_template("labels").tokens(2))

    made = judge(never, count=pieces)
    load = made.load(request(Judge(0, PLACES, "labels")))
    budget = Budget(requests=7, tokens=10**6)
    asker = Asker(made, budget=budget)
    (answer,) = asker([Judge(0, PLACES, "labels", votes=3)], [TALK])
    assert len(answer.samples) == 3
    assert len(made.seen) == budget.used_requests == 6
    assert budget.used_tokens == answer.prompt_tokens + answer.generated_tokens
    assert budget.used_tokens <= 3 * (load.prompt_tokens + load.most_generated + 40)
    assert asker.summary.notes == {UNREADABLE: 3}


@pytest.mark.parametrize("votes", [1, 2, 3])
def test_requests_are_never_more_than_the_budget(votes):
    made = judge("what?", good_bad, good_bad, "what?", good_bad, good_bad, good_bad)
    budget = Budget(requests=4, when_short="partial")
    asker = Asker(made, budget=budget)
    (answer,) = asker([Judge(0, PLACES, "labels", votes=votes)], [TALK])
    assert len(made.seen) == budget.used_requests <= 4
    assert sum(REMINDED in note for note in asker.summary.notes) == 1
    assert len(answer.samples) == min(votes, 2)  # the third could take two, and one is left
    with pytest.raises(BudgetError, match=rf"may need {2 * votes + 4} requests where the budget is {2 * votes + 3}"):
        Asker(judge(good_bad), budget=Budget(requests=2 * votes + 3))(
            [Judge(0, PLACES, "labels", votes=votes + 2)], [TALK]
        )


def test_tokens_that_nobody_tells_are_the_most_that_they_could_be():
    one = Judge(0, PLACES, "labels")
    asker = Asker(judge(good_bad))
    (answer,) = asker([one], [TALK])
    sent = sum(len(m["content"].encode()) for m in judge("")._prompt(request(one)).messages)
    assert (answer.prompt_tokens, answer.generated_tokens) == (sent + FRAME_TOKENS, load_template("labels").tokens(2))
    assert asker.summary.notes == {UNCOUNTED: 1}


@pytest.mark.parametrize(
    ("prompt", "wrote", "note", "read", "generated"),
    [
        (900, 7, OTHERWISE, 900, 7),
        (10**9, 7, MISCOUNTED, "own", 7),
        (0, 7, MISCOUNTED, "own", 7),
        ("own", -1, MISCOUNTED, "own", "most"),
        ("own", 321, MISCOUNTED, "own", "most"),
        ("own", 320, None, "own", 320),
        (None, 7, UNCOUNTED, "own", 7),
        ("own", None, UNCOUNTED, "own", "most"),
        ("frame", 0, OTHERWISE, "frame", 0),
        ("beyond", 0, MISCOUNTED, "own", 0),
    ],
)
def test_counts_are_believed_as_far_as_they_can_be(prompt, wrote, note, read, generated):
    def by_bytes(messages):
        return sum(len(m["content"].encode()) for m in messages)

    def tell(messages):
        own = by_bytes(messages)
        told = {"own": own, "frame": own + FRAME_TOKENS, "beyond": own + FRAME_TOKENS + 1}.get(prompt, prompt)
        return Completion(good_bad(messages), told, wrote)

    made = judge(tell, count=by_bytes)
    asker = Asker(made)
    (answer,) = asker([Judge(0, PLACES, "labels")], [TALK])
    own = by_bytes(made.seen[0][0])
    assert answer.prompt_tokens == {"own": own, "frame": own + FRAME_TOKENS}.get(read, read)
    assert answer.generated_tokens == (load_template("labels").tokens(2) if generated == "most" else generated)
    assert asker.summary.notes == ({} if note is None else {note: 1})


@pytest.mark.parametrize(
    ("one", "rollout", "sentence"),
    [
        (
            Judge(0, PLACES, "search_turns"),
            TALK,
            r"template search_turns shows the reference, and .* say privileged=True",
        ),
        (
            Judge(0, PLACES, "search_turns", privileged=True),
            Trajectory(TALK.steps, id="x"),
            r"trajectory 'x' has no reference, which judge template search_turns shows; give Trajectory.reference",
        ),
        (
            Judge(0, PLACES, "value"),
            TALK,
            r"template value answers with probability, which is no verdict on units; give another",
        ),
        (
            Judge(0, PLACES, "labels"),
            Trajectory([Step(ids=[1], prompt_ids=[2]), Step(ids=[1])]),
            r"the trajectory cannot be shown to a judge: step 0 has token ids and no observation; give Step.obs",
        ),
    ],
)
def test_what_cannot_be_judged_is_said_before_anything_is_asked(one, rollout, sentence):
    made = judge(good_bad)
    with pytest.raises(ResourceError, match=sentence):
        ask(made, one, rollout=rollout)
    assert made.seen == []


def test_a_rollout_that_is_too_long_leaves_the_others_alone():
    long = Trajectory([Step(observation="q", action="a")] * 2000, group="long")
    every = tuple(Place(1, s) for s in range(2000))
    made = judge(good_bad)
    both = Asker(made)([Judge(0, PLACES, "labels"), Judge(1, every, "labels")], [TALK, long])
    assert both[0].one.scores == (1, -1)
    assert both[1].samples == ()
    assert both[1].reason.startswith(
        "a rollout cannot be shown to the judge: its 4000 blocks do not fit into the 120000"
    )
    assert len(made.seen) == 1


def test_what_a_judge_refuses():
    with pytest.raises(ConfigError, match=r"value_template 'labels' answers with labels; give one with a probability"):
        judge("", value_template="labels")
    for rewards in ((1.0, 1.0), (0.0, float("nan")), (1.0,)):
        with pytest.raises(ConfigError, match=r"judge: rewards is .*; give the return of a failure and of a success"):
            judge("", rewards=rewards)
    with pytest.raises(ConfigError, match=r"judge: thinking=-1, workers=1"):
        judge("", thinking=-1)
    with pytest.raises(ConfigError, match=r"no judge template named 'nope'"):
        ask(judge(""), Judge(0, PLACES, "nope"))
    with pytest.raises(NotImplementedError, match=r"JudgeResource asks no model"):
        JudgeResource(identity="x").complete([], seed=0, max_tokens=1, schema={})


def test_equal_prompts_share_an_answer_and_others_do_not():
    def of(rollout, one=None, **options):
        return judge("", **options).content(request(one or Judge(0, PLACES, "labels"), rollout))

    base = of(TALK)
    assert of(Trajectory(TALK.steps, outcome=3.0, reference="other", id="b")) == base  # the judge sees none of these
    assert of(Trajectory(TALK.steps, final_observation="end")) != base
    assert of(Trajectory([Step(observation="q", action="right", agent="x"), TALK.steps[1]])) != base
    assert of(TALK, Judge(0, PLACES[:1], "labels")) != base
    one, other, made = Judge(0, PLACES, "labels"), Judge(0, PLACES[:1], "labels"), judge("")
    longer = Trajectory(TALK.steps, final_observation="end")
    asked = ((one, TALK), (other, TALK), (other, longer), (one, longer), (one, TALK))
    seen = [made.content(request(a, rollout)) for a, rollout in asked]  # in turn, of one judge
    assert seen[0] == seen[4] == base
    assert len(set(seen)) == 4
    assert of(TALK, Judge(0, PLACES, "scores")) != base
    gold = Judge(0, PLACES, "search_turns", privileged=True)
    assert of(TALK, gold) != of(Trajectory(TALK.steps, reference="other"), gold)


def test_from_rollouts_to_credit():
    texts = {"a": ("2 + 2 = 4", "so 4"), "b": ("2 + 2 = 5", "so 5")}
    rollouts = [
        Trajectory([Step(observation="2 + 2?", action=first), Step(action=then)], group="g", outcome=float(name == "a"))
        for name, (first, then) in texts.items()
    ]

    def finds_fives(messages):
        found = re.findall(r"BEGIN step (\d)>>>\n(.*)", messages[1]["content"])
        return json.dumps({"code": code_of(messages), "wrong": [int(n) for n, text in found if "= 5" in text]})

    made = judge(finds_fives)
    credit = assign("capo", by_step(Batch.from_trajectories(rollouts)), ask=Asker(made), scale="none")
    # rewards 2, 2 (5 and 2 words) and -1, 0: mean (14 - 5) / 14
    assert credit.advantage_S.tolist() == pytest.approx([2 - 9 / 14, 2 - 9 / 14, -1 - 9 / 14, -9 / 14])
    assert (credit.cost.requests, len(made.seen), credit.notes["verdicts"]) == (8, 8, 16)


class Sampler:
    """A local chat model."""

    def sample(self, prompts):
        from apportion.resources.sampling import Sampled

        (prompt,) = prompts
        messages = [{"role": role, "content": text} for role, text in prompt.messages]
        if "busy" in messages[1]["content"]:
            return [Trouble("busy")]
        self.seen = prompt
        return [Sampled(good_bad(messages), prompt_tokens=50, generated_tokens=5)]


def test_a_model_of_this_process_is_a_judge_too():
    pytest.importorskip("apportion.resources.sampling")
    made = judge_of(Sampler(), identity="local", special=["<eot>"], thinking=3)
    (answer,) = ask(made, Judge(0, PLACES, "labels"))
    assert (answer.one.scores, answer.prompt_tokens, answer.generated_tokens) == ((1, -1), 50, 5)
    assert made.function.__closure__  # it asks the sampler
    assert made.special == ("<eot>",)
    (answer,) = ask(made, Judge(0, PLACES, "labels"), rollout=Trajectory([Step(observation="busy", action="a")] * 2))
    assert answer.reason == "busy"
