"""Do T-REG's token rewards find the tokens that decide a preference, and does DPO with them beat DPO without?

Responses are ten words, most of them filler; of eight words that decide, half are good and half bad for each topic
(planted at random). A small transformer learns to answer plainly, and, told to, better or worse: then half of the words
decide, nine in ten of them good ones, or bad ones. That is what T-REG asks of a reference model. Pairs are the best and
the worst of five plain answers by the planted reward (good words less bad ones) plus noise of about its size.

    token rewards   method `treg` through `Asker(HFPolicy(...))`, on the words of the pairs; beside them what plain DPO
                    comes to think of each word, its log-ratio
    dpo             plain DPO
    treg            with the token term (`treg_dpo`)
    treg static     with its weight w fixed at ½: the paper's ablation
    treg shuffled   with the token rewards in random order: a control

Steps and alpha of every arm are chosen by the generation reward on tuning seeds, and judged on others: once from the
paper's alphas (.1, .25, .5), once from larger ones beside them.

    python -m experiments.treg_planted [--seeds 5] [--work runs/treg_planted]
"""

from __future__ import annotations

import copy
import sys
import time
from functools import partial
from typing import Any

import numpy as np
import torch

import apportion as ap
from apportion.losses.pairs import Pairs
from apportion.losses.pairs_torch import dpo, treg_dpo
from apportion.resources import Asker, HFPolicy
from experiments.command import options, say
from experiments.stored import kept, write_results
from experiments.treg_page import found_by, markdown, summary
from experiments.treg_world import EOS, VOCABULARY, World, ids_of, prompt_of, tokenizer

TUNING = (100, 101)
COUNTS = (16, 64)
PAPER, LARGER = (0.1, 0.25, 0.5), (2.0, 8.0)
STEPS = (10, 20, 40)
BETA, LR = 0.1, 3e-4
LESSONS, HELD = 800, 256
ARMS = {"dpo": (0.0,), "treg": (*PAPER, *LARGER), "treg static": PAPER[-1:], "treg shuffled": (PAPER[-1], LARGER[-1])}


def reference(world: World, seed: int) -> Any:
    """A transformer that answers plainly, better or worse, as told."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(VOCABULARY), n_positions=32, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=EOS, eos_token_id=EOS,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rng = np.random.default_rng([seed, 1])
    for step in range(LESSONS):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 50, (LESSONS - step) / 200)
        rows, mask = world.lessons(rng, 64)
        logits = model(input_ids=rows).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits[mask[:, 1:]], rows[:, 1:][mask[:, 1:]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def answers(model: Any, topics: np.ndarray, seed: int) -> np.ndarray:
    """One plain answer for each topic, (N, words)."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.as_tensor(np.stack([ids_of(prompt_of(int(t))) for t in topics]))
    start = rows.shape[1]
    for _ in range(World.LENGTH):
        logits = model(input_ids=rows).logits[:, -1]
        logits[:, EOS] = -torch.inf  # every answer has ten words, so that length decides nothing
        rows = torch.cat((rows, torch.multinomial(logits.softmax(-1), 1, generator=generator)), dim=1)
    return rows[:, start:].numpy()


def pairs_of(model: Any, world: World, count: int, seed: int, *, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Topics (P,) and words (P, 2, words) of a better and a worse answer: the best and the worst of five."""
    rng = np.random.default_rng([seed, count])
    topics = rng.integers(World.TOPICS, size=2 * count)
    said = answers(model, np.repeat(topics, 5), seed).reshape(2 * count, 5, -1)
    true = world.rewards(np.repeat(topics, 5), said.reshape(10 * count, -1)).reshape(2 * count, 5)
    shown = true + noise * rng.normal(size=true.shape)
    best, worst = shown.argmax(1), shown.argmin(1)
    at = np.arange(2 * count)
    differ = true[at, best] != true[at, worst] if noise == 0 else np.ones(2 * count, dtype=bool)
    chosen = np.flatnonzero(differ)[:count]
    return topics[chosen], np.stack((said[chosen, best[chosen]], said[chosen, worst[chosen]]), axis=1)


def logps(model: Any, topics: np.ndarray, said: np.ndarray) -> torch.Tensor:
    """Log-probability of each word of (N, words), flat, nats."""
    rows = torch.as_tensor(np.concatenate([np.stack([ids_of(prompt_of(int(t))) for t in topics]), said], axis=1))
    width = said.shape[1]
    logits = model(input_ids=rows).logits[:, -width - 1 : -1].log_softmax(-1)
    return logits.gather(-1, rows[:, -width:, None])[..., 0].reshape(-1)


def token_rewards(model: Any, topics: np.ndarray, said: np.ndarray) -> np.ndarray:
    """What the method `treg` credits each word with, (N, words)."""
    words = tokenizer()
    rollouts = [
        ap.Trajectory(
            [ap.Step(prompt_of(int(t)), words.decode(row), prompt_ids=ids_of(prompt_of(int(t))), ids=row.tolist())],
            id=str(n),
        )
        for n, (t, row) in enumerate(zip(topics, said, strict=True))
    ]
    with Asker(HFPolicy(model, words, reference=model, batch=64)) as ask:
        credit = ap.assign(
            "treg", ap.by_token(ap.Batch.from_trajectories(rollouts)), ask=ask,
            better="{context} better", worse="{context} worse",
        )  # fmt: skip
    return credit.advantage_S.reshape(said.shape)


def tuned(arm: str, alpha: float, model: Any, data: dict[str, Any], judge: Any) -> dict[int, dict[str, Any]]:
    """Measures after each of some numbers of steps."""
    policy, count = copy.deepcopy(model).train(), len(data["topics"])
    optimizer = torch.optim.AdamW(policy.parameters(), lr=LR, weight_decay=0.0)
    topics, said = np.repeat(data["topics"], 2), data["said"].reshape(2 * count, -1)
    row = torch.arange(2 * count).repeat_interleave(said.shape[1])
    chosen = torch.arange(0, 2 * count, 2)
    reward = torch.tensor(data["shuffled" if arm == "treg shuffled" else "reward"].reshape(-1), dtype=torch.float32)
    out = {}
    for step in range(1, max(STEPS) + 1):
        logp = logps(policy, topics, said)
        pairs = Pairs(logp, data["ref"], row, chosen, chosen + 1)
        if arm == "dpo":
            loss = dpo(pairs, beta=BETA).mean()
        elif arm == "treg static":
            loss = dpo(pairs, beta=BETA).mean() + alpha * 0.5 * (-BETA * reward * logp).sum() / count
        else:
            loss = treg_dpo(pairs, reward, beta=BETA, alpha=alpha).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        if step in STEPS:
            out[step] = judge(policy.eval())
            if arm == "dpo":
                with torch.no_grad():
                    ratio = (logps(policy, topics, said) - data["ref"]).numpy().reshape(said.shape)
                out[step]["tokens"] = found_by(ratio, data["world"], topics, said)
            policy.train()
    return out


def measured(seed: int) -> dict[str, Any]:
    """Everything of one seed."""
    began = time.perf_counter()
    world = World(seed)
    model = reference(world, seed)
    held_topics, held = pairs_of(model, world, HELD, seed + 7000, noise=0.0)
    held_ref = logps(model, np.repeat(held_topics, 2), held.reshape(2 * HELD, -1)).detach()
    fresh = np.random.default_rng([seed, 9]).integers(World.TOPICS, size=HELD)

    @torch.no_grad()
    def judge(policy: Any) -> dict[str, float]:
        ratio = logps(policy, np.repeat(held_topics, 2), held.reshape(2 * HELD, -1)) - held_ref
        score = ratio.reshape(HELD, 2, -1).sum(-1).numpy()
        said = answers(policy, fresh, seed + 5)
        return {
            "pairs": float(np.mean(score[:, 0] > score[:, 1])),
            "generation": float(world.rewards(fresh, said).mean()),
            "decisive": float(world.decides(said).mean()),
        }

    out: dict[str, Any] = {"arms": {}, "tokens": {}, "start": judge(model)}
    for count in COUNTS:
        topics, said = pairs_of(model, world, count, seed + 3000, noise=1.0)
        flat, twice = said.reshape(2 * count, -1), np.repeat(topics, 2)
        reward = token_rewards(model, twice, flat)
        data = {
            "world": world, "topics": topics, "said": said, "reward": reward, "ref": logps(model, twice, flat).detach(),
            "shuffled": np.random.default_rng(seed).permutation(reward.reshape(-1)),
        }  # fmt: skip
        out["tokens"][str(count)] = found_by(reward, world, twice, flat)
        out["arms"][str(count)] = {
            f"{arm}|{alpha:g}": tuned(arm, alpha, model, data, judge)
            for arm, alphas in ARMS.items()
            for alpha in alphas
        }
    out["seconds"] = time.perf_counter() - began
    return out


def main() -> None:
    """Run what is missing, then write the tables."""
    given = options("treg_planted", __doc__, seeds=5).parse_args()
    torch.set_num_threads(1)
    runs = {}
    for seed in (*TUNING, *range(given.seeds)):
        runs[seed] = kept(given.work / f"seed-{seed}.json", partial(measured, seed))
        say(f"seed {seed}: {runs[seed]['seconds']:.0f} s, tokens {runs[seed]['tokens']}")
    found = summary(runs, TUNING)
    write_results(given.out, "treg_planted", found, markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
