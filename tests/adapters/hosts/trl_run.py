"""One training run of TRL with our credit, as a script: ``trl_run.py OUT RUNS`` in one process or under torchrun.

Rollouts are scripted from (step, row of the whole batch), so that they do not depend on how many processes there are.
RUNS is JSON, {name: arguments of main}. Each process writes what its rollouts were and what reached the loss to
OUT/NAME/rank-R.json.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from apportion.adapters.trl import with_credit
from apportion.asks import Continuation, Move
from apportion.resources import Asker, Table

WORDS, GENERATIONS, STEPS = 40, 4, 3
ROWS = 12  # three groups, so that with two processes the second one is in both
STATES = ("hall", "cellar", "attic")


def tokenizer():
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {f"w{i}": i + 3 for i in range(WORDS)}
    made = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    from tokenizers.pre_tokenizers import Whitespace

    made.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS + 3,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config)


def saved_model(folder):
    """On disk, as TRL needs it to make a reference model of it; before the processes know of each other."""
    path = folder / f"model-{os.environ.get('RANK', 0)}"
    model().save_pretrained(path)
    return path


def rollout(step, row, prompt_ids):
    """Two or three steps of one to three tokens, with observations between; one in eight is not scored."""
    rng = np.random.default_rng([step, row])
    completion, mask, spans, rewards, states = [], [], [], [], []
    count = int(rng.integers(2, 4))
    for s in range(count):
        states.append(STATES[int(rng.integers(len(STATES)))] if s else "start")
        size = int(rng.integers(1, 4))
        spans.append((len(completion), len(completion) + size))
        completion += rng.integers(3, 3 + 6, size=size).tolist()  # few words, so that beginnings are shared
        mask += [1] * size
        rewards.append(round(float(rng.normal()), 3))
        if s < count - 1:
            seen = int(rng.integers(1, 3))
            completion += rng.integers(20, 30, size=seen).tolist()
            mask += [0] * seen
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": completion,
        "logprobs": np.where(rng.random(len(completion)) < 0.3, -0.01, -1.0).tolist(),  # some tokens are certain
        "env_mask": mask,
        "steps": spans,
        "step_rewards": rewards,
        "states": states,
        "scored": bool(rng.random() > 1 / 8),
    }


def asker():
    """Answers by the request's seed, which follows from the content of the question."""
    table = Table(
        lambda request: Continuation((Move((1,), action="a", reward=request.seed % 7 / 7),)),
        kinds=["continue"],
        identity="hosts",
    )
    return Asker(table), table


def main(out, saved, method, **options):
    tok, seen, made = tokenizer(), [], []

    def rollout_func(prompts, trainer):
        first = trainer.accelerator.process_index * len(prompts)
        rows = [
            rollout(trainer.state.global_step, first + i, tok(prompt)["input_ids"]) for i, prompt in enumerate(prompts)
        ]
        step = trainer.state.global_step if trainer.model.training else f"eval-{trainer.state.global_step}"
        if ended:  # every other rollout comes to its end
            for row in rows[::2]:
                row["completion_ids"][-1] = tok.eos_token_id
        made.extend({"row": first + i, "step": step, **row} for i, row in enumerate(rows))
        return {name: [row[name] for row in rows] for name in rows[0]}

    def outcome(step_rewards, scored, **_):
        return [sum(rewards) if told else None for rewards, told in zip(step_rewards, scored, strict=True)]

    class Watched(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            if whole and not self.model.training:  # TRL's own
                assert inputs["advantages"].shape == inputs["completion_ids"].shape[:1]
                return super()._compute_loss(model, inputs)
            assert inputs["advantages"].shape == inputs["completion_ids"].shape
            for i in range(len(inputs["prompt_ids"])):
                seen.append(
                    {
                        "prompt": inputs["prompt_ids"][i][inputs["prompt_mask"][i].bool()].tolist(),
                        "completion": inputs["completion_ids"][i][inputs["completion_mask"][i].bool()].tolist(),
                        "advantage": inputs["advantages"][i].tolist(),
                        "trained": (inputs["completion_mask"] * inputs["tool_mask"])[i].tolist(),
                        "counted": float(inputs["num_items_in_batch"]),
                        "step": self.state.global_step if self.model.training else f"eval-{self.state.global_step}",
                    }
                )
            loss = super()._compute_loss(model, inputs)
            assert torch.isfinite(loss)
            return loss

    processes = int(os.environ.get("WORLD_SIZE", 1))
    defaults = {
        "output_dir": str(out),
        "max_steps": STEPS,
        "per_device_train_batch_size": ROWS // processes,
        "num_generations": GENERATIONS,
        "gradient_accumulation_steps": 1,
        "max_completion_length": 32,
        "learning_rate": 1e-3,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "ddp_backend": "gloo" if processes > 1 else None,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "logging_steps": 1,
        "seed": 0,
        "beta": 0.0,
    }
    trainer_options, evaluated = options.pop("config", {}), options.pop("evaluated", False)
    ended, whole = options.pop("ended", False), options.pop("whole_rollouts_in_eval", False)
    credits, table = [], None
    if options.pop("asks", False):
        options["ask"], table = asker()
    listeners = [lambda credit, step: credits.append(repr(credit)), *options.pop("on_credit", [])]
    Trainer = with_credit(Watched, method, on_credit=listeners, **options)
    tasks = Dataset.from_list([{"prompt": f"w{30 + i} w{31 + i}"} for i in range(8)])
    trainer = Trainer(
        model=LlamaForCausalLM.from_pretrained(saved),
        reward_funcs=outcome,
        args=GRPOConfig(**defaults | trainer_options),
        train_dataset=tasks,
        eval_dataset=tasks.select(range(4)) if evaluated else None,
        processing_class=tok,
        rollout_func=rollout_func,
    )
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    moved = max(float((a - b).detach().abs().max()) for a, b in zip(before, trainer.model.parameters(), strict=True))
    rank = trainer.accelerator.process_index
    history = [entry for entry in trainer.state.log_history if "loss" in entry or "eval_loss" in entry]
    (Path(out) / f"rank-{rank}.json").write_text(
        json.dumps(
            {
                "made": made,
                "seen": seen,
                "moved": moved,
                "history": history,
                "credits": credits,
                "calls": table and table.calls,
            },
            default=str,
        )
    )
    return trainer


if __name__ == "__main__":
    saved = saved_model(Path(sys.argv[1]))
    for name, run in json.loads(sys.argv[2]).items():
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        main(folder, saved, **run)
