"""A tiny chat model with tools, and TRL settings for a few steps of it on a CPU."""

import os
import pathlib
import string

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig

ROWS, GENERATIONS = 4, 4


def tokenizer():
    """One character, one token; the template knows tools."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>"]
    characters = sorted(set(string.ascii_letters + string.digits + string.punctuation + " \n"))
    made = Tokenizer(models.WordLevel({t: i for i, t in enumerate(special + characters)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(pattern="", behavior="isolated")
    made.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<unk>",
        additional_special_tokens=["<|im_start|>"],
        padding_side="left",
    )
    fast.chat_template = (pathlib.Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text()
    return fast


def model(tok):
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tok),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            eos_token_id=tok.eos_token_id,
            pad_token_id=tok.pad_token_id,
        )
    )


SETTINGS = {
    "max_steps": 1,
    "per_device_train_batch_size": ROWS,
    "num_generations": GENERATIONS,
    "gradient_accumulation_steps": 1,
    "max_completion_length": 16,
    "learning_rate": 1e-3,
    "report_to": [],
    "save_strategy": "no",
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "logging_steps": 1,
    "seed": 0,
}


def config(folder, **changed):
    return GRPOConfig(**{"output_dir": str(folder), **SETTINGS, **changed})


def change(trainer):
    """Train, and say by how much the parameters moved."""
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    pairs = zip(before, trainer.model.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)
