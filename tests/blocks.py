"""The code blocks of a page, and a run of them in order, in a folder with the files that the docs speak of.

    python -m tests.blocks docs/start.md            runs a page; the first block that fails ends it with 1

A block of Python runs in one namespace for the page, one of shell with `set -eu`. A Python block that opens with
``# name.py`` is also a file of that name. A line ``<!-- not run: reason -->`` above a fence takes a block out of the
run; then its syntax is checked, and of each `apportion …` in it the command, its options and the method's parameters.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(
    r"(?:^<!-- not run:(?P<reason>.*?)-->\n\s*)?^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.M | re.S,
)
PYTHON = ("python",)
SHELL = ("sh", "bash", "console")
DATA = ("text", "jsonl", "json", "toml", "yaml", "")
"""Languages of blocks that are no code: pictures, files, settings; others are not known and fail."""

SMALLER = {
    "train": {"--iterations": "1", "--clone-episodes": "4", "--eval-tasks": "2", "--tasks": "2", "--rollouts": "2"},
    "fit": {"--epochs": "1"},
    "play": {"--tasks": "6"},
    "rank": {"--candidates": "4"},
    "search": {"--tasks": "2"},
}
"""Options that a command is given here, in place of its own, so that a page runs in seconds."""

VOCABULARY = 250
"""Ids of the made-up rollouts are below it."""

PRELUDE = {
    "docs/bench.md": "scorer = lambda texts, actions: [[1 / len(choices)] * len(choices) for choices in actions]",
    "docs/pooled.md": "from apportion.assign import news_and_credit\n"
    "from apportion.methods.pooled_memory import Memory\n"
    "memory, (_, news_of_another) = None, news_and_credit('pooled', units, Memory())",
}
"""What the text of a page takes as given, beside what `given` makes for all."""


@dataclass(frozen=True)
class Block:
    """One fence. `line` is where its code begins; `reason` is None where it runs."""

    language: str
    code: str
    line: int
    reason: str | None


def blocks(text: str) -> Iterator[Block]:
    """The fences of a page, in order."""
    for found in FENCE.finditer(text):
        indent = found["indent"]
        code = "".join(line.removeprefix(indent) for line in found["code"].splitlines(keepends=True))
        reason = found["reason"]
        yield Block(
            found["language"].strip(),
            code,
            text.count("\n", 0, found.start("code")) + 1,
            None if reason is None else reason.strip(),
        )


def problem(block: Block) -> str:
    """What is wrong with a block that is not run, or whose kind is not known; "" for nothing."""
    if block.language not in (*PYTHON, *SHELL, *DATA):
        return f"nobody knows how to run {block.language!r}; known are {', '.join((*PYTHON, *SHELL, *DATA[:-1]))}"
    if block.reason is None or block.language in DATA:
        return ""
    if not block.reason:
        return "it is not run, and the mark gives no reason"
    if block.language in PYTHON:
        try:
            ast.parse(block.code)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        return ""
    done = subprocess.run(["bash", "-n"], input=block.code, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    return next(filter(None, map(usage, commands(block.code))), "")


def commands(code: str) -> Iterator[list[str]]:
    """The words of each `apportion …` in a piece of shell."""
    for line in code.replace("\\\n", " ").splitlines():
        for part in re.split(r"(?<=\s)(?:;|&&|\|\|)(?=\s)", line):
            words = shlex.split(part, comments=True)
            if words[:1] == ["apportion"]:
                yield words[1:]


def usage(words: list[str]) -> str:
    """What the command line would say against these words, without running them."""
    from typer.main import get_command

    from apportion.cli.app import app

    context = None
    try:
        context = get_command(app).make_context("apportion", list(words))
        while hasattr(context.command, "resolve_command"):
            name, found, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
            context = found.make_context(name, rest, parent=context)
    except Exception as error:  # typer brings a click of its own, so its errors are known by what they can do
        if hasattr(error, "format_message"):
            return f"apportion {shlex.join(words)}: {error.format_message()}"
        if type(error).__name__ != "Exit":  # --help and --version end there
            raise
    return "" if context is None else parameters(context)


def parameters(context: Any) -> str:
    """Options that a command hands to a method, held against the method's signature."""
    from apportion.cli.asking import SHORT
    from apportion.methods import get, names

    method = context.params.get("method")
    spare = [word[2:].replace("-", "_").partition("=")[0] for word in context.args if word.startswith("--")]
    if method not in names():
        return ""
    wrong = [word for word in spare if word not in (*get(method).defaults, *SHORT)]
    return f"{method} takes no {wrong[0]!r}" if wrong else ""


# --- running --------------------------------------------------------------------------------------------------------


def given(folder: Path) -> None:
    """Files under the names that the docs use, and a word `apportion` that runs this checkout."""
    import json

    import apportion as ap
    from tests.make import random_trajectories

    drawn = random_trajectories(1, forks=False)
    rollouts = [
        dataclasses.replace(rollout, id=f"run-{n}", steps=[_few_ids(step) for step in rollout.steps])
        for n, rollout in enumerate(drawn, 10)
    ]
    for name in ("rollouts.jsonl", "runs.jsonl", "fresh.jsonl"):
        ap.write(folder / name, rollouts)
    chat = {
        "messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}],
        "reward": 1.0,
        "seed": 3,
        "passed": True,
    }
    (folder / "results.json").write_text(json.dumps([chat, chat]), encoding="utf-8")
    for name in ("LOGS", "big"):
        (folder / name).mkdir()
    (folder / "LOGS" / "one.json").write_text(json.dumps([chat]), encoding="utf-8")
    ap.write(folder / "big" / "part-0.parquet", sorted(rollouts, key=lambda rollout: str(rollout.group)))
    (folder / "bin").mkdir()
    word = folder / "bin" / "apportion"
    word.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.blocks --apportion "$@"\n', encoding="utf-8")
    word.chmod(0o755)


def _few_ids(step: Any) -> Any:
    """The same with token ids that the smallest backbone knows."""
    kept = {name: getattr(step, name) for name in ("ids", "prompt_ids")}
    return dataclasses.replace(step, **{name: None if ids is None else ids % VOCABULARY for name, ids in kept.items()})


def apportion(words: list[str]) -> int:
    """The command line at toy size. Findings (1, with something said) are no failure of a page."""
    for name, options in SMALLER.items():
        if name in words[:2] and words[:2] != ["pairs", "train"] and not {"--help", "--show", "--resume"} & set(words):
            for option, value in options.items():
                at = words.index(option) if option in words else len(words)
                words = [*words[:at], option, value, *words[at + 2 :]]
    done = subprocess.run([sys.executable, "-m", "apportion", *words], stdout=subprocess.PIPE, text=True)
    sys.stdout.write(done.stdout)
    findings = words[:1] in (["check"], ["recommend"]) and done.returncode == 1 and done.stdout.strip()
    return 0 if findings else done.returncode


def run(page: str, text: str) -> int:
    """Run the blocks of a page in a fresh folder; says where the first failure is."""
    with tempfile.TemporaryDirectory(prefix="apportion-docs-") as scratch:
        folder = Path(scratch)
        given(folder)
        os.chdir(folder)
        sys.path.insert(0, scratch)
        os.environ["PATH"] = (
            f"{folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        os.environ["PYTHONPATH"] = os.pathsep.join([scratch, str(ROOT), str(ROOT / "src")])
        module = sys.modules["docs_page"] = types.ModuleType("docs_page")  # where its classes say they are from
        space = module.__dict__
        exec("import apportion as ap\nbatch = ap.read('runs.jsonl')\nunits = ap.by_step(batch)", space)  # noqa: S102
        exec(PRELUDE.get(page, ""), space)  # noqa: S102
        for block in blocks(text):
            if block.reason is None and not _run_one(block, page, space):
                return 1
    return 0


def _run_one(block: Block, page: str, space: dict[str, object]) -> bool:
    if block.language in PYTHON:
        if named := re.match(r"# (\w+\.py)\n", block.code):
            Path(named[1]).write_text(block.code, encoding="utf-8")
        try:
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, page, "exec"), space)  # noqa: S102 - our own docs
        except Exception:
            print(f"{page}:{block.line}: the block fails\n{traceback.format_exc()}")
            return False
    elif block.language in SHELL:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.code], text=True, stderr=subprocess.STDOUT, stdout=subprocess.PIPE
        )
        if done.returncode:
            print(f"{page}:{block.line}: the block ends with {done.returncode}\n{block.code}\n{done.stdout}")
            return False
    return True


if __name__ == "__main__":
    if sys.argv[1] == "--apportion":
        sys.exit(apportion(sys.argv[2:]))
    sys.exit(run(sys.argv[1], (ROOT / sys.argv[1]).read_text(encoding="utf-8")))
