"""Rollouts for verl's advantage stage, and two hosts to run it: verl itself on a local Ray, and a stand-in.

The stand-in has the same names and the same flow (fetch, subtract, correct, compare, put back) in plain Python, so that
the same tests run where verl is not installed.
"""

import importlib
import importlib.util
import itertools
import os
import sys
import types
from collections import defaultdict

import numpy as np
import torch

import apportion as ap
from apportion.adapters.verl import contract, stage

STATES = ("hall", "cellar", "attic")
NUMBERS = itertools.count()
PRESENT = importlib.util.find_spec("verl") is not None
WHY = "verl is not installed; `make test-verl` makes an environment that has it"


class Config(dict):
    """A configuration as the trainer's: attributes, and `get`."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def config(adv_estimator, section=None, **algorithm):
    own = {"apportion": Config(section)} if section is not None else {}
    defaults = {"gamma": 1.0, "lam": 1.0, "use_kl_in_reward": False, "kl_penalty": "kl"}
    return Config(
        algorithm=Config(defaults | own | algorithm, adv_estimator=adv_estimator),
        actor_rollout_ref=Config(rollout=Config(n=2), actor=Config(policy_loss=Config(loss_mode="vanilla"))),
    )


def rollout(rng, group, session, *, outputs=None, scored=True):
    """One rollout as rows: outputs of steps of tokens, observations between the steps."""
    rows, total = [], 0.0
    for order in range(outputs or int(rng.integers(1, 4))):
        ids, mask, spans, rewards, states = [], [], [], [], []
        count = int(rng.integers(1, 4))
        for s in range(count):
            size = int(rng.integers(1, 4))
            spans.append([len(ids), len(ids) + size])
            ids += rng.integers(10, 16, size=size).tolist()
            mask += [1] * size
            rewards.append(round(float(rng.normal()), 3))
            states.append("start" if order == s == 0 else STATES[int(rng.integers(len(STATES)))])
            if s < count - 1 or rng.random() < 0.3:
                seen = int(rng.integers(1, 3))
                ids += rng.integers(20, 30, size=seen).tolist()
                mask += [0] * seen
        total += sum(rewards)
        rows.append(
            {
                "key": f"{group}_{session}_{order}",
                "uid": group,
                "prompts": rng.integers(30, 40, size=int(rng.integers(1, 4))).tolist(),
                "responses": ids,
                "response_mask": mask,
                "rollout_log_probs": np.where(rng.random(len(ids)) < 0.3, -0.01, -1.0).tolist(),
                "old_log_probs": [-1.0] * len(ids),
                "ref_log_prob": [-1.5] * len(ids),
                "extra_fields": {"steps": spans, "step_rewards": rewards, "states": states},
            }
        )
    for row in rows:  # verl writes the score of the rollout on the last token of each of its rows
        row["score"] = total if scored else float("nan")
    return rows


def batch_of_rows(seed, groups=3, sessions=4, **options):
    rng = np.random.default_rng(seed)
    return [
        row for g in range(groups) for s in range(sessions) for row in rollout(rng, f"task_{g}", s, **options)
    ]  # a uid may hold the sign that separates it


def fields_of(row):
    """What lies in the queue under the row's key."""
    score = torch.zeros(len(row["responses"]))
    if len(score):
        score[-1] = row["score"]
    if "scores" in row:
        score = torch.tensor(row["scores"])
    out = {"uid": row["uid"], "rm_scores": score, "extra_fields": row["extra_fields"]}
    for name in ("prompts", "responses", "response_mask"):
        out[name] = torch.tensor(row[name], dtype=torch.int64)
    out["loss_mask"] = out["response_mask"].clone()
    for name in ("rollout_log_probs", "old_log_probs", "ref_log_prob", "values", "entropy"):
        if name in row:
            out[name] = torch.tensor(row[name], dtype=torch.float32)
    return out


def padding_rows(rows, count):
    """No-op rows as verl appends them: one token without a mask, and everything else of the first row."""
    name = f"pad{count:032x}"
    like = dict(rows[0], uid=name, prompts=[1], responses=[1], response_mask=[0], score=0.0)
    for column in ("rollout_log_probs", "old_log_probs", "ref_log_prob", "values", "entropy"):
        if column in like:
            like[column] = [0.0]
    return [dict(like, key=f"{name}_{i}_0", padding=True) for i in range(count)]


def wanted(rows, method, unit=None, states="exact", **params):
    """Advantage and weight of every response token by key: the rollouts made here, without the adapter."""
    sessions = defaultdict(list)
    for row in rows:
        if not row.get("padding"):
            sessions[row["key"].rsplit("_", 1)[0]].append(row)
    made, names = [], sorted(sessions)
    for name in names:
        steps = []
        for k, row in enumerate(sorted(sessions[name], key=lambda row: int(row["key"].rsplit("_", 1)[1]))):
            done = 0
            for s, (first, last) in enumerate(row["extra_fields"]["steps"]):
                context = row["responses"][done:first]
                steps.append(
                    ap.Step(
                        prompt_ids=context if s else row["prompts"] + context,
                        ids=row["responses"][first:last],
                        fresh=k > 0 and s == 0,
                        logp=row["rollout_log_probs"][first:last],
                        reward=None if np.isnan(row["score"]) else row["extra_fields"]["step_rewards"][s],
                        state=row["extra_fields"]["states"][s],
                    )
                )
                done = last
        made.append(ap.Trajectory(steps, group=sessions[name][0]["uid"], id=name))
    unit = unit or ap.describe(method.split(" ")[0]).unit
    options = {} if states == "exact" else {"state": states}
    credit = ap.assign(method, getattr(ap, f"by_{unit}")(ap.Batch.from_trajectories(made), **options), **params)
    out = {}
    for name, tokens in zip(names, credit.to_tokens().split(), strict=True):
        advantage, weight = list(tokens.advantage[tokens.sampled]), list(tokens.weight[tokens.sampled])
        for row in sorted(sessions[name], key=lambda row: int(row["key"].rsplit("_", 1)[1])):
            own = np.zeros(len(row["responses"])), np.zeros(len(row["responses"]))
            for t, sampled in enumerate(row["response_mask"]):
                if sampled:
                    own[0][t], own[1][t] = advantage.pop(0), weight.pop(0)
            out[row["key"]] = own
    return out


def nested(rows):
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


class Fields(dict):
    """Columns of rows, as a TensorDict holds them."""

    def __init__(self, fields, batch_size=None):
        super().__init__(fields)


class StandIn:
    """The names of verl that the adapter relies on, without verl."""

    def __init__(self):
        self.stored = {}
        self.module = module = types.ModuleType("verl.trainer.ppo.v1.trainer_base")
        module.tq = types.SimpleNamespace(kv_batch_get=self._get, kv_batch_put=self._put)

        class PPOTrainer:
            def __init__(self, config):
                self.config = config

            def _compute_advantage(self, batch, metrics):
                names = ["uid", "response_mask", "rm_scores", "old_log_probs", "ref_log_prob", "values"]
                got = module.tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
                whole = {
                    name: torch.nested.to_padded_tensor(got[name], 0)
                    for name in got
                    if isinstance(got[name], torch.Tensor)
                }
                data = types.SimpleNamespace(batch=whole, non_tensor_batch={"uid": np.array(got["uid"], dtype=object)})
                whole["token_level_scores"] = whole["token_level_rewards"] = whole["rm_scores"]
                if self.config.algorithm.use_kl_in_reward:
                    kl = (whole["old_log_probs"] - whole["ref_log_prob"]) * whole["response_mask"]
                    whole["token_level_rewards"] = whole["rm_scores"] - self.kl_ctrl_in_reward.value * kl
                for at in self.config.algorithm.get("rejected", ()):
                    whole["response_mask"][at] = 0
                module.compute_advantage_for_multi_trajectories(
                    data,
                    batch_keys=batch.keys,
                    adv_estimator=self.config.algorithm.adv_estimator,
                    gamma=1.0,
                    config=self.config.algorithm,
                )
                sizes = [len(row) for row in got["response_mask"].unbind()]
                back = {
                    name: nested([row[:n] for row, n in zip(whole[name], sizes, strict=True)])
                    for name in ("advantages", "returns")
                }
                module.tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=back)
                return batch

            def _save_checkpoint(self):
                home = self.config.trainer.default_local_dir
                folder = os.path.join(home, f"global_step_{self.global_steps}")
                self.actor_rollout_wg.save_checkpoint(os.path.join(folder, "actor"), None, self.global_steps)
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(home, "latest_checkpointed_iteration.txt"), "w") as file:
                    file.write(str(self.global_steps))

            def _load_checkpoint(self):
                self.global_steps, chosen = 0, self.config.trainer
                if chosen.resume_mode == "disable":
                    return
                tracker = os.path.join(chosen.default_local_dir, "latest_checkpointed_iteration.txt")
                if chosen.resume_mode == "resume_path":
                    self.global_steps = int(chosen.resume_from_path.split("global_step_")[-1])
                elif os.path.exists(tracker):
                    with open(tracker) as file:
                        self.global_steps = int(file.read())

        def compute_advantage_for_multi_trajectories(data, batch_keys, adv_estimator, gamma=1.0, config=None):
            data.batch["advantages"] = data.batch["returns"] = torch.full_like(data.batch["rm_scores"], 7.0)

        module.PPOTrainer = PPOTrainer
        module.compute_advantage_for_multi_trajectories = compute_advantage_for_multi_trajectories

    def _get(self, keys, partition_id, select_fields):
        rows = [self.stored[partition_id, key] for key in keys]
        out = {}
        for name in select_fields:
            if all(name in row for row in rows):
                column = [row[name] for row in rows]
                out[name] = nested(column) if isinstance(column[0], torch.Tensor) else column
        return Fields(out)

    def _put(self, keys, partition_id, fields):
        for name, column in fields.items():
            for key, value in zip(keys, column.unbind(), strict=True):
                self.stored.setdefault((partition_id, key), {})[name] = value

    def put(self, rows, partition):
        for row in rows:
            self.stored[partition, row["key"]] = fields_of(row)

    def meta(self, keys, tags, partition):
        return types.SimpleNamespace(keys=keys, tags=tags, partition_id=partition)

    def close(self):
        pass


class Verl(StandIn):
    """verl's own trainer class on TransferQueue in a local Ray."""

    def __init__(self):
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self.module = importlib.import_module("verl.trainer.ppo.v1.trainer_base")
        import ray
        import transfer_queue as tq
        from omegaconf import OmegaConf

        self.ray, self.tq = ray, tq
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
        tq.init(
            OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1, "total_storage_size": 5000}}})
        )

    def put(self, rows, partition):
        from verl.utils.tensordict_utils import list_of_dict_to_tensordict

        self.tq.kv_batch_put(
            keys=[row["key"] for row in rows],
            partition_id=partition,
            fields=list_of_dict_to_tensordict([fields_of(row) for row in rows]),
            tags=[{"status": "success"}] * len(rows),
        )

    def meta(self, keys, tags, partition):
        from transfer_queue import KVBatchMeta

        return KVBatchMeta(keys=keys, tags=tags, partition_id=partition, fields=None, extra_info={})

    def close(self):
        self.tq.close()
        self.ray.shutdown()


def run_stage(host, rows, settings, kl=0.0, trainer=None):
    """Put the rows, run the trainer's advantage stage, and read back: columns by key, and the metrics."""
    partition = f"train-{next(NUMBERS)}"
    host.put(rows, partition)
    keys = [row["key"] for row in rows]
    tags = [{"is_padding": True} if row.get("padding") else {} for row in rows]
    control = types.SimpleNamespace(value=kl, update=lambda **_: None)
    if trainer is None:
        trainer = types.SimpleNamespace(config=settings, kl_ctrl_in_reward=control, global_steps=3)
    metrics = {}
    host.module.PPOTrainer._compute_advantage(trainer, host.meta(keys, tags, partition), metrics)
    names = ["advantages", "returns", "response_mask", "loss_mask"]
    back = host.module.tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=names)
    columns = {name: [row.tolist() for row in back[name].unbind()] for name in names}
    return {key: {name: np.array(columns[name][i]) for name in names} for i, key in enumerate(keys)}, metrics


def stand_in(patch):
    """Changed as verl would be; with something like a TensorDict where there is none."""
    made = StandIn()
    stage.take_place(made.module)
    if importlib.util.find_spec("tensordict") is None:
        patch.setitem(sys.modules, "tensordict", types.SimpleNamespace(TensorDict=Fields))
    patch.setattr(contract, "version", lambda: "0.9.1")
    return made
