"""Search with a credit model: promises by hand, beams against replays and exact values, rows by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from apportion.bench.exact import optimal
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory, read_jsonl
from apportion.envs import DETERMINISTIC, BaseEnv, EnvSpec, make, register
from apportion.errors import CheckpointError, ConfigError, EnvError
from apportion.models import AgentPRM, ArCHerCritic, Backbone, ImplicitReward, SweetCritic, TokenModel, ValueHead
from apportion.models.promise import Promises
from apportion.train import TrainConfig, train
from apportion.train.sampler import Request, sampler_for
from apportion.train.search import SearchSettings, run_config, search
from apportion.train.search.beam import search_beams
from apportion.train.search.players import BEAM_STREAM, Players
from apportion.train.search.results import found, wilson, within_tokens
from tests.train.make import SMALL, CopyWord, small_policy

GAME = {"horizon": 5, "budget": 2, "show_time": True}
CRAFT = TrainConfig(**SMALL, env_options=GAME)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shaken(model, seed=0):
    """Weights that were not fitted, and are not 0."""
    with torch.no_grad():
        torch.manual_seed(seed)
        for p in model.parameters():
            p.add_(0.3 * torch.randn(p.shape))
    return model


def prm(vocabulary=12):
    return shaken(AgentPRM(Backbone("small", vocabulary=vocabulary)))


KINDS = {
    "agentprm": prm,
    "archer": lambda: shaken(ArCHerCritic(Backbone("small", vocabulary=12), gamma=0.9)),
    "value_head": lambda: shaken(ValueHead(Backbone("small", vocabulary=12), level="step", gamma=0.8)),
}


def rollout(fresh, length=4, seed=0, pending=False, group="g"):
    """A rollout with a reward after each step; ``pending``: the context of a next step stands behind it."""
    rng = np.random.default_rng([seed, length])
    steps = [
        Step(
            prompt_ids=rng.integers(10, size=2 + k % 2),
            ids=rng.integers(10, size=1 + k % 2),
            fresh=fresh and k > 0,
            reward=float(rng.normal()),
            terminated=k == length - 1 and not pending,
        )
        for k in range(length)
    ]
    if pending:
        steps.append(Step(action="", prompt_ids=rng.integers(10, size=3), ids=(), fresh=fresh))
    return Trajectory(steps, group=group)


def by_hand(kind, model, t):
    """The formulas, step by step, from what `predict` writes into the rollout."""
    batch = model.predict(Batch.from_trajectories([t])) if kind != "agentprm" else None
    rewards = [s.reward or 0.0 for s in t.steps]
    real, out = sum(1 for s in t.steps if len(s.ids)), []
    for k in range(real):
        if kind == "agentprm":
            out.append(model.promises(Batch.from_trajectories([t]))[k])
        elif kind == "archer":
            earned = sum(0.9**j * rewards[j] for j in range(k))
            out.append(earned + 0.9**k * batch.trajectories[0].steps[k].rewards["q"])
        else:
            at = k + 1 if k + 1 < len(t.steps) else k
            earned = sum(0.8**j * rewards[j] for j in range(at))
            out.append(earned + 0.8**at * batch.trajectories[0].steps[at].value)
    return np.array(out)


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
def test_promises_are_the_formulas_and_the_last_needs_only_its_context(kind, fresh, pending):
    model = KINDS[kind]()
    told, some = Promises(model), [rollout(fresh, n, n, pending) for n in (1, 3, 4)]
    want = [by_hand(kind, model, t) for t in some]
    got = told.all(some)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert np.ptp(np.concatenate(got)) > 1e-3
    assert told.steps == 8
    before = told.tokens
    np.testing.assert_allclose(told.last(some), [x[-1] for x in want], atol=1e-5)
    if fresh and kind == "agentprm":
        last = [t.steps[-2 if pending else -1] for t in some]
        assert told.tokens - before == sum(1 + len(s.prompt_ids) + len(s.ids) for s in last)


def test_a_promise_does_not_know_the_reward_that_ended_the_rollout():
    for kind, make_model in KINDS.items():
        model, t = make_model(), rollout(True)
        other = replace(t, steps=[*t.steps[:-1], replace(t.steps[-1], reward=100.0)])
        a, b = Promises(model).all([t, other])
        np.testing.assert_allclose(a, b, atol=1e-6, err_msg=kind)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (lambda: ValueHead(Backbone("small", vocabulary=12)), "level 'token' gives values before tokens"),
        (lambda: ImplicitReward(TokenModel("small", vocabulary=12)), "and ImplicitReward does not; fit agentprm"),
        (lambda: SweetCritic(TokenModel("small")), "and SweetCritic does not; fit agentprm"),
    ],
)
def test_models_that_promise_nothing_are_refused(model, says):
    with pytest.raises(ConfigError, match=says):
        Promises(model())


class Oracle:
    """Promises from the table of the game: the best return that is still possible behind the last action."""

    def __init__(self, sign=1.0):
        table = task("crafttree", **GAME).table
        best = optimal(table)
        self.tokens, self.sign = 0, sign
        self.q = {
            (table.text(x, t), action): best.q_HK[t, table.slot(x, action)]
            for t, x in zip(*np.nonzero(table.reached_HX), strict=True)
            for action in table.actions[x]
        }

    def last(self, rollouts):
        self.tokens += len(rollouts)
        steps = [[s for s in t.steps if len(s.ids)][-1] for t in rollouts]
        return self.sign * np.array([self.q[s.observation, s.action] for s in steps])


def test_with_exact_promises_a_beam_finds_what_can_be_reached_and_turned_round_it_does_not():
    players = Players(CRAFT, small_policy(env_options=GAME), seed=0)
    tasks = range(8)
    table = task("crafttree", **GAME).table
    value = optimal(table).value_HX[0]
    texts = {table.text(x, 0): x for x in range(len(table.states))}
    can = [bool(value[texts[make("crafttree", **GAME).reset(seed=k)[0]]] > 0) for k in tasks]
    assert any(can)
    found_by = [
        [beam.kept[0].episode.success for beam in search_beams(players, Oracle(sign), tasks, width=2, branch=30)]
        for sign in (1.0, -1.0)
    ]
    assert found_by[0] == can
    assert not any(found_by[1])


class Noted:
    """Promises that are a function of the actions, and count what they are asked."""

    def __init__(self):
        self.tokens = 0

    @staticmethod
    def of(actions):
        return float(np.random.default_rng([len(actions), *"/".join(actions).encode()]).random())

    def last(self, rollouts):
        self.tokens += len(rollouts)
        return np.array([self.of([s.action for s in t.steps if len(s.ids)]) for t in rollouts])


def replayed(players, seed_of_task, width, branch):
    """The beam from its description: no snapshot, every rollout is played from its start again and again."""
    kept, depth, tokens, distinct = [((), 0.0, False)], 0, 0, 0
    while not all(over for *_, over in kept):
        grown = [line for line in kept if line[2]]
        for rank, (actions, _, over) in enumerate(kept):
            if over:
                continue
            env = make("crafttree", **GAME)
            text, _ = env.reset(seed=seed_of_task)
            for action in actions:
                text, *_ = env.step(action)
            context = players.policy.prompts.start().see(text)[0]
            choices, new = players.policy.choices(env.actions()), []
            for k in range(branch * (width if depth == 0 else 1)):
                random = np.random.default_rng([players.seed, BEAM_STREAM, seed_of_task, depth, rank, k])
                (got,) = sampler_for(players.policy).act([Request(0, context, True, choices, random)])
                tokens += len(got.ids)
                if (*actions, choices.action(got.ids)) not in new:
                    new.append((*actions, choices.action(got.ids)))
            for longer in new:
                env = make("crafttree", **GAME)
                env.reset(seed=seed_of_task)
                ends = [env.step(action)[2:4] for action in longer]
                grown.append((longer, Noted.of(longer), any(ends[-1])))
                distinct += 1
        kept = sorted(grown, key=lambda line: -line[1])[:width]
        depth += 1
    return kept, tokens, distinct


def test_a_beam_is_what_playing_from_the_start_again_and_again_gives():
    players = Players(CRAFT, small_policy(env_options=GAME), seed=3)
    beams = search_beams(players, Noted(), [0, 1, 5], width=3, branch=2)
    for beam in beams:
        want, tokens, distinct = replayed(players, beam.task, 3, 2)
        assert [tuple(s.action for s in line.episode.steps) for line in beam.kept] == [actions for actions, *_ in want]
        assert [line.score for line in beam.kept] == pytest.approx([score for _, score, _ in want])
        assert (beam.tokens, beam.steps, beam.scored_steps, beam.replayed) == (tokens, distinct, distinct, 0)
    alone = search_beams(players, Noted(), [5], width=3, branch=2)[0]
    assert alone.kept[0].episode.steps[0].action == beams[2].kept[0].episode.steps[0].action


@pytest.mark.parametrize("window", [0, 1, None])
def test_what_a_beam_samples_has_the_policys_probability_under_the_whole_context(window):
    game = {"horizon": 6, "budget": 6}  # there is always a choice
    config = TrainConfig(**{**SMALL, "env_options": game}, **({"prompt": "history"} if window is None else {}))
    policy = small_policy(window, env_options=game)
    shaken(policy.model)  # an untrained one hardly reads its context
    (beam,) = search_beams(Players(config, policy, seed=1), Noted(), [2], width=4, branch=4)
    for line in beam.kept:
        dialogue, context = policy.prompts.start(), []
        assert sum(step.logp[0] < -0.01 for step in line.episode.steps) >= 4
        for k, step in enumerate(line.episode.steps):
            assert (tuple(step.prompt_ids), step.fresh) == dialogue.see(step.observation)
            dialogue.act(tuple(step.ids))
            assert step.fresh == (k > 0 and window is not None)
            context = [*([] if step.fresh else context), *step.prompt_ids.tolist()]
            choices = policy.choices(step.actions)
            for j, token in enumerate(step.ids.tolist()):
                allowed = choices.allowed(tuple(step.ids[:j].tolist()))
                with torch.no_grad():
                    logp = policy.log_probs(policy.logits([context]), [allowed])[0, token].item()
                assert step.logp[j] == pytest.approx(logp, abs=1e-4)
                context.append(token)


def test_an_environment_without_copies_of_its_state_is_replayed_and_the_steps_are_counted():
    config = TrainConfig(**{**SMALL, "env": "tests/copy", "actions": "text", "max_action_tokens": 4})
    policy = small_policy(env="tests/copy", actions="text", max_action_tokens=4)
    (beam,) = search_beams(Players(config, policy, seed=0), Noted(), [0], width=2, branch=2)
    steps = [len(line.episode.steps) for line in beam.kept]
    assert max(steps) == 3  # an untrained policy does not say the word
    assert beam.replayed > 0
    assert beam.steps == beam.scored_steps >= 3


@register("tests/stop")
class Stop(BaseEnv):
    """``stop`` ends it, ``go`` goes on for three steps."""

    def __init__(self) -> None:
        super().__init__(EnvSpec("tests/stop", (), True, True, DETERMINISTIC, 3, False, "1 for stopping", (0.0, 1.0)))

    def actions(self):
        return ("go", "stop")

    def expert(self):
        return ["stop"]

    def _start(self, seed):
        pass

    def _observe(self):
        return f"{self.steps_left} left"

    def _state(self):
        return ""

    def _apply(self, action):
        return float(action == "stop"), action == "stop", action == "stop"


class EarlyIsBest(Noted):
    """The sooner it stops the better; going on is worth a half."""

    @staticmethod
    def of(actions):
        return 1.0 - 0.1 * len(actions) if actions[-1] == "stop" else 0.5


def test_a_rollout_that_is_over_keeps_its_place_while_others_go_on():
    config = TrainConfig(**{**SMALL, "env": "tests/stop"})
    (beam,) = search_beams(
        Players(config, small_policy(env="tests/stop"), seed=0), EarlyIsBest(), [0], width=3, branch=8
    )
    ends = [[s.action for s in line.episode.steps] for line in beam.kept]
    assert ends == [["stop"], ["go", "stop"], ["go", "go", "stop"]]


def test_a_rollout_depends_on_its_task_and_number_alone():
    players = Players(CRAFT, small_policy(env_options=GAME), seed=0)
    wanted = [(task, k) for task in range(6) for k in range(3)]
    whole = {at: [s.action for s in e.steps] for at, e in zip(wanted, players.play(wanted), strict=True)}
    assert [[s.action for s in e.steps] for e in players.play(wanted[7:9])] == [whole[at] for at in wanted[7:9]]
    assert len({tuple(actions) for actions in whole.values()}) > 12  # tasks that begin alike are not played alike


@register("tests/nowhere")
class Nowhere(CopyWord):
    """Moments of it cannot be had."""

    def snapshot(self):
        raise EnvError("tests/nowhere: the game runs elsewhere")


def test_an_environment_that_cannot_be_copied_is_refused_for_a_beam_alone():
    config = TrainConfig(**{**SMALL, "env": "tests/nowhere", "actions": "text", "max_action_tokens": 4})
    policy = small_policy(env="tests/nowhere", actions="text", max_action_tokens=4)
    players = Players(config, policy, seed=0)
    with pytest.raises(ConfigError, match=r"cannot be copied \(tests/nowhere: the game runs elsewhere\).*best-of-n"):
        search_beams(players, Noted(), [0], width=2, branch=2)
    assert len(players.play([(0, 0), (0, 1)])) == 2
    assert issubclass(Nowhere, BaseEnv)


def sample(success, last, tokens=10, **changes):
    more = {"min": last / 2, "mean": -last, "steps": tokens // 2, "scored_tokens": 3 * tokens}
    return {"success": success, "return": float(success), "tokens": tokens, "last": last, **more, **changes}


def test_rows_by_hand():
    records = [
        {"task": 0, "samples": [sample(False, 0.1), sample(True, 0.9), sample(False, 0.5)]},
        {"task": 1, "samples": [sample(True, 0.3), sample(True, 0.2), sample(False, 0.8)]},
    ]
    beam = {"success": True, "return": 1.0, "tokens": 25, "steps": 9, "replayed": 2, "scored_steps": 7}
    for record, tokens in zip(records, (20, 5), strict=True):
        record["beam"] = {**beam, "tokens": tokens, "scored_tokens": 70, "last": 0.7}
    settings = SearchSettings(n=3, width=2, branch=2, tasks=2)
    result = found(records, settings, {})
    rows = {row.name: row for row in result.rows}
    want = {
        "one sample": 0.5,
        "best of 3: at random": 0.5,
        "best of 3: last promise": 0.5,
        "best of 3: min promise": 0.5,
        "best of 3: mean promise": 0.5,
        "best of 3: true outcome": 1.0,
        "beam 2 x 2": 1.0,
        "best at the beam's tokens: last promise": 1.0,  # two samples of the first task, one of the second
        "best at the beam's tokens: true outcome": 1.0,
    }
    assert {name: row.success[0] for name, row in rows.items()} == pytest.approx(want)
    assert rows["one sample"].costs == {
        "generated_tokens": 10, "env_steps": 5, "replayed_steps": 0, "scored_steps": 0, "scored_tokens": 0
    }  # fmt: skip
    assert rows["best of 3: at random"].costs["scored_tokens"] == 0
    assert rows["best of 3: last promise"].costs["scored_tokens"] == 90
    assert rows["best of 3: last promise"].costs["scored_steps"] == 15
    assert rows["best at the beam's tokens: last promise"].costs["generated_tokens"] == 15
    assert rows["beam 2 x 2"].costs == {
        "generated_tokens": 12.5, "env_steps": 9, "replayed_steps": 2, "scored_steps": 7, "scored_tokens": 70
    }  # fmt: skip
    assert result.differences["beam 2 x 2 - one sample"][0] == 0.5
    assert [len(within_tokens(r)) for r in records] == [2, 1]


def test_the_interval_of_a_share_is_wilsons():
    assert wilson(5, 10) == pytest.approx((0.5, 0.2366, 0.7634), abs=1e-4)  # Brown, Cai, DasGupta 2001
    assert wilson(10, 10) == pytest.approx((1.0, 0.7225, 1.0), abs=1e-4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of `apportion train` that only has its start."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("run") / "r"
    settings = {**SMALL, "env_options": GAME, "iterations": 0, "eval_tasks": 0, "tensorboard": False, "out": str(out)}
    train(TrainConfig(**settings))
    return out


QUICK = SearchSettings(n=3, width=2, branch=2, tasks=5, at_once=2)


def test_a_search_is_repeated_stopped_and_gone_on_with_to_equal_numbers(run, tmp_path):
    model = prm(400)
    model.save(tmp_path / "prm")
    config = run_config(run)
    want = search(config, model, QUICK)
    a = search(config, tmp_path / "prm", QUICK, out=tmp_path / "a")
    assert a.rows == want.rows
    assert a.differences == want.differences
    assert len(want.rows) == 9

    def stop(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(config, model, QUICK, out=tmp_path / "b", progress=stop)
    seen = []
    b = search(config, model, QUICK, out=tmp_path / "b", resume=True, progress=lambda *now: seen.append(now))
    assert b.rows == want.rows
    assert seen == [(2, 5), (4, 5), (5, 5)]
    kept = read_jsonl(tmp_path / "b" / "trajectories.jsonl")
    whole = read_jsonl(tmp_path / "a" / "trajectories.jsonl")
    assert [t.id for t in kept] == [t.id for t in whole]
    promised = [t for t in whole if t.meta["search"]["by"] == "sample"]
    for t in promised:
        told = [s.rewards["promise"] for s in t.steps]
        assert t.meta["search"]["last"] == told[-1] == pytest.approx(model.promises(Batch.from_trajectories([t]))[-1])
        assert t.meta["search"]["min"] == min(told)
    document = json.loads((tmp_path / "b" / "search.json").read_text())
    assert document["rows"][0]["name"] == "one sample"
    assert document["settings"]["n"] == 3
    with pytest.raises(CheckpointError, match="holds a search with another settings"):
        search(config, model, replace(QUICK, seed=1), out=tmp_path / "b", resume=True)
    with pytest.raises(CheckpointError, match="holds a search with another model"):
        search(config, shaken(prm(400)), QUICK, out=tmp_path / "b", resume=True)
    with pytest.raises(ConfigError, match="holds a search already; resume it"):
        search(config, model, QUICK, out=tmp_path / "b")
    with pytest.raises(CheckpointError, match="holds no search to go on with"):
        search(config, model, QUICK, out=tmp_path / "c", resume=True)


def test_more_rollouts_are_played_where_the_beam_generated_more(run):
    result = search(run_config(run), prm(400), replace(QUICK, n=1, tasks=2))
    rows = {row.name: row.costs["generated_tokens"] for row in result.rows}
    beam, fair = rows["beam 2 x 2"], rows["best at the beam's tokens: last promise"]
    assert rows["one sample"] < fair <= beam
    assert beam - fair < rows["one sample"] * 2


def test_a_noisy_environment_is_named(tmp_path):
    noisy = {"horizon": 5, "n": 1, "apples": 1}
    settings = {**SMALL, "env": "keydoor", "env_options": noisy, "iterations": 0, "eval_tasks": 0}
    train(TrainConfig(**settings, tensorboard=False, out=str(tmp_path / "r")))
    result = search(run_config(tmp_path / "r"), prm(400), replace(QUICK, tasks=2))
    assert "noisy" in result.notes[0]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"mode": "beams"}, "mode is 'beams'; give one of both, best-of-n, beam"),
        ({"score": "max"}, "score is 'max'; give one of last, min, mean"),
        ({"tasks": 0}, "tasks is 0; give a whole number from 1 up"),
        ({"n": 0}, "n is 0; give a whole number from 1 up"),
        ({"width": 1, "branch": 1}, "chooses nothing"),
    ],
)
def test_settings_that_cannot_be_used(how, says):
    with pytest.raises(ConfigError, match=says):
        SearchSettings(**how)


def test_a_run_tells_how_its_policy_is_asked(run, tmp_path):
    config = run_config(run)
    assert (config.env, config.env_options, config.start) == ("crafttree", GAME, str(run / "policy"))
    assert run_config(run / "policy", overrides=["env_options.budget=3"]).env_options == {**GAME, "budget": 3}
    echoed = json.loads((run / "config.json").read_text())
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "policy").symlink_to(run / "policy")
    (tmp_path / "r" / "config.json").write_text(json.dumps({**echoed, "eval_options": {"budget": 1}, "credit": "gone"}))
    assert run_config(tmp_path / "r").env_options == {**GAME, "budget": 1}
    assert run_config(run, env="keydoor").env_options == {}
    with pytest.raises(ConfigError, match="holds no policy"):
        run_config(tmp_path)
    with pytest.raises(ConfigError, match="reads no setting 'lr'"):
        run_config(run, overrides=["lr=1"])
    with pytest.raises(ConfigError, match=r"knows 12 token ids .* fit it with --vocabulary"):
        search(config, prm(12), QUICK)
