"""Environments with tools, and plain conversations, through TRL's own loops."""

import numpy as np
import pytest

import apportion as ap
from apportion.adapters.trl.environment import kept_by, marks_of
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError

pytest.importorskip("trl", reason="TRL is not installed (pip install 'apportion[trl]')")
pytestmark = pytest.mark.xdist_group("trl")


def call(by):
    return '<tool_call>\n{"name": "bump", "arguments": {"by": ' + str(by) + "}}\n</tool_call>"


BROKEN = '<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>'
SCRIPTS = [  # what each rollout says, turn by turn
    [call(1), call(2), "done"],
    [BROKEN, call(2), "done"],  # its first turn calls a tool that is not there: no entry in the lists
    [call(1) + call(3), "done"],  # two calls in one turn
    ["done"],
]
REWARDS = [[1.0, 2.0], [None, 2.0], [4.0], []]
STATES = [["n=0", "n=1", "n=3"], ["n=0", "n=0", "n=2"], ["n=0", "n=4"], ["n=0"]]
OUTCOMES = [3.0, 2.0, 4.0, 0.0]


class Counter:
    """Public methods are tools."""

    def reset(self, **row):
        self.n, self.turns = 0, 17  # "turns" is its own, and no list of turns
        self.step_rewards, self.states = [], ["n=0"]

    def bump(self, by: int) -> str:
        """Add to the counter.

        Args:
            by: how much to add.

        Returns:
            The new value.
        """
        self.n += by
        self.step_rewards.append(float(by))
        self.states.append(f"n={self.n}")
        return self.states[-1]

    def get_reward(self) -> float:
        return float(self.n)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    from datasets import Dataset
    from trl import GRPOTrainer

    from apportion.adapters.trl import with_credit
    from tests.adapters.hosts import trl_tiny as tiny

    tok, credits, seen = tiny.tokenizer(), [], []

    class Scripted(GRPOTrainer):
        turn, on = 0, ()

        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            on = range(len(prompt_ids)) if self.turn == 0 else self.on
            said = [SCRIPTS[i][self.turn] for i in on]
            self.on = [i for i, text in zip(on, said, strict=True) if "tool_call" in text]
            self.turn += 1
            return [tok.encode(text + "<|im_end|>", add_special_tokens=False) for text in said], None

        def _compute_loss(self, model, inputs):
            seen.append({name: value.clone() for name, value in inputs.items() if hasattr(value, "clone")})
            return super()._compute_loss(model, inputs)

    Trainer = with_credit(Scripted, "gigpo", gamma=0.5, on_credit=lambda credit, step: credits.append(credit))
    trainer = Trainer(
        model=tiny.model(tok),
        args=tiny.config(tmp_path_factory.mktemp("tools"), max_completion_length=400),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "count"}]}] * 4),
        processing_class=tok,
        environment_factory=Counter,
    )
    assert tiny.change(trainer) > 1e-5
    return credits[0], seen[0], trainer


def by_hand(credit):
    """The same rollouts with what is known of them from the script."""
    out = []
    for i, told in enumerate(credit.units.batch.trajectories):
        rewards = [*REWARDS[i], *[None] * (len(told.steps) - len(REWARDS[i]))]
        rewards[-1] = OUTCOMES[i] - sum(r for r in rewards[:-1] if r is not None)
        out.append(
            Trajectory(
                [
                    Step(prompt_ids=step.prompt_ids, ids=step.ids, state=STATES[i][s], reward=rewards[s])
                    for s, step in enumerate(told.steps)
                ],
                group="one",
            )
        )
    return Batch.from_trajectories(out)


def test_the_steps_of_a_rollout_are_its_turns(played):
    credit, _, trainer = played
    tok = trainer.processing_class
    said = [[tok.decode(step.ids) for step in t.steps] for t in credit.units.batch.trajectories]
    assert said == [[text + "<|im_end|>" for text in script] for script in SCRIPTS]


def test_what_an_environment_tells_lands_on_the_right_turn(played):
    steps = [t.steps for t in played[0].units.batch.trajectories]
    assert [[step.state for step in rollout] for rollout in steps] == STATES
    # all but the last: the reward functions have the last word
    assert [[step.reward for step in rollout[:-1]] for rollout in steps] == [[1.0, 2.0], [None, 2.0], [4.0], []]


def test_the_loss_gets_what_assign_says_of_the_rollouts_by_hand(played):
    credit, seen, _ = played
    expected = ap.assign("gigpo", ap.by_step(by_hand(credit)), gamma=0.5).to_tokens()
    found = 0
    for part, trajectory in zip(expected.split(), credit.units.batch.trajectories, strict=True):
        prompt = len(trajectory.steps[0].prompt_ids)
        ids, want = part.ids[prompt:], np.where(part.sampled, part.advantage, 0.0)[prompt:]
        for row in range(len(seen["completion_ids"])):
            if seen["completion_ids"][row][: len(ids)].tolist() == ids.tolist():
                found += 1
                np.testing.assert_allclose(seen["advantages"][row][: len(ids)].numpy(), want, atol=1e-6)
                assert not seen["advantages"][row][len(ids) :].any()
    assert found == len(SCRIPTS)


class Kept:
    def __init__(self, **lists):
        vars(self).update(lists)


def test_lists_made_after_the_rollout_are_taken_in_order():
    marks = [marks_of([Kept(step_rewards=[])])[0]] * 3
    assert kept_by(Kept(step_rewards=[1.0, 0.0, 2.0]), marks, 3) == {"step_rewards": [1.0, 0.0, 2.0]}


def test_lists_that_grow_are_cut_where_the_policy_spoke():
    marks = [{"states": 0, "step_parts": 0}, {"states": 1, "step_parts": 2}, {"states": 1, "step_parts": 2}]
    kept = Kept(states=["a", "c"], step_parts=[{"x": 1.0}, {"x": 2.0, "y": 1.0}, {"y": 5.0}], agents=3)
    assert kept_by(kept, marks, 3) == {
        "states": ["a", None, "c"],
        "step_parts": [{"x": 3.0, "y": 1.0}, {}, {"y": 5.0}],
    }


def test_a_conversation_that_nobody_scored_trains_nothing(tmp_path):
    import torch
    from datasets import Dataset
    from trl import GRPOTrainer

    from apportion.adapters.trl import with_credit
    from tests.adapters.hosts import trl_tiny as tiny

    tok = tiny.tokenizer()
    trainer = with_credit(GRPOTrainer, "grpo")(
        model=tiny.model(tok),
        reward_funcs=lambda completions, **_: [None] * len(completions),
        args=tiny.config(tmp_path),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "hi"}]}] * 4),
        processing_class=tok,
    )
    assert tiny.change(trainer) == 0.0
    entry = trainer.state.log_history[0]
    assert entry["loss"] == 0.0
    assert entry["credit/share_of_tokens_trained"] == 0.0
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())


def test_several_rewards_reach_the_method_by_name(tmp_path):
    from datasets import Dataset
    from trl import GRPOTrainer

    from apportion.adapters.trl import with_credit
    from tests.adapters.hosts import trl_tiny as tiny

    tok, credits = tiny.tokenizer(), []

    def length(completion_ids, **_):
        return [float(i) for i, _ in enumerate(completion_ids)]

    def parity(completion_ids, **_):
        return [float(i % 2) if i < 3 else None for i, _ in enumerate(completion_ids)]

    weighed = {"parts": ["length", "parity"], "weights": [1.0, 0.5]}
    trainer = with_credit(GRPOTrainer, "gdpo", on_credit=lambda credit, step: credits.append(credit), **weighed)(
        model=tiny.model(tok),
        reward_funcs=[length, parity],
        args=tiny.config(tmp_path, reward_weights=[1.0, 0.5]),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "hi"}]}] * 4),
        processing_class=tok,
    )
    trainer.train()
    batch = credits[0].units.batch
    assert batch.outcome_parts["length"].tolist() == [0.0, 1.0, 2.0, 3.0]
    np.testing.assert_array_equal(batch.outcome_parts["parity"], [0.0, 1.0, 0.0, np.nan])
    assert batch.outcome_N.tolist() == [0.0, 1.5, 2.0, 3.0]
    std = np.std([0, 1, 2, 3], ddof=1)
    assert credits[0].parts["length"].tolist() == pytest.approx([(x - 1.5) / std for x in range(4)])
    assert abs(credits[0].parts["parity"]).max() == pytest.approx(0.5 * (2 / 3) / 3**-0.5)


def test_each_reward_normalised_by_itself_is_trls_own_number(tmp_path):
    from datasets import Dataset
    from trl import GRPOTrainer

    from apportion.adapters.trl import with_credit
    from tests.adapters.hosts import trl_tiny as tiny

    def first(completion_ids, **_):
        return [float(i) for i, _ in enumerate(completion_ids)]

    def second(completion_ids, **_):
        return [float(i % 3 == 1) for i, _ in enumerate(completion_ids)]

    def advantages(kind, **settings):
        tok = tiny.tokenizer()
        trainer = kind(
            model=tiny.model(tok),
            reward_funcs=[first, second],
            args=tiny.config(tmp_path, reward_weights=[1.0, 0.2], **settings),
            train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "hi"}]}] * 4),
            processing_class=tok,
        )
        trainer.train()
        return list(trainer._logs["advantages"])

    theirs = advantages(GRPOTrainer, multi_objective_aggregation="normalize_then_sum")
    weighed = "gdpo(parts=['first', 'second'], weights=[1.0, 0.2], epsilon=1e-4) | whiten(over='unit', epsilon=1e-4)"
    np.testing.assert_allclose(advantages(with_credit(GRPOTrainer, weighed)), theirs, atol=1e-5)
    sentence = (
        r"reward_weights=\[1.0, 0.2\] do not reach 'gdpo', .*gdpo\(parts=\['first', 'second'\], weights=\[1.0, 0.2\]\)"
    )
    with pytest.raises(ConfigError, match=sentence):
        advantages(with_credit(GRPOTrainer, "gdpo | whiten"))


def test_the_example_trains_and_leaves_a_log(tmp_path):
    import importlib.util
    from pathlib import Path

    from tests.adapters.hosts import trl_tiny as tiny

    path = Path(__file__).parents[3] / "examples" / "trl_gigpo.py"
    spec = importlib.util.spec_from_file_location("trl_gigpo", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    tok = tiny.tokenizer()
    example.train(tiny.model(tok), str(tmp_path), tok, **tiny.SETTINGS)
    credit = ap.read_credit(tmp_path / "log" / "step-000000.parquet")
    assert len(credit.units.batch) == tiny.GENERATIONS
    assert credit.units.batch.state_S.tolist() == ["n=0"] * tiny.GENERATIONS


def test_columns_of_another_form_get_a_sentence():
    from apportion.adapters.trl.rollouts import _told

    assert _told({"columns": {"x": [1.0]}})["columns"] == {"x": [1.0]}
    with pytest.raises(
        DataError, match="rollout_func returned columns of the kind list for a row; give each row a dict"
    ):
        _told({"columns": [1.0]})


def test_the_reward_functions_have_the_last_word():
    from apportion.adapters.rows import batch_of
    from apportion.adapters.trl.rollouts import STEP_LISTS, host_row

    plain = dict.fromkeys(STEP_LISTS) | {
        "spans": [(0, 1), (1, 2), (2, 3)],
        "prompt_ids": [1],
        "completion_ids": [5, 6, 7],
        "mask": [True] * 3,
        "step_rewards": [0.25, 0.5],  # of the last step nothing was told
    }
    row = host_row(plain, group="g", id="a", reward=2.0, outcomes={})
    assert row.step_rewards == [0.25, 0.5, None]
    assert ap.by_step(batch_of([row])).reward_S.tolist() == [0.25, 0.5, 1.25]
    row = host_row(plain | {"step_rewards": [0.25, 0.5, 9.0]}, group="g", id="a", reward=2.0, outcomes={})
    assert row.step_rewards == [0.25, 0.5, None]
    assert host_row(plain, group="g", id="a", reward=None, outcomes={}).step_rewards is None
    with pytest.raises(ap.DataError, match="row 'a': 4 states for 3 steps; give one per step"):
        host_row(plain | {"states": ["s"] * 4}, group="g", id="a", reward=1.0, outcomes={})
