"""The embedded trainer: collect → cut → assign → spread → loss → update, until the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apportion.assign import assign, assign_carrying, remembers
from apportion.credit import Credit
from apportion.data import Batch
from apportion.data.atomic import atomic_write
from apportion.data.jsonl import write_jsonl
from apportion.errors import CheckpointError, ConfigError
from apportion.methods.pooled_memory import Memory
from apportion.models.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from apportion.train.clone import clone
from apportion.train.companion import Companion, companion_of
from apportion.train.config import CLONE_SEED, TRAIN_SEED, TrainConfig
from apportion.train.evaluate import evaluate
from apportion.train.learner import Learner
from apportion.train.listening import Listening, OnCredit
from apportion.train.metrics import MetricsLog
from apportion.train.numbers import Clock, credit_numbers, rollout_numbers
from apportion.train.policy import Policy
from apportion.train.rehearsal import rehearse
from apportion.train.result import Progress, RunResult, write_result
from apportion.train.rollout import Collector, Rollouts
from apportion.train.surroundings import same_settings, torch_settings
from apportion.train.update import Tally
from apportion.units import Units

TRAIN_STREAM = 1


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_credit: OnCredit | Sequence[OnCredit] = (),
    credit_by: Callable[[Units, Policy], Credit] | None = None,
) -> RunResult:
    """Train a policy as configured.

    Sets torch's thread count and deterministic algorithms while it runs. Draws come from generators that are
    seeded by (seed, purpose, iteration, episode), so a run can be continued anywhere and two methods can be
    compared on equal tasks, start states and draws.

    Args:
        config: every setting.
        resume: continue the run in ``config.out`` from its newest checkpoint. The numbers are those of a run that
            was never stopped, bit by bit.
        on_progress: called after each update of cloning and each iteration.
        on_credit: called with each `Credit` and the iteration, from 0, before the update; numbers that it returns go
            into the metrics. One that raises `StopRun` ends the run without that update: the policy is saved and
            evaluated, and the reason is in the metrics and the result. What one with ``state`` and ``restore``
            remembers is kept with checkpoints; give it again when resuming.
        credit_by: gives the credit in place of ``method``, from the units and the policy as it is: for a control
            that knows more than a method may, such as the exact advantage. Give it again when resuming.

    Raises:
        ConfigError: the folder holds a run already, or a setting cannot be used.
        CheckpointError: nothing to resume from, or it is of other settings.
    """
    with torch_settings(config):
        run = _Run(config, on_progress or (lambda progress: None), Listening(on_credit), credit_by)
        try:
            return run.resume() if resume else run.start()
        finally:
            run.close()


class _Run:
    def __init__(
        self,
        config: TrainConfig,
        report: Callable[[Progress], None],
        listening: Listening,
        credit_by: Callable[[Units, Policy], Credit] | None,
    ) -> None:
        self.config, self.report, self.listening, self.credit_by = config, report, listening, credit_by
        self.folder = Path(config.out)
        self.began = time.perf_counter()
        self.collector = Collector(config.env, config.env_options, micro_tokens=config.micro_tokens)
        self.examiner = self.collector  # plays the held-out tasks
        if config.eval_options:
            options = {**config.env_options, **config.eval_options}
            self.examiner = Collector(config.env, options, micro_tokens=config.micro_tokens)
        self.policy: Policy
        self.learner: Learner
        self.log: MetricsLog | None = None
        self.generated = self.episodes = 0
        self.memory: Memory | None = None
        self.companion: Companion | None = None
        self.before: dict[str, float] = {}
        self.after: dict[str, float] = {}
        self.seconds = {"credit": 0.0, "iteration": 0.0}

    def start(self) -> RunResult:
        """From the warm start on."""
        config = self.config
        if checkpoints(self.folder / "checkpoints") or (self.folder / "policy").exists():
            raise ConfigError(f"{self.folder} holds a run already; resume it, or give another out")
        self.policy = Policy.from_config(config, self.collector.env)
        self.companion = companion_of(config, self.policy)
        rehearse(config, self.collector, self.policy, self.companion)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_write(self.folder / "config.json") as file:
            file.write(config.to_json().encode())
        self.log = MetricsLog(self.folder, tensorboard=config.tensorboard)
        line: dict[str, Any] = {}
        if config.start is None and config.clone_episodes:
            began = time.perf_counter()
            seeds = range(CLONE_SEED, CLONE_SEED + config.clone_episodes)
            line["clone"] = clone(self.policy, self.collector.env, config, seeds, self._cloned)
            line["seconds"] = {"clone": time.perf_counter() - began}
        self.policy.save(self.folder / "start")
        if self.companion is not None:
            self.companion.begin()
        self.before = self._evaluate(0)
        if self.before:
            line["eval"] = self.before
        self.log.write(0, line)
        self.learner = self._learner()
        self._checkpoint(0)
        return self._iterate(0)

    def resume(self) -> RunResult:
        """From the newest checkpoint on."""
        echoed = self.folder / "config.json"
        if not echoed.is_file():
            raise CheckpointError(f"{self.folder} holds no run; start without resuming")
        same_settings(TrainConfig.from_file(echoed), self.config)
        self.policy = self._start_policy()
        self.learner = self._learner()
        done, counters = load_checkpoint(self.folder / "checkpoints", self.policy.model, self.learner.optimizer)
        self.companion = companion_of(self.config, self.policy)
        if self.companion is not None:
            self.companion.go_on(done)
        self.generated, self.episodes = counters["generated_tokens"], counters["episodes"]
        self.before, self.after = counters["before"], counters["after"]
        if (remembered := counters.get("memory")) is not None:
            self.memory = Memory.from_mapping(remembered)
        self.listening.restore(counters.get("listeners", ()))
        self.log = MetricsLog(
            self.folder, size=counters["metrics_bytes"], iteration=done + 1, tensorboard=self.config.tensorboard
        )
        return self._iterate(done)

    def close(self) -> None:
        """Close files; what is on the disk stays."""
        if self.log is not None:
            self.log.close()

    def _start_policy(self) -> Policy:
        """The policy that the reinforcement learning began with."""
        begun = self.folder / "start"
        values = {**self.config.to_mapping(), "start": str(begun), "model": None}
        return Policy.from_config(TrainConfig.from_mapping(values), self.collector.env)

    def _learner(self) -> Learner:
        return Learner(self.config, self.policy, self._start_policy() if self.config.kl_coef > 0 else None)

    def _iterate(self, done: int) -> RunResult:
        config, log = self.config, self.log
        assert log is not None
        ahead = {"success_greedy", "success_sampled"}
        while done < config.iterations and not self._spent() and self.listening.reason is None:
            line = self._iteration(done)
            done += 1
            last = done == config.iterations or self._spent() or self.listening.reason is not None
            if last or (config.eval_every and done % config.eval_every == 0):
                self.after = self._evaluate(done)
                if self.after:
                    line["eval"] = self.after
            log.write(done, line)
            if last or done % config.checkpoint_every == 0:
                self._checkpoint(done)
            newest = {**line["rollout"], **{k: v for k, v in line.get("eval", {}).items() if k in ahead}}
            self.report(Progress("train", *self._how_far(done), newest))
        self.policy.save(self.folder / "policy")
        if self.companion is not None:
            self.companion.finish()
        return self._result(done)

    def _iteration(self, index: int) -> dict[str, Any]:
        """Everything between two policies."""
        config = self.config
        clock = Clock()
        first = TRAIN_SEED * (config.seed + 1) + index * config.tasks
        collected = self.collector.collect(
            self.policy,
            range(first, first + config.tasks),
            rollouts=config.rollouts,
            stream=(config.seed, TRAIN_STREAM, index),
            name=f"{index}/",
        )
        self.generated += collected.tokens
        self.episodes += len(collected.trajectories)
        clock.lap("collect")
        batch = Batch.from_trajectories(collected.trajectories)
        clock.lap("batch")
        units = config.units(batch)
        critic: dict[str, Any] = {}
        if self.companion is not None:
            clock.lap("credit")
            units, learned = self.companion.iteration(units)
            critic = {"critic": learned} if learned else {}
            clock.lap("critic")
        credit = self._credit(units)
        tokens = credit.to_tokens()
        clock.lap("credit")
        heard = self.listening(credit, index)
        clock.lap("listeners")
        warm = self.companion is None or index >= self.companion.warmup
        tally = self.learner.learn(index, tokens) if warm and self.listening.reason is None else Tally()
        clock.lap("update")
        if config.dump_every and index % config.dump_every == 0:
            self._dump(index, collected)
        total = clock.total()
        self.seconds["credit"] += clock.seconds["credit"]
        self.seconds["iteration"] += total
        return {
            "generated_tokens": self.generated,
            "episodes": self.episodes,
            "rollout": rollout_numbers(collected, batch),
            "credit": credit_numbers(credit),
            **critic,
            **heard,
            "train": {**tally.metrics(), "lr": self.learner.lr},
            "seconds": {
                **clock.seconds,
                "iteration": total,
                "credit_share": clock.seconds["credit"] / total,
            },
        }

    def _credit(self, units: Units) -> Credit:
        """With the memory of earlier batches, for a method that has one."""
        if self.credit_by is not None:
            return self.credit_by(units, self.policy)
        method, params = self.config.method, self.config.method_params
        if not remembers(method, params):
            return assign(method, units, **params)
        credit, self.memory = assign_carrying(method, units, self.memory, **params)
        return credit

    def _evaluate(self, done: int) -> dict[str, float]:
        if not self.config.eval_tasks:
            return {}
        self.report(Progress("evaluate", *self._how_far(done)))
        return evaluate(self.policy, self.examiner, self.config.eval_tasks, seed=self.config.seed)

    def _checkpoint(self, done: int) -> None:
        assert self.log is not None
        if self.companion is not None:
            self.companion.save(done, keep=self.config.keep)
        counters = {
            "generated_tokens": self.generated,
            "episodes": self.episodes,
            "before": self.before,
            "after": self.after,
            "metrics_bytes": self.log.size,
            "memory": None if self.memory is None else self.memory.to_mapping(),
            "listeners": self.listening.state(),
        }
        folder, keep = self.folder / "checkpoints", self.config.keep
        save_checkpoint(folder, done, self.policy.model, self.learner.optimizer, counters, keep=keep)

    def _dump(self, index: int, collected: Rollouts) -> None:
        folder = self.folder / "rollouts"
        folder.mkdir(mode=0o700, exist_ok=True)
        write_jsonl(folder / f"{index:06d}.jsonl", collected.trajectories)

    def _spent(self) -> bool:
        return bool(self.config.token_budget) and self.generated >= self.config.token_budget

    def _how_far(self, done: int) -> tuple[int, int]:
        """In iterations; with a token budget, in what part of it was used, where that is further."""
        total = self.config.iterations
        if self.config.token_budget and self.generated * total > done * self.config.token_budget:
            return min(total, self.generated * total // self.config.token_budget), total
        return done, total

    def _cloned(self, done: int, total: int, loss: float) -> None:
        self.report(Progress("clone", done, total, {"loss": loss}))

    def _result(self, done: int) -> RunResult:
        spent = self.seconds
        result = RunResult(
            folder=self.folder,
            iterations=done,
            generated_tokens=self.generated,
            before=self.before,
            after=self.after or self.before,
            seconds=time.perf_counter() - self.began,
            credit_share=spent["credit"] / spent["iteration"] if spent["iteration"] else 0.0,
            stopped=self.listening.reason,
        )
        write_result(result)
        return result
