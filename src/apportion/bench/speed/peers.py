"""Other people's published code, found installed or below ``--peer-src``, and never part of this project.

A file is executed as it stands, see `stand_ins`.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import io
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from apportion.bench.speed.stand_ins import Absent, load

VERL = "verl/trainer/ppo/core_algos.py"
VERL_TENSORS = "verl/utils/torch_functional.py"
VERL_GROUPS = "verl/utils/groupwise.py"
GIGPO = "gigpo/core_gigpo.py"
TRL_PPO = "trl/experimental/ppo/ppo_trainer.py"
TRL_HICRA = "trl/trainer/hicra_trainer.py"
TRL_PPO_BEFORE = "trl/trainer/ppo_trainer.py"
SPO = "src/treetune/episode_generators/math_episode_generator_with_mc_advantages.py"
PURE_WORKERS = "verl/workers/fsdp_workers.py"
PURE_MONITOR = "verl/utils/monitored_metric/__init__.py"


class Peers:
    """Loads peers once and remembers what was loaded.

    Args:
        source: a folder that holds checkouts, or one checkout; None looks at installed packages only.
    """

    def __init__(self, source: Path | None = None) -> None:
        self.source = source
        self.loaded: dict[str, str] = {}
        self._modules: dict[Path, ModuleType] = {}

    def verl(self) -> ModuleType:
        """verl's advantage estimators, with their two rooms of tensor functions."""
        core = self._module(VERL)
        tensors, groups = self._module(VERL_TENSORS), self._module(VERL_GROUPS)
        vars(core).update(verl_F=tensors, as_torch_index=groups.as_torch_index, group_mean_std=groups.group_mean_std)
        vars(groups)["get_device_name"] = lambda: "cpu"
        return core

    def gigpo(self) -> ModuleType:
        """verl-agent's GiGPO, by its authors."""
        return self._module(GIGPO)

    def trl_gae(self) -> Callable[..., Any]:
        """The lines of TRL's PPO trainer from ``lastgaelam = 0`` to the returns, as a function.

        Takes (torch, args, responses, rewards, values), which is what the lines read; returns (advantages, returns).
        """
        path = self._find(TRL_PPO, TRL_PPO_BEFORE)
        lines = path.read_text(encoding="utf-8").splitlines()
        first = next((i for i, line in enumerate(lines) if "lastgaelam = 0" in line), None)
        if first is None:
            raise Absent(f"{path.name} has no line 'lastgaelam = 0'")
        last = next((i for i in range(first, len(lines)) if "returns = advantages + values" in lines[i]), None)
        if last is None:
            raise Absent(f"{path.name} has no line 'returns = advantages + values'")
        body = textwrap.indent(textwrap.dedent("\n".join(lines[first : last + 1])), "    ")
        text = f"def gae(torch, args, responses, rewards, values):\n{body}\n    return advantages, returns\n"
        ast.parse(text)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trl_gae_lines.py"
            file.write_text(text, encoding="utf-8")
            gae: Callable[..., Any] = load(file).gae
        return gae

    def tempo(self) -> Callable[..., Any]:
        """TEMPO's advantages, in a fork of verl."""
        name = "compute_tempo_outcome_advantage"
        return cast(Callable[..., Any], getattr(self._module(VERL, holding=name), name))

    def spo_cutpoints(self) -> Callable[..., Any]:
        """SPO's lines from log-probabilities to cutpoints: (np, self, response_logprobs) to (cutpoints, probabilities).

        ``self`` is read for ``cutpoint_interval`` alone.
        """
        return self._lines(
            SPO,
            "response_probs = np.exp(response_logprobs)",
            "cutpoints = cutpoints[::self.cutpoint_interval]",
            "np, self, response_logprobs",
            "cutpoints, response_probs",
        )

    def spo_advantages(self) -> Callable[..., Any]:
        """SPO's ``_compute_token_advantages(self, trajectory)``, a method that needs nothing of its class."""
        name = "_compute_token_advantages"
        path = self._find(SPO, holding=f"def {name}")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
        found.decorator_list = []
        return self._run(f"from __future__ import annotations\n{ast.unparse(found)}\n", name)

    def pure(self) -> ModuleType:
        """PURE's advantage estimators, in a fork of verl; its RLOO takes a way of adding up returns."""
        return self._module(VERL, holding="return_aggregate_method")

    def pure_weighting(self) -> Callable[..., Any]:
        """PURE's lines that weigh process rewards: (torch, self, rm_score, reward_mask) to rm_score, which it edits."""
        return self._lines(
            PURE_WORKERS,
            "weight = torch.softmax(",
            "rm_score *= weight",
            "torch, self, rm_score, reward_mask",
            "rm_score",
        )

    def pure_repetition(self) -> Callable[..., Any]:
        """PURE's repetition score of one text."""
        return cast(Callable[..., Any], self._module(PURE_MONITOR, holding="def repeatness").repeatness)

    def hicra(self) -> Callable[..., Any]:
        """``identify_planning_tokens`` of the HICRA branch of TRL; its first argument is the trainer."""
        text = self._find(TRL_HICRA).read_text(encoding="utf-8")
        wanted = "identify_planning_tokens"
        node = next((n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == wanted), None)
        if node is None:
            raise Absent(f"{TRL_HICRA} has no function {wanted!r}")
        lines = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
        return self._run(f"import torch\n\n{textwrap.dedent(lines)}\n", wanted)

    def _lines(self, name: str, first: str, last: str, takes: str, gives: str) -> Callable[..., Any]:
        """Lines of a file, from the one that holds ``first`` to the next that holds ``last``, as a function."""
        path = self._find(name, holding=first)
        lines = path.read_text(encoding="utf-8").splitlines()
        start = next(i for i, line in enumerate(lines) if first in line)
        end = next((i for i in range(start, len(lines)) if last in lines[i]), None)
        if end is None:
            raise Absent(f"{path.name} has no line {last!r}")
        body = textwrap.indent(textwrap.dedent("\n".join(lines[start : end + 1])), "    ")
        return self._run(f"def lines({takes}):\n{body}\n    return {gives}\n", "lines")

    def _run(self, text: str, name: str) -> Callable[..., Any]:
        """One function of a module with this text."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "peer_lines.py"
            file.write_text(text, encoding="utf-8")
            return cast(Callable[..., Any], getattr(load(file), name))

    def _module(self, name: str, *, holding: str = "") -> ModuleType:
        path = self._find(name, holding=holding)
        if path not in self._modules:
            self._modules[path] = load(path)
        return self._modules[path]

    def _find(self, *names: str, holding: str = "") -> Path:
        """The first file of one of these names that has the text ``holding`` in it."""
        for name in names:
            for path in (*self._below_source(name), *_installed(name)):
                if path.is_file() and (not holding or holding in path.read_text(encoding="utf-8")):
                    self.loaded[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
                    return path
        where = "not installed" if self.source is None else "neither installed nor below --peer-src"
        raise Absent(f"{names[0]}{f' with {holding!r} in it' if holding else ''} is {where}")

    def _below_source(self, name: str) -> Iterator[Path]:
        if self.source is None:
            return
        # A fork carries a copy of what it forked from: the checkout that has the package's name comes first, and
        # what is known to be a fork comes last.
        own = name.partition("/")[0]
        roots = [
            self.source,
            *sorted((p for p in self.source.iterdir() if p.is_dir()), key=lambda p: (p.name != own, p)),
        ]
        for fork in (False, True):
            yield from (root / name for root in roots if (name != GIGPO and (root / GIGPO).exists()) is fork)


def _installed(name: str) -> Iterator[Path]:
    package, _, rest = name.partition("/")
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(folder) / rest


def versions() -> dict[str, str]:
    """Installed versions of what takes part."""
    found = {}
    for package in ("numpy", "numba", "torch", "verl", "trl", "torchrl"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same call without what it prints."""

    def call(*args: Any, **named: Any) -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return function(*args, **named)

    return call
