"""Candidate turns ranked by a critic that sees what the policy does not: who sees what, which pairs, and resuming."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from apportion.asks import Place
from apportion.data import Batch
from apportion.data.pairs import read_pairs
from apportion.errors import CheckpointError, ConfigError, DataError
from apportion.models import SweetCritic, TokenModel
from apportion.train import candidates as drawing
from apportion.train.candidates import candidate_rollouts, context_of, draw, turns_of
from apportion.train.examples import Examples
from apportion.train.part_file import PartFile
from apportion.train.player import TrainedPolicy
from apportion.train.preference import prefer
from apportion.train.ranking import choose, rank
from apportion.train.rollout import Collector
from apportion.units import by_turn
from tests.train.make import small_policy
from tests.train.whisper import Whisper

MARKER = "ZQ-7741-"
QUICK = {"epochs": 2, "lr": 3e-3, "held_out": 0.0, "batch_tokens": 400}


def played(policy, tasks=6, rollouts=4, **options):
    return Batch.from_trajectories(
        Collector(Whisper(**options).spec.name, options).collect(policy, range(tasks), rollouts=rollouts).trajectories
    )


def critic_of(policy, batch, **settings):
    trunk = TokenModel(copy.deepcopy(policy.model), policy.tokenizer)
    return SweetCritic.fit(batch, backbone=trunk, **{**QUICK, **settings})


class Likes:
    """Scores the last turn by its text; a critic without weights."""

    def __init__(self, **score):
        self.score, self.calls = score, 0

    def last_turns(self, batch):
        self.calls += 1
        return np.array([self.score[t.steps[-1].action.split()[1]] for t in batch])


LIKES = {"a": 1.0, "b": 0.0, "nothing": -1.0}


@pytest.fixture(scope="module")
def world():
    torch.set_num_threads(1)
    policy = small_policy(env="tests/whisper")
    batch = played(policy, marker=MARKER)
    return policy, batch, critic_of(policy, batch)


class Seen:
    """Everything that reaches a policy: texts that it encodes, and every row of ids that its model runs."""

    def __init__(self, policy):
        self.policy, self.rows, self.texts = policy, [], []
        encode = policy.prompts.encode
        policy.prompts.encode = lambda text: self.texts.append(text) or encode(text)
        self.hook = policy.model.register_forward_pre_hook(self._look, with_kwargs=True)

    def _look(self, module, args, given):
        self.rows += given["input_ids"].tolist()

    def holds(self, marker):
        """Where the marker is: in a text, in the text of a row, or as its ids inside a row."""
        ids = self.policy.tokenizer.encode(marker, add_special_tokens=False)
        inside = any(row[k : k + len(ids)] == ids for row in self.rows for k in range(len(row)))
        decoded = [self.policy.tokenizer.decode(row) for row in self.rows]
        return inside or any(marker in text for text in (*self.texts, *decoded))


@pytest.mark.parametrize("window", [0, 1, None])
@pytest.mark.parametrize("text", [False, True])
def test_nothing_of_the_artefact_reaches_the_policy_on_the_whole_path(tmp_path, window, text):
    """Collected, fitted, drawn, ranked, written, read, trained on: the critic sees the marker and the policy never."""
    how = {"actions": "text", "max_action_tokens": 4} if text else {}
    policy = small_policy(env="tests/whisper", window=window, env_options={"text": text}, **how)
    seen = Seen(policy)
    batch = played(policy, marker=MARKER, text=text)
    assert all(rollout.reference.startswith(MARKER) for rollout in batch)
    if text:  # an untrained policy writes nothing that is paid
        batch = Batch.from_trajectories(replace(t, outcome=float(n % 2)) for n, t in enumerate(batch))
    critic = critic_of(policy, batch)
    rows_of_critic = [critic.backbone.trunk.config and policy.tokenizer.decode(r) for r in critic.rows(batch).ids]
    assert all(MARKER in row for row in rows_of_critic)
    out = tmp_path / "pairs.jsonl"
    rank(policy, critic, batch, candidates=6, pairs=2, out=out)
    prefer(policy, read_pairs(out), epochs=1, out=tmp_path / "run")
    assert len(seen.rows) > len(batch)
    assert not seen.holds(MARKER)
    assert MARKER not in out.read_text()


def test_the_search_finds_what_is_planted(world):
    policy = small_policy(env="tests/whisper")
    seen = Seen(policy)
    policy.logits([policy.tokenizer.encode(f"turn 0: {MARKER} say")])
    assert seen.holds(MARKER)
    other = Seen(policy)
    policy.prompts.present(f"the answer is {MARKER}")
    assert other.holds(MARKER)
    assert not Seen(policy).holds(MARKER)


def test_a_path_that_showed_the_artefact_is_refused_by_the_prompt_check(world, monkeypatch):
    policy, batch, _ = world

    def leaking(*args, **more):
        return replace(
            scene := plain(*args, **more), observation=f"{batch.trajectories[0].reference}{scene.observation}"
        )

    plain = drawing.Scene
    monkeypatch.setattr(drawing, "Scene", leaking)
    with pytest.raises(DataError, match="not the one that the rollout was sampled under"):
        rank(policy, Likes(**LIKES), batch, candidates=2)


def test_candidates_are_draws_of_the_policy(world):
    policy, batch, _ = world
    place = Place(0, 1)
    acts = [act for (of,) in (draw(TrainedPolicy(policy), batch, [place], count=4000, seed=3),) for act in of]
    choices = policy.choices(batch.trajectories[0].steps[1].actions)
    row = context_of(batch, place)
    for action, ids in zip(choices.actions, choices.ids, strict=True):
        logp = 0.0
        for j, token in enumerate(ids):
            told = policy.log_probs(policy.logits([(*row, *ids[:j])]), [choices.allowed(ids[:j])])
            logp += float(told[0, token].detach())
        share = np.mean([act.action == action for act in acts])
        assert share == pytest.approx(np.exp(logp), abs=0.03)
        one = next(act for act in acts if act.action == action)
        assert sum(one.logp) == pytest.approx(logp, abs=1e-4)


def test_what_is_drawn_at_a_turn_does_not_depend_on_the_others(world):
    policy, batch, _ = world
    places = turns_of(batch)
    who = TrainedPolicy(policy)
    together = draw(who, batch, places[:5], count=3, seed=1)
    alone = draw(who, batch, places[3:4], count=3, seed=1, first=3)
    assert [a.ids for a in together[3]] == [a.ids for a in alone[0]]
    assert [[a.ids for a in of] for of in draw(who, batch, places[:5], count=3, seed=2)] != [
        [a.ids for a in of] for of in together
    ]


@pytest.mark.parametrize("window", [0, 1, None])
def test_the_context_is_what_the_policy_is_trained_on(window):
    policy = small_policy(env="tests/whisper", window=window)
    batch = played(policy, tasks=2, rollouts=2)
    tokens = by_turn_tokens(batch)
    inputs = set(Examples.of(tokens, policy).inputs)
    for place in turns_of(batch):
        context = context_of(batch, place)
        assert any(row[: len(context)] == context for row in inputs)


def by_turn_tokens(batch):
    from apportion.credit import Credit

    units = by_turn(batch)
    return Credit(np.ones(len(units)), units).to_tokens()


def test_a_candidate_is_scored_as_the_turn_it_would_be(world):
    """Where a rollout took the candidate, the score is that rollout's own advantage there."""
    _, batch, critic = world
    told, k = critic.advantages(batch), 0
    for n, rollout in enumerate(batch):
        for s, step in enumerate(rollout.steps):
            act = drawing.Act(step.action, ids=tuple(step.ids.tolist()))
            (made,) = candidate_rollouts(batch, Place(n, s), [act])
            assert made.reference == rollout.reference
            got = critic.last_turns(Batch.from_trajectories([made]))
            assert got[0] == pytest.approx(told[k], abs=1e-5)
            k += 1


def test_turns_begin_where_the_turn_changes_and_a_share_of_them_is_drawn(world):
    _, batch, _ = world
    every = turns_of(batch)
    assert every == [Place(n, s) for n in range(len(batch)) for s in range(2)]
    joined = Batch.from_trajectories(replace(t, steps=[replace(s, turn=0) for s in t.steps]) for t in batch)
    assert turns_of(joined) == [Place(n, 0) for n in range(len(batch))]
    some = turns_of(batch, share=0.25, seed=1)
    assert len(some) == len(every) // 4
    assert some == sorted(some)
    assert some != turns_of(batch, share=0.25, seed=2)


def test_chosen_are_from_the_upper_part_and_rejected_from_the_lower():
    random = np.random.default_rng(0)
    score = np.array([0.0, 5.0, np.nan, 3.0, 1.0, 4.0])  # known, best first: 1, 5, 3, 4, 0
    every = choose(score, pairs=99, quantile=0.5, random=random)
    assert sorted(every) == [(1, 0), (1, 4), (5, 0), (5, 4)]  # two of five on each side, the middle in neither
    assert sorted(choose(score, pairs=99, quantile=0.2, random=random)) == [(1, 0)]
    assert len(choose(score, pairs=3, quantile=0.5, random=random)) == 3
    tied = np.array([1.0, 1.0, 1.0, 0.0])
    assert sorted(choose(tied, pairs=99, quantile=0.5, random=random)) == [(0, 3), (1, 3)]
    assert choose(np.ones(4), pairs=9, quantile=0.5, random=random) == []
    assert choose(np.array([np.nan, 1.0]), pairs=9, quantile=0.5, random=random) == []


def test_each_pair_is_drawn_as_often_as_the_others():
    random = np.random.default_rng(1)
    counts = {}
    for _ in range(4000):
        (pair,) = choose(np.arange(4.0), pairs=1, quantile=0.5, random=random)
        counts[pair] = counts.get(pair, 0) + 1
    assert set(counts) == {(3, 0), (3, 1), (2, 0), (2, 1)}
    assert all(abs(n - 1000) < 120 for n in counts.values())


def test_pairs_say_what_was_ranked(world, tmp_path):
    policy, batch, _ = world
    made = rank(policy, Likes(**LIKES), batch, candidates=8, pairs=3, seed=4)
    assert (made.turns, made.candidates) == (48, 384)
    assert made.tokens == sum(
        len(a.ids) for of in draw(TrainedPolicy(policy), batch, turns_of(batch), count=8, seed=4) for a in of
    )
    assert made.tied == 48 - len({pair.place for pair in made.pairs})
    for pair in made.pairs:
        n, s = (int(x) for x in (batch.names().index(pair.place.rpartition(":")[0]), pair.place.rpartition(":")[2]))
        assert pair.prompt_ids == context_of(batch, Place(n, s))
        assert pair.group == batch.trajectories[n].group
        choices = policy.choices(pair.actions)
        assert pair.chosen_score > pair.rejected_score
        assert pair.chosen_score == LIKES[choices.action(pair.chosen_ids).split()[1]]
        assert pair.rejected_score == LIKES[choices.action(pair.rejected_ids).split()[1]]
        assert tuple(policy.tokenizer.encode(pair.prompt, add_special_tokens=False)) == pair.prompt_ids


def test_pairs_do_not_depend_on_how_many_turns_are_ranked_at_once(world, monkeypatch):
    policy, batch, _ = world
    whole = rank(policy, Likes(**LIKES), batch, candidates=4, pairs=2)
    monkeypatch.setattr("apportion.train.ranking.TOGETHER", 12)
    assert rank(policy, Likes(**LIKES), batch, candidates=4, pairs=2) == whole


def test_each_turn_draws_its_pairs_anew(world, monkeypatch):
    policy, batch, _ = world
    drawn = []
    monkeypatch.setattr(
        "apportion.train.ranking.choose",
        lambda score, *, random, **more: drawn.append(random.random()) or choose(score, random=random, **more),
    )
    rank(policy, Likes(**LIKES), batch, candidates=4)
    assert len(set(drawn)) == 48


def test_rows_of_work_that_was_torn_off_twice_are_read_again(tmp_path):
    told, out = {"seed": 1}, tmp_path / "x"
    with PartFile(out, told) as part:
        part.add([[1] * 9, [2]])
    with part.path.open("ab") as file:
        file.write(b"[3, 3, 3, 3, 3, 3, 3, 3, 3")
    with PartFile(out, told, resume=True) as again:
        assert again.rows == [[1] * 9, [2]]
        again.add([4])
    assert PartFile(out, told, resume=True).rows == [[1] * 9, [2], 4]
    assert PartFile(tmp_path / "y", told, resume=True).rows == []
    part.path.write_text("nonsense\n")
    with pytest.raises(CheckpointError, match="cannot be read"):
        PartFile(out, told, resume=True)


class Dies(Likes):
    """Is killed at the third call."""

    def last_turns(self, batch):
        if self.calls == 2:
            raise KeyboardInterrupt
        return super().last_turns(batch)


def test_a_ranking_that_was_stopped_goes_on_to_the_same_pairs(world, tmp_path, monkeypatch):
    policy, batch, _ = world
    monkeypatch.setattr("apportion.train.ranking.TOGETHER", 24)
    settings = {"candidates": 8, "pairs": 2}
    whole = rank(policy, Likes(**LIKES), batch, out=tmp_path / "whole.jsonl", **settings)
    out, part = tmp_path / "pairs.jsonl", tmp_path / ".pairs.jsonl.part"
    with pytest.raises(KeyboardInterrupt):
        rank(policy, Dies(**LIKES), batch, out=out, **settings)
    assert not out.exists()
    with part.open("ab") as file:
        file.write(b'{"pairs": [')  # torn off in the middle of a line
    with pytest.raises(ConfigError, match=r"holds a part of pairs\.jsonl; resume, or remove it"):
        rank(policy, Likes(**LIKES), batch, out=out, **settings)
    with pytest.raises(CheckpointError, match="is of other work \\(seed differ\\)"):
        rank(policy, Likes(**LIKES), batch, out=out, resume=True, seed=1, **settings)
    other = Batch.from_trajectories(replace(t, reference="x") for t in batch)
    with pytest.raises(CheckpointError, match="is of other work \\(rollouts differ\\)"):
        rank(policy, Likes(**LIKES), other, out=out, resume=True, **settings)
    critic = Likes(**LIKES)
    rest = rank(policy, critic, batch, out=out, resume=True, **settings)
    assert critic.calls == 14  # of 16; two were done
    assert rest == whole
    assert tuple(read_pairs(out)) == whole.pairs
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not part.exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"candidates": 1}, "candidates is 1; give a whole number from 2 up"),
        ({"quantile": 0.7}, "quantile is 0.7; give a number above 0 and up to 0.5"),
        ({"share": 0}, "share is 0; give a number above 0 and up to 1"),
        ({"pairs": 2.5}, "pairs is 2.5"),
        ({"best": 3}, "ranking has no setting 'best'; there are candidates"),
        ({"resume": True}, "resume needs the file"),
        ({"out": "nowhere/pairs.jsonl"}, "the folder nowhere does not exist"),
    ],
)
def test_what_cannot_be_used_is_said(world, given, says):
    policy, batch, _ = world
    with pytest.raises(ConfigError, match=says):
        rank(policy, Likes(**LIKES), batch, **given)


def test_rollouts_that_cannot_be_ranked_are_refused(world):
    policy, batch, critic = world
    (first, *_) = batch.trajectories
    cases = [
        (replace(first, reference=None), critic, "has no reference"),
        (replace(first, steps=[replace(s, observation=None) for s in first.steps]), critic, "no observation"),
        (
            replace(first, steps=[replace(s, prompt_ids=[1, 2]) for s in first.steps]),
            critic,
            "step 0: the policy's prompt",
        ),
        (first, Likes(a=0.0, b=0.0, nothing=0.0), "none of 2 turns gave a pair"),
    ]
    for rollout, who, says in cases:
        with pytest.raises(DataError, match=says):
            rank(policy, who, Batch.from_trajectories([rollout]), candidates=4)
