"""Problems: generated here, from reasoning-gym's generators, or from GSM8K's and MATH-500's files on your disk."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from apportion.envs.splits import digest
from apportion.errors import ConfigError, FormatError, missing_extra

NAMES = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo Jane Kai Lena".split()
THINGS = "apples books coins eggs keys marbles nuts pears pens shells stamps stones".split()


@dataclass(frozen=True)
class Problem:
    """A problem, a worked solution that ends on the answer, and the answer."""

    name: str
    text: str
    solution: str
    answer: str


def generated_problem(seed: int | str, *, steps: int = 3) -> Problem:
    """A word problem of so many steps over whole numbers, with each step worked out."""
    rng = Random(f"mathword/{seed}")
    name, thing = rng.choice(NAMES), rng.choice(THINGS)
    have = rng.randrange(3, 20)
    told, worked = [f"{name} has {have} {thing}."], []
    for _ in range(steps):
        kind = rng.choice(("find", "lose", "bags", "double"))
        before = have
        if kind == "lose" and have > 3:
            n = rng.randrange(1, have - 1)
            have -= n
            told.append(f"{name} gives away {n} of them.")
            worked.append(f"{before} - {n} = {have}.")
        elif kind == "bags":
            bags, each = rng.randrange(2, 6), rng.randrange(2, 8)
            have += bags * each
            told.append(f"{name} gets {bags} bags with {each} {thing} each.")
            worked += [f"{bags} * {each} = {bags * each}.", f"{before} + {bags * each} = {have}."]
        elif kind == "double" and have < 60:
            have *= 2
            told.append("Then the number doubles.")
            worked.append(f"{before} * 2 = {have}.")
        else:
            n = rng.randrange(2, 20)
            have += n
            told.append(f"{name} finds {n} more.")
            worked.append(f"{before} + {n} = {have}.")
    text = " ".join([*told, f"How many {thing} does {name} have now?"])
    return Problem(f"generated/{seed}", text, f"{' '.join(worked)} #### {have}", str(have))


def gym_problem(dataset: str, seed: int) -> Problem:
    """A problem of one of reasoning-gym's generators.

    Raises:
        MissingExtra: reasoning-gym is not installed.
        ConfigError: it has no such generator, or one whose own scorer does not know its answer.
    """
    item = gym_dataset(dataset)[seed % len(gym_dataset(dataset))]
    return Problem(f"{dataset}/{seed}", item["question"], f"Answer: {item['answer']}", str(item["answer"]))


@lru_cache(maxsize=16)
def gym_dataset(dataset: str, size: int = 100_000_000) -> Any:
    """The generator: items are made when they are asked for, each from its own number."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise missing_extra("problems of reasoning-gym", "reasoning-gym", "reasoning-gym") from error
    if dataset not in DATASETS:
        raise ConfigError(f"mathword: reasoning-gym has no generator named {dataset!r}; see reasoning_gym.factory")
    made: Any = reasoning_gym.create_dataset(dataset, seed=0, size=size)
    first = made[0]
    if first["answer"] is None or made.score_answer(first["answer"], first) < 1:
        raise ConfigError(f"mathword: reasoning-gym's {dataset} does not score its own answer as right; take another")
    return made


@lru_cache(maxsize=8)
def read_problems(path: str) -> tuple[Problem, ...]:
    """GSM8K's lines (question, answer with ``####``) or MATH's (problem, solution, answer), plain or packed (.xz).

    Raises:
        ConfigError: no such file.
        FormatError: a line of neither kind.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"mathword: {path}: no such file; give GSM8K's or MATH-500's JSONL")
    out = []
    for k, line in enumerate(_lines(file), 1):
        try:
            row = json.loads(line)
            if "question" in row:
                text, solution = row["question"], row["answer"]
                answer = solution.rsplit("####", 1)[1].strip()
            else:
                text, solution, answer = row["problem"], row["solution"], row["answer"]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise FormatError(f"{path}, line {k}: is no problem of GSM8K or MATH ({error!r})") from None
        out.append(Problem(f"{digest(text):x}", text, solution, str(answer)))
    if not out:
        raise FormatError(f"{path}: holds no problem")
    return tuple({problem.name: problem for problem in out}.values())


def _lines(file: Path) -> Iterator[str]:
    try:
        data = file.read_bytes()
        text = (lzma.decompress(data) if file.suffix == ".xz" else data).decode()
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise FormatError(f"{file}: cannot be read ({error})") from None
    yield from (line for line in text.splitlines() if line.strip())
