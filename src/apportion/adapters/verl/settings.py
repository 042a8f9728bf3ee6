"""What the trainer's configuration says about credit.

algorithm.adv_estimator=apportion/grpo             a name or an expression behind the slash
+algorithm.apportion.epsilon=1e-6                  parameters of the method, as for `apportion.assign`
+algorithm.apportion.unit=step                     level with options, default the method's own
+algorithm.apportion.states=normalised             what counts as one state
+algorithm.apportion.ask=my_package.asking:asker   a function that makes the `Asker`, for methods that ask
+algorithm.apportion.log=runs/log                  a folder for rollouts with their credit, see `TokenLog`
+algorithm.apportion.on_credit=apportion.check:LiveCheck   who looks at each batch, and may end the run
+algorithm.apportion.method=gigpo                  instead of the first line, where a fork checks the names
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.adapters.crediting import Crediting
from apportion.adapters.log import TokenLog
from apportion.adapters.untrained import Untrained
from apportion.assign import check_expression, required_needs
from apportion.errors import ConfigError
from apportion.resources import Asker
from apportion.units.segments import TAKES

PREFIX = "apportion/"
SECTION = "apportion"
OWN = ("unit", "states", "ask", "log", "on_credit", "method")
"""Keys of the section that are not parameters of the method; no built-in method has a parameter of these names."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One method, ready to credit; made once per process and configuration.

    Attributes:
        crediting: method, cut and parameters. log: where rollouts are written, or None.
        on_credit: called with each credit and the step, gives numbers for the log, may raise `StopRun`; or None.
        untrained: warns once of a batch of which nothing is trained.
    """

    crediting: Crediting
    log: TokenLog | None = None
    on_credit: Callable[..., Any] | None = None
    untrained: Untrained = field(default_factory=Untrained, compare=False)

    @property
    def penalty_apart(self) -> bool:
        """The method takes the penalty on invalid actions as a named part, so that no reward may hold it too."""
        return self.crediting.params.get("undiscounted") == "penalty"


def method_of(adv_estimator: Any) -> str | None:
    """What stands behind ``apportion/`` in the name of an estimator; None for everybody else's."""
    name = getattr(adv_estimator, "value", adv_estimator)
    return name[len(PREFIX) :] if isinstance(name, str) and name.startswith(PREFIX) else None


def section_of(algorithm: Any) -> dict[str, Any]:
    """The section ``algorithm.apportion`` as plain values; empty where there is none."""
    get = getattr(algorithm, "get", None)
    given = get(SECTION, None) if callable(get) else None
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"algorithm.apportion is {given!r}; it holds settings, as in +algorithm.apportion.gamma=0.95")
    return {str(key): _plain(given[key]) for key in given}


def settings_of(adv_estimator: Any, algorithm: Any) -> Settings | None:
    """How to credit, or None where another estimator was chosen.

    Args:
        adv_estimator: ``algorithm.adv_estimator``. algorithm: that section of the configuration, or None.

    Raises:
        ConfigError: an unknown method, unit, state rule or parameter, in one sentence.
    """
    section = section_of(algorithm)
    named, name = method_of(adv_estimator), getattr(adv_estimator, "value", adv_estimator)
    if not named and isinstance(name, str) and re.match(rf"{SECTION}\b", name, re.IGNORECASE):
        raise ConfigError(f"adv_estimator is {name!r}; a method stands behind a slash, as in {PREFIX}gigpo")
    method = named or section.get("method")
    if named and section.get("method", named) != named:
        raise ConfigError(
            f"adv_estimator is {name!r} and algorithm.apportion.method is {section['method']!r}; say one of them"
        )
    if method is None and section:
        raise ConfigError(
            f"algorithm.apportion has settings, and adv_estimator is {name!r}, which reads none of them; say "
            "adv_estimator=apportion/<method>"
        )
    return None if method is None else settings_from(method, section)


def settings_from(method: str, section: Mapping[str, Any]) -> Settings:
    """The same from plain values; equal ones give the same object, with its cache, its budget and its log."""
    key = json.dumps([method, section], sort_keys=True, default=repr)
    if key not in _MADE:
        params = {name: value for name, value in section.items() if name not in OWN}
        check_expression(method, params)
        if section.get("ask") is None and required_needs(method):
            raise ConfigError(
                f"{method!r} asks somebody for more than the rollouts; say whom by "
                f"+algorithm.{SECTION}.ask=my_package.my_module:function, which returns an apportion.Asker"
            )
        ask = None if section.get("ask") is None else _asker(section["ask"])
        listener = None if section.get("on_credit") is None else _listener(section["on_credit"])
        crediting = Crediting(method, section.get("unit") or "", section.get("states") or "exact", params, ask)
        _check_text(crediting)
        log = None if section.get("log") is None else TokenLog(section["log"])
        _MADE[key] = Settings(crediting, log, listener)
    return _MADE[key]


_MADE: dict[str, Settings] = {}


def _check_text(crediting: Crediting) -> None:
    level, options = crediting.cut
    by = options.get("by", "newline")
    if level == "segment" and "decode" in TAKES[by]:
        without = ", ".join(f"by={one!r}" for one in TAKES if "decode" not in TAKES[one])
        raise ConfigError(
            f"algorithm.apportion.unit: segments by {by!r} need the text of each token, which nobody decodes in verl's "
            f"advantage stage; use {without}"
        )


def _named(setting: str, where: Any) -> Any:
    module, _, name = str(where).partition(":")
    if not module or not name:
        raise ConfigError(f"algorithm.apportion.{setting} is {where!r}; name a function as 'package.module:function'")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as reason:
        raise ConfigError(f"algorithm.apportion.{setting} is {where!r}, which cannot be imported: {reason}") from reason


def _listener(where: Any) -> Callable[..., Any]:
    """A function of a credit and a step; a class is made without arguments."""
    found = _named("on_credit", where)
    made = found() if isinstance(found, type) else found
    if not callable(made):
        raise ConfigError(f"algorithm.apportion.on_credit: {where} is a {type(made).__name__}; give a function")
    return made  # type: ignore[no-any-return]


def _asker(where: Any) -> Asker:
    made = _named("ask", where)()
    if not isinstance(made, Asker):
        raise ConfigError(f"algorithm.apportion.ask: {where} gave a {type(made).__name__}; return an apportion.Asker")
    return made


def _plain(value: Any) -> Any:
    """OmegaConf's containers as lists and dicts."""
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
