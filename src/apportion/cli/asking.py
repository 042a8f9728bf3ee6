"""Options of every command that may ask somebody: who, at what price, where answers are kept."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apportion.errors import ConfigError

if TYPE_CHECKING:
    from apportion.data import Batch
    from apportion.resources import Asker, Progress

PANEL = "Asking (for methods that need more than the rollouts)"


def _option(default: Any, *names: str, help: str) -> Any:
    return typer.Option(default, *names, help=help, rich_help_panel=PANEL)


OPTIONS: dict[str, tuple[Any, Any]] = {
    "resampler": (
        str,
        _option(
            "",
            "--resampler",
            help="The policy: address of an OpenAI-compatible server, a model's folder or name, or the folder of a run "
            "of `apportion train`, which plays on in its environment.",
        ),
    ),
    "resampler_model": (str, _option("", "--resampler-model", help="Its name on the server; default: the only one.")),
    "reference_model": (
        str,
        _option("", "--reference-model", help="Reference model: name on the server, or a folder."),
    ),
    "tokenizer": (str, _option("", "--tokenizer", help="The policy's tokenizer: folder or hub name.")),
    "chat": (bool, _option(False, "--chat", help="Ask the server's chat endpoint (rollouts of text).")),
    "temperature": (
        float,
        _option(
            1.0, "--resampler-temperature", help="Also --temperature, if the method has no parameter of that name."
        ),
    ),
    "top_p": (float, _option(1.0, "--resampler-top-p", help="Nucleus sampling; also --top-p.")),
    "max_tokens": (int, _option(1024, "--resampler-max-tokens", help="Of one continuation; also --max-tokens.")),
    "stop": (list[str], _option([], "--resampler-stop", help="Text that ends an answer; may be repeated.")),
    "scorer": (
        str,
        _option(
            "auto",
            "--scorer",
            help="Reward of a continuation: exact, number, contains, reward (of the reward model), "
            "package.module:function, or auto: that of the first three which gives the recorded outcomes.",
        ),
    ),
    "reward_model": (str, _option("", "--reward-model", help="A sequence classifier: folder or hub name.")),
    "judge": (str, _option("", "--judge", help="Address of the judge's OpenAI-compatible server.")),
    "judge_model": (str, _option("", "--model", "--judge-model", help="The judge's name there.")),
    "judge_template": (str, _option("", "--judge-template", help="Name or path of the judge's prompt template.")),
    "judge_temperature": (float, _option(0.7, "--judge-temperature", help="Of its votes; 0 for a single one.")),
    "judge_tokenizer": (
        str,
        _option("", "--judge-tokenizer", help="The judge's tokenizer, folder or hub name: counts its prompts exactly."),
    ),
    "judge_thinking": (int, _option(0, "--judge-thinking", help="Tokens that it may think before its verdict.")),
    "cache": (Path, _option(None, "--cache", help="File that keeps answers: what was paid for is not asked again.")),
    "budget_requests": (int, _option(None, "--budget-requests", help="Requests at most, repeated ones included.")),
    "budget_tokens": (int, _option(None, "--budget-tokens", help="Prompt and generated tokens at most.")),
    "partial": (bool, _option(False, "--partial", help="Where the budget is short, ask what fits.")),
    "ask_seed": (int, _option(0, "--ask-seed", help="Another seed, other samples.")),
    "workers": (int, _option(16, "--workers", help="Requests at a time.")),
    "timeout": (float, _option(600.0, "--timeout", help="Seconds to wait for one answer.")),
    "key_env": (str, _option("OPENAI_API_KEY", "--key-env", help="Environment variable that holds the server's key.")),
}
"""Keyword of `Asking`, its type, and the option."""

ANSWERED_BY = {
    "policy": ("--resampler URL",),
    "reference": ("--resampler URL", "--reference-model NAME"),
    "reward_model": ("--reward-model PATH",),
    "judge": ("--judge URL",),
    "value_model": ("--judge URL",),
}
"""Options that name who answers, by whom a method asks (`apportion.asks.asked_of`)."""

SHORT = ("temperature", "top_p", "max_tokens")
"""Options that may be written without ``resampler-`` where the method has no parameter of that name."""


@dataclass
class Asking:
    """What the user said about asking; the fields are the keys of `OPTIONS`."""

    given: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.given[name]
        except KeyError:
            raise AttributeError(name) from None

    def take(self, params: dict[str, Any], method: str | None = None) -> None:
        """Move what was written short (``--temperature``) out of the parameters, unless the method takes it."""
        from apportion.assign.expression import leaves, parse
        from apportion.methods import get

        named = () if method is None else leaves(parse(method))
        taken = {name for leaf in named for name in get(leaf.name).defaults}
        for name in SHORT:
            if name in params and name not in taken:
                value = params.pop(name)
                kind = OPTIONS[name][0]
                if isinstance(value, bool) or not isinstance(value, int | float) or kind(value) != value:
                    raise ConfigError(f"--{name.replace('_', '-')} is {value!r}; give a {kind.__name__}")
                self.given[name] = kind(value)
                self.given[f"{name}_said"] = True
        if self.judge_template and "template" in taken and "template" not in params:
            from apportion.resources.judge_options import template_for_methods

            if template_for_methods(self.judge_template):
                params["template"] = self.judge_template

    @property
    def anybody(self) -> bool:
        """Somebody was named."""
        return bool(self.resampler or self.reward_model or self.judge)

    def check_installed(self) -> None:
        """Refuse a server that nothing here can talk to, before a file is read.

        Raises:
            MissingExtra: its package is not installed.
        """
        if self.judge or "://" in self.resampler:
            from apportion.resources.http import httpx_module

            httpx_module()

    def asker(self, batch: Batch, progress: Callable[[Progress], None] | None = None, *, dry: bool = False) -> Asker:
        """Everybody that was named, around one budget and one cache.

        Args:
            batch: the rollouts, by which ``--scorer auto`` is found.
            progress: called as answers arrive.
            dry: nothing will be asked, so a cache that is not there is not made.
        """
        from apportion.cli.asking_whom import resources_of
        from apportion.resources import Asker, Budget

        budget = Budget(self.budget_requests, self.budget_tokens, when_short="partial" if self.partial else "refuse")
        if self.ask_seed < 0:
            raise ConfigError(f"--ask-seed is {self.ask_seed}; give a whole number from 0 on")
        cache = None if dry and self.cache is not None and not self.cache.exists() else self.cache
        return Asker(*resources_of(self, batch), budget=budget, cache=cache, seed=self.ask_seed, progress=progress)


def said_by(name: str) -> str:
    """How an option is written."""
    return str(OPTIONS[name][1].param_decls[0])


def asks(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; it gets them as one `Asking` in its parameter ``asking``."""
    own = inspect.signature(command)

    @functools.wraps(command)
    def inner(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in OPTIONS}
        return command(*args, asking=Asking(given), **kwargs)

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)
        for name, (kind, option) in OPTIONS.items()
    ]
    kept = [parameter for name, parameter in own.parameters.items() if name != "asking"]
    inner.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in kept] + added
    )
    hints: Mapping[str, Any] = {name: kind for name, (kind, _) in OPTIONS.items()}
    inner.__annotations__ = {k: v for k, v in command.__annotations__.items() if k != "asking"} | dict(hints)
    return inner
