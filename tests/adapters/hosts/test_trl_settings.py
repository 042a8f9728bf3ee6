"""Which of TRL's settings go with credit inside rollouts: those that do make a step, the others are refused."""

import json
import warnings

import numpy as np
import pytest

import apportion as ap
from apportion.adapters.crediting import Crediting
from apportion.adapters.log import TokenLog
from apportion.asks import Continuation, Move
from apportion.errors import ConfigError, DataError, ResourceError
from apportion.resources import Asker, Table
from tests.adapters.hosts.test_trl import GENERATIONS, ROWS, rollouts, want

pytest.importorskip("trl", reason="TRL is not installed (pip install 'apportion[trl]')")
pytestmark = pytest.mark.xdist_group("trl")

TOKEN_LOSSES = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo")
GIGPO = {"method": "gigpo", "unit": "step", "gamma": 0.9}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    from tests.adapters.hosts import trl_run

    return trl_run.saved_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def train(saved, tmp_path):
    from tests.adapters.hosts import trl_run

    def go(**options):
        trainer = trl_run.main(tmp_path, saved, **options)
        return trainer, json.loads((tmp_path / "rank-0.json").read_text())

    return go


def agrees(result, **params):
    """Every row that reached the loss has the numbers of `assign`, whichever batch it came from."""
    expected = {}
    for step in {row["step"] for row in result["made"]}:
        expected |= want([result], step, **params)
    for row in result["seen"]:
        advantage, weight = expected[tuple(row["prompt"]), tuple(row["completion"])]
        np.testing.assert_allclose(row["advantage"][: len(advantage)], advantage, atol=1e-5)
        assert row["trained"][: len(weight)] == weight.astype(int).tolist()


@pytest.mark.parametrize("loss", TOKEN_LOSSES)
def test_every_loss_over_tokens_trains(train, loss):
    _, result = train(**GIGPO, config={"loss_type": loss, "max_steps": 1})
    assert result["moved"] > 1e-5
    agrees(result, **GIGPO)


@pytest.mark.parametrize(
    "settings",
    [{"importance_sampling_level": "sequence", "loss_type": loss} for loss in ("grpo", "luspo")]
    + [{"loss_type": "vespo"}, {"off_policy_mask_threshold": 0.5}],
    ids=str,
)
def test_settings_over_whole_rollouts_train_with_credit_of_whole_rollouts(train, settings):
    _, result = train(method="grpo", config={**settings, "max_steps": 1})
    assert result["moved"] > 1e-5
    with pytest.raises(ConfigError, match="a method that gives a rollout one number"):
        train(**GIGPO, config={**settings, "max_steps": 1})


def test_each_row_of_a_generation_is_used_as_often_as_it_should(train):
    split = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2, "steps_per_generation": 4}
    _, result = train(**GIGPO, config={**split, "num_iterations": 2, "max_steps": 4})
    assert len(result["made"]) == ROWS
    times = [sum(row["completion"] == made["completion_ids"] for row in result["seen"]) for made in result["made"]]
    assert times == [2] * ROWS
    agrees(result, **GIGPO)


def test_batches_made_in_one_step_of_the_optimizer_have_their_own_groups(train):
    names = []
    train(
        **GIGPO,
        config={
            "per_device_train_batch_size": GENERATIONS,
            "gradient_accumulation_steps": 2,
            "steps_per_generation": 1,
            "max_steps": 1,
        },
        on_credit=[lambda credit, step: names.append(credit.units.batch.group_names)],
    )
    assert names == [("step-0/prompt-0",), ("step-0-2/prompt-0",)]


def test_an_evaluation_is_credited_in_groups_of_its_own_size(train):
    groups = []
    _, result = train(
        **GIGPO,
        evaluated=True,
        config={
            "eval_strategy": "steps",
            "eval_steps": 1,
            "max_steps": 1,
            "num_generations_eval": 2,
            "per_device_eval_batch_size": 8,
        },
        on_credit=[lambda credit, step: groups.append(credit.units.batch.group_names)],
    )
    assert groups == [tuple(f"step-0/prompt-{g}" for g in range(3)), tuple(f"eval-step-1/prompt-{g}" for g in range(4))]
    assert any("eval_credit/mean_abs" in entry for entry in result["history"])


class Twice:
    """Ends a run at the second batch that it remembers."""

    def __init__(self):
        self.heard, self.remembered = [], 0

    def __call__(self, credit, step):
        self.heard.append(credit.units.batch.group_names[0].partition("/")[0])
        self.remembered += 1
        if self.remembered == 2:
            raise ap.StopRun("twice")

    def state(self):
        return {"remembered": self.remembered}

    def restore(self, state):
        self.remembered = state["remembered"]


def test_an_evaluation_neither_ends_a_run_nor_counts_towards_its_end(train):
    listener = Twice()
    settings = {
        "eval_strategy": "steps",
        "eval_steps": 1,
        "num_generations_eval": 2,
        "per_device_eval_batch_size": 4,
    }
    trainer, _ = train(**GIGPO, evaluated=True, config=settings, on_credit=[listener])
    assert listener.heard == ["step-0", "eval-step-1", "eval-step-1-2", "step-1", "eval-step-2", "eval-step-2-2"]
    assert (trainer.state.global_step, trainer.credit_stopped) == (2, "twice")


def test_an_evaluation_asks_nobody(train):
    settings = {
        "eval_strategy": "steps",
        "eval_steps": 1,
        "max_steps": 1,
        "num_generations_eval": 2,
        "per_device_eval_batch_size": 8,
    }
    _, plain = train(method="vineppo", k=1, asks=True, config={"max_steps": 1})
    _, result = train(method="vineppo", k=1, asks=True, evaluated=True, config=settings, whole_rollouts_in_eval=True)
    assert result["calls"] == plain["calls"] > 0


def test_a_batch_of_which_nothing_is_trained_is_said_once(train):
    unscored = Continuation((Move((1,), action="a"),), scored=False)
    ask = Asker(Table(lambda request: unscored, kinds=["continue"], identity="no scorer"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _, result = train(method="vineppo", k=1, ask=ask, config={"max_steps": 2})
    assert not any(any(row["trained"]) for row in result["seen"])
    (said,) = [str(w.message) for w in told if "no token of a batch is trained" in str(w.message)]
    assert "(metric credit/share_of_tokens_trained): 'vineppo' asked " in said
    assert said.endswith("a policy that is asked to go on needs a scorer that says what it reached")


def test_a_list_that_does_not_reach_every_row_is_a_sentence(train, monkeypatch):
    from apportion.adapters.trl.rollouts import with_whole_lists
    from tests.adapters.hosts import trl_run

    def cut(output):
        return {**output, "states": output["states"][:-2]}

    real = trl_run.with_credit

    def short(trainer, *args, **kwargs):
        class Told(trainer):
            def __init__(self, *args, rollout_func, **kwargs):
                super().__init__(*args, rollout_func=lambda *given: cut(rollout_func(*given)), **kwargs)

        return real(Told, *args, **kwargs)

    monkeypatch.setattr(trl_run, "with_credit", short)
    with pytest.raises(DataError, match=rf"rollout_func returned {ROWS - 2} states for {ROWS} prompts; give one entry"):
        train(**GIGPO)
    told = {"completion_ids": [[1], [2]], "states": [], "steps": [[], []], "score": 1.0}
    assert with_whole_lists(lambda prompts: told)([0, 1]) is told


def test_a_lora_adapter_is_trained(saved, tmp_path):
    peft = pytest.importorskip("peft")
    from datasets import Dataset
    from trl import GRPOTrainer

    from apportion.adapters.trl import with_credit
    from tests.adapters.hosts import trl_tiny as tiny

    tok = tiny.tokenizer()
    trainer = with_credit(GRPOTrainer, "tempo")(
        model=tiny.model(tok),
        reward_funcs=lambda completions, **_: [float(i) for i, _ in enumerate(completions)],
        args=tiny.config(tmp_path),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "hi"}]}] * 4),
        processing_class=tok,
        peft_config=peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    )
    assert tiny.change(trainer) > 1e-6


def test_what_trl_masks_as_truncated_votes_in_no_group(train):
    credits = []
    _, result = train(
        **GIGPO,
        ended=True,
        config={"mask_truncated_completions": True, "max_steps": 1},
        on_credit=[lambda credit, step: credits.append(credit)],
    )
    rows = sorted(result["made"], key=lambda row: row["row"])
    cut = [row["completion_ids"][-1] != 1 for row in rows]
    assert 2 < sum(cut) < ROWS - 2
    batch = credits[0].units.batch
    assert batch.has_tokens_N.tolist() == [not c for c in cut]
    # the others have the credit they have without them
    _, made = rollouts([result], 0)
    kept = [t for t, c in zip(made, cut, strict=True) if not c]
    expected = ap.assign("gigpo", ap.by_step(ap.Batch.from_trajectories(kept)), gamma=0.9)
    own = np.isin(credits[0].units.traj_of_S, np.flatnonzero(~np.array(cut)))
    np.testing.assert_allclose(credits[0].advantage_S[own], expected.advantage_S, atol=1e-6)
    for row in result["seen"]:
        trained = row["completion"] in [r["completion_ids"] for r, c in zip(rows, cut, strict=True) if not c]
        assert any(row["trained"]) is (
            trained and any(r["scored"] for r in rows if r["completion_ids"] == row["completion"])
        )


def test_a_completion_without_its_end_token_was_cut_by_a_limit(train):
    credits = []
    train(
        **GIGPO,
        ended=True,
        config={"max_steps": 1},
        on_credit=[lambda credit, step: credits.append(credit.units.batch)],
    )
    assert credits[0].truncated_N.tolist() == [False, True] * (ROWS // 2)


def test_our_credit_is_in_trls_table_of_completions(train, tmp_path):
    import pyarrow.parquet as pq

    credits = []
    train(
        **GIGPO,
        config={"log_completions": True, "max_steps": 1},
        on_credit=[lambda credit, step: credits.append(credit)],
    )
    table = pq.read_table(next(tmp_path.rglob("completions_*.parquet")))
    tokens = list(credits[0].to_tokens().split())
    means = [part.advantage[part.weight > 0].mean() if part.weight.any() else 0.0 for part in tokens]
    assert table["advantage"].to_pylist() == pytest.approx(means)


def test_a_log_of_the_run_is_credit_that_can_be_read_again(train, tmp_path):
    credits = []
    log = TokenLog(tmp_path / "log")
    train(**GIGPO, config={"max_steps": 2}, on_credit=[log, lambda credit, step: credits.append(credit)])
    for step, credit in enumerate(credits):
        again = ap.read_credit(tmp_path / "log" / f"step-{step:06d}.parquet")
        np.testing.assert_array_equal(again.advantage_S, credit.advantage_S)
        assert again.units.batch.fingerprint() == credit.units.batch.fingerprint()
        np.testing.assert_array_equal(ap.remake(again.record(), again.units).advantage_S, credit.advantage_S)
    assert len(credits) == 2


def test_evaluations_have_files_of_their_own_in_a_log(train, tmp_path):
    settings = {"eval_strategy": "steps", "eval_steps": 1, "num_generations_eval": 2, "per_device_eval_batch_size": 4}
    train(**GIGPO, evaluated=True, config={**settings, "max_steps": 2}, on_credit=[TokenLog(tmp_path / "log")])
    files = sorted(path.name.removesuffix(".parquet") for path in (tmp_path / "log").iterdir())
    steps = ["step-000000", "step-000001"]
    assert files == ["eval-step-000001", "eval-step-000001-2", "eval-step-000002", "eval-step-000002-2", *steps]
    names = ap.read_credit(tmp_path / "log" / "eval-step-000002-2.parquet").units.batch.group_names
    assert {name.partition("/")[0] for name in names} == {"eval-step-2-2"}


@pytest.mark.parametrize("method", ["grpo | entropy_mask", "grpo | surprisal_weight", "reinforce_pp(kl_coef=0.1)"])
def test_scores_that_trl_did_not_need_are_computed(tmp_path, method):
    import torch
    from datasets import Dataset
    from trl import GRPOTrainer

    from apportion.adapters.trl import with_credit
    from tests.adapters.hosts import trl_tiny as tiny

    tok, credits = tiny.tokenizer(), []
    tiny.model(tok).save_pretrained(tmp_path / "model")  # a path, of which TRL makes the reference model
    trainer = with_credit(GRPOTrainer, method, on_credit=lambda credit, step: credits.append(credit))(
        model=str(tmp_path / "model"),
        reward_funcs=lambda completions, **_: [float(i) for i, _ in enumerate(completions)],
        args=tiny.config(tmp_path, beta=0.01 if "kl_coef" in method else 0.0),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "hi"}]}] * 4),
        processing_class=tok,
    )
    untouched = tiny.model(tok)
    trainer.train()
    for trajectory in credits[0].units.batch.trajectories:
        step = trajectory.steps[0]
        ids = torch.tensor([[*step.prompt_ids.tolist(), *step.ids.tolist()]])
        with torch.no_grad():
            log = torch.log_softmax(untouched(ids).logits[0, len(step.prompt_ids) - 1 : -1].double(), dim=-1)
        if method.endswith("entropy_mask"):
            np.testing.assert_allclose(step.entropy, -(log.exp() * log).sum(-1).numpy(), atol=1e-4)
        else:
            own = log[torch.arange(len(step.ids)), torch.tensor(step.ids)]
            np.testing.assert_allclose(step.logp, own.numpy(), atol=1e-4)


def test_segments_by_text_are_cut_with_the_trainers_tokenizer(train):
    credits = []
    trainer, _ = train(
        method="reinforce",
        unit="segment(by='sentence')",
        config={"max_steps": 1},
        on_credit=[lambda c, _: credits.append(c)],
    )
    units = credits[0].units
    assert units.level == "segment"
    decode = ap.units.token_texts(trainer.processing_class.decode)
    again = ap.by_segment(units.batch, "sentence", decode=decode)
    np.testing.assert_array_equal(units.unit_of_T, again.unit_of_T)


def test_a_failure_of_the_one_that_asks_reaches_the_others():
    from types import SimpleNamespace

    from apportion.adapters.trl import trainer as module

    sent = []
    accelerator = SimpleNamespace(is_main_process=False, num_processes=2)
    crediting = SimpleNamespace(asks=True)
    with pytest.MonkeyPatch.context() as patch:
        import accelerate.utils

        patch.setattr(accelerate.utils, "broadcast_object_list", lambda x: x.__setitem__(1, "the budget is spent"))
        with pytest.raises(ResourceError, match="the main process could not make the credit: the budget is spent"):
            module._agreed(SimpleNamespace(accelerator=accelerator), crediting, [], ())

        accelerator.is_main_process = True
        patch.setattr(accelerate.utils, "broadcast_object_list", lambda x: sent.extend(x))
        patch.setattr(module, "_credited", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            module._agreed(SimpleNamespace(accelerator=accelerator), crediting, [], ())
    assert sent == [None, "division by zero"]


def test_what_cannot_be_right_is_refused(tmp_path):
    from trl import GRPOTrainer, RLOOTrainer

    from apportion.adapters.trl import with_credit
    from apportion.adapters.trl.contract import check_settings
    from tests.adapters.hosts.trl_tiny import config

    with pytest.raises(ConfigError, match=r"with_credit takes trl\.GRPOTrainer or a subclass of it, got RLOOTrainer"):
        with_credit(RLOOTrainer, "gigpo")
    with pytest.raises(ConfigError, match="got 3"):
        with_credit(3, "gigpo")
    with pytest.raises(ap.UnknownName, match="did you mean 'gigpo'"):
        with_credit(GRPOTrainer, "gigpoo")
    with pytest.raises(ConfigError, match="gigpo: unknown parameter 'gama'"):
        with_credit(GRPOTrainer, "gigpo", gama=0.9)
    with pytest.raises(ConfigError, match="no unit named 'stpe'"):
        with_credit(GRPOTrainer, "gigpo", unit="stpe")
    with pytest.raises(ConfigError, match="'vineppo' asks somebody for more than the rollouts; give ask=Asker"):
        with_credit(GRPOTrainer, "vineppo")
    for wrong in ("runs/log", 3, [print, "runs/log"]):
        with pytest.raises(ConfigError, match=r"on_credit holds ('runs/log'|3), which cannot be called"):
            with_credit(GRPOTrainer, "gigpo", on_credit=wrong)
    with pytest.raises(ConfigError, match="GRPOTrainer credits by 'grpo' already; give with_credit the trainer that"):
        with_credit(with_credit(GRPOTrainer, "grpo"), "gigpo")

    class OwnLoss(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            return inputs["advantages"].mean()

    with pytest.raises(ConfigError, match="OwnLoss has a _compute_loss of its own"):
        with_credit(OwnLoss, "gigpo")

    for settings, why in (
        ({"importance_sampling_level": "sequence"}, "importance_sampling_level='sequence' gives every token"),
        ({"loss_type": "vespo"}, "loss_type='vespo' picks its weights by the sign"),
        ({"off_policy_mask_threshold": 0.1}, "off_policy_mask_threshold drops whole rollouts"),
    ):
        with pytest.raises(ConfigError, match=why):
            check_settings(config(tmp_path, **settings), Crediting("gigpo"), rollouts_tell=True)
        with pytest.raises(ConfigError, match=r"a method that gives a rollout one number, such as 'grpo'$"):
            check_settings(config(tmp_path, **settings), Crediting("gigpo"), rollouts_tell=True)
        with pytest.raises(ConfigError, match=r"unit='episode'$"):
            check_settings(config(tmp_path, **settings), Crediting("grpo", "step"), rollouts_tell=True)
        check_settings(config(tmp_path, **settings), Crediting("grpo"), rollouts_tell=True)

    plain = config(tmp_path)
    with pytest.raises(ConfigError, match="'gae' reads the values of a critic, and TRL has none"):
        check_settings(plain, Crediting("gae"), rollouts_tell=False)
    check_settings(plain, Crediting("gae"), rollouts_tell=True)
    with pytest.raises(
        ConfigError, match=r"let rollout_func return 'token_values' \(one per completion token\), or choose"
    ):
        check_settings(plain, Crediting("gae"), rollouts_tell=False)
    with pytest.raises(ConfigError, match=r"'values' \(one per step\) or 'token_values' .* environment keep 'values'"):
        check_settings(plain, Crediting("step_gae"), rollouts_tell=False)
    with pytest.raises(ConfigError, match="'otb' reads the column 'prob_square', and TRL has none; let rollout_func"):
        check_settings(plain, Crediting("otb"), rollouts_tell=False)
    check_settings(plain, Crediting("otb"), rollouts_tell=True)
    with pytest.raises(
        ConfigError, match="'implicit_q' reads log-probabilities of a reference policy, and with beta=0"
    ):
        check_settings(plain, Crediting("implicit_q"), rollouts_tell=True)
    check_settings(config(tmp_path, beta=0.01), Crediting("implicit_q"), rollouts_tell=True)
    with pytest.raises(ConfigError, match="'reinforce_pp' reads log-probabilities of a reference policy"):
        check_settings(plain, Crediting("reinforce_pp", params={"kl_coef": 0.1}), rollouts_tell=True)
    check_settings(plain, Crediting("reinforce_pp", params={"kl_coef": 0.0}), rollouts_tell=True)
    with pytest.raises(ConfigError, match="normalize_then_sum' would have no effect"):
        check_settings(
            config(tmp_path, multi_objective_aggregation="normalize_then_sum"), Crediting("grpo"), rollouts_tell=True
        )


def test_scale_rewards_is_said_only_where_the_method_does_something_else(tmp_path):
    from apportion.adapters.trl.contract import check_settings
    from tests.adapters.hosts.trl_tiny import config

    def said(scale_rewards, method, **params):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            crediting = Crediting(method, params=params)
            check_settings(config(tmp_path, scale_rewards=scale_rewards), crediting, rollouts_tell=True)
        return " ".join(str(w.message).partition(",")[0] for w in told if "scale_rewards" in str(w.message))

    for wanted in ("none", False):
        assert said(wanted, "grpo").startswith(
            "scale_rewards='none' has no effect: how credit is scaled is a parameter"
        )
        for alike in ("dr_grpo", "gigpo", "grpo(scale='none')", "rloo + 0.5*gigpo"):
            assert not said(wanted, alike)
    assert not said("none", "grpo", scale="none")
    assert not said("batch", "grpo", scale="batch")
    assert "has no effect" in said("batch", "reinforce_pp")
    assert "has no effect" in said("none", "dr_grpo | whiten")
    for raw in ("gigpo", "mt_grpo", "dr_grpo"):
        assert said("group", raw) == "scale_rewards='group'"
    for scaled in ("grpo", "gigpo(scale='std')", "grpo + 0.5*gigpo", "gigpo | whiten"):
        assert not said("group", scaled)


def test_a_trainer_that_changes_its_rows_is_refused(saved, tmp_path):
    from types import SimpleNamespace

    from apportion.adapters.trl import trainer as module

    with pytest.raises(ConfigError, match="made 2 rows of 4, so that groups are unknown"):
        module._put_credit(SimpleNamespace(), Crediting("grpo"), (), {"completion_ids": [0, 0]}, [{}] * 4)


def test_another_trl_gets_a_sentence():
    from types import SimpleNamespace

    from apportion.adapters.trl.contract import check_attributes, check_class

    class GRPOTrainer:
        def _generate_and_score_completions(self, batch): ...

    with pytest.raises(
        ConfigError, match=r"has no _generate_and_score_completions\(self, inputs\); with_credit was tested"
    ):
        check_class(GRPOTrainer)

    class Later:
        def _generate_and_score_completions(self, inputs): ...
        def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list): ...
        def _generate_single_turn(self, prompt_ids): ...
        def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep): ...
        def _compute_loss(self, model, inputs): ...

    Later.__name__ = "GRPOTrainer"
    with pytest.raises(ConfigError, match=r"no longer takes advantages of shape \(B, T\)"):
        check_class(Later)
    with pytest.raises(ConfigError, match="has no accelerator; with_credit was tested"):
        check_attributes(SimpleNamespace())
