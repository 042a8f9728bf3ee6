"""The registry: which methods exist, what each reads and needs, and which laws it obeys.

Built-ins have bare names; a plug-in's are ``package/name`` and are found through the entry-point group
``apportion.methods`` — on a miss, so that a broken plug-in can only break its own name.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType
from typing import Any, Literal

from apportion.asks import Answer, Ask
from apportion.credit import Credit
from apportion.errors import ConfigError, DataError, UnknownName
from apportion.methods.declared import asks_of, check_declaration, check_plan_takes, check_takes
from apportion.methods.spec import REQUIRED, MethodSpec

ENTRY_POINTS = "apportion.methods"
PACKAGE = "apportion.methods"
_NAME = re.compile(r"[a-z][a-z0-9_]*(/[a-z][a-z0-9_]*)?\Z")


_SPECS: dict[str, MethodSpec] = {}


def register(
    name: str,
    *,
    unit: str = "step",
    units: tuple[str, ...] = (),
    family: str,
    reads: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    source: str,
    holds: tuple[str, ...] = (),
    chain: bool = False,
    kind: Literal["method", "transform"] = "method",
    example: Mapping[str, Any] | None = None,
    plan: Callable[..., Sequence[Ask]] | None = None,
    most: Callable[..., Sequence[Ask]] | None = None,
    scope: Literal["group", "batch"] | None = None,
    wide: Mapping[str, tuple[Any, ...]] | None = None,
    carry: Callable[..., tuple[Credit, Any]] | None = None,
    reads_with: Mapping[str, tuple[str, ...]] | None = None,
) -> Callable[[Callable[..., Credit]], Callable[..., Credit]]:
    """Put a pure function into the registry. The decorated function checks its input and stamps its result.

    Args:
        name: ``name`` for built-ins, ``package/name`` for everybody else.
        unit: the level it is made for. units: the levels it accepts (default: any).
        family: "monte-carlo", "value", "transform", … — the row of the docs table.
        reads, needs, source, holds, chain, kind, example, plan, most, wide, carry: see `MethodSpec`.
        reads_with: parameter → columns that it reads besides where that parameter is not at its default, as in
            ``reads_with={"kl_coef": ("logp_S", "ref_logp_S")}``: hosts fetch or compute them only then.
        scope: see `MethodSpec`; None = "group" where the law "local_to_group" holds, else "batch".

    Raises:
        ConfigError: a bad or taken name, a kind, unit, column, resource or law that does not exist, a function that
            takes something else, a parameter in ``wide`` or ``reads_with`` that is none.
    """

    def decorate(function: Callable[..., Credit]) -> Callable[..., Credit]:
        _check_name(name, function)
        check_declaration(
            name, kind=kind, unit=unit, units=units, reads=reads, needs=needs, holds=holds, reads_with=reads_with
        )
        check_takes(name, function, kind=kind, asks=plan is not None)
        if (plan is None) is not (not needs):
            raise ConfigError(f"{name}: a method that needs a resource has a plan, and only such a one")
        if plan is not None and (len(_positional(plan)) == 2) is not (most is not None):
            raise ConfigError(f"{name}: a plan that depends on answers, and only such a one, says the most it asks")
        defaults = _defaults(function, positional=1 if plan is None else 2)
        for what, named in (("wide", wide), ("reads_with", reads_with)):
            if unknown := [key for key in named or () if key not in defaults]:
                raise ConfigError(f"{name}: {what} names {unknown[0]!r}, which the method does not take")
        asked = None if plan is None else _planned(name, plan, defaults)

        @functools.wraps(function)
        def checked(data: Any, *answers: Sequence[Answer], **params: Any) -> Credit:
            bound = spec.bind(params)
            spec.check(data)
            if len(answers) != (plan is not None):
                raise ConfigError(_how_to_ask(spec))
            try:
                credit = function(data, *answers, **bound)
            except DataError as problem:
                if name in str(problem) or type(problem) is not DataError:
                    raise
                raise DataError(f"{name}: {problem}") from problem  # an expression has several names
            if not isinstance(credit, Credit):
                raise DataError(f"{name} returned a {type(credit).__name__}; a method returns apportion.Credit")
            if kind == "transform":
                return credit.stamped(f"{data.method} | {name}", _with_params(data, name, bound))
            return credit.stamped(name, bound)

        module = inspect.getmodule(function)
        spec = MethodSpec(
            name=name,
            call=checked,
            kind=kind,
            unit=unit,
            units=units,
            family=family,
            reads=reads,
            needs=needs,
            source=source,
            holds=holds,
            chain=chain,
            defaults=MappingProxyType(defaults),
            module=function.__module__,
            doc=inspect.getdoc(function) or "",
            module_doc=(module.__doc__ or "") if module else "",
            example=MappingProxyType(dict(example or {})),
            plan=asked,
            most=None if most is None else _planned(name, most, defaults),
            scope=scope or ("group" if "local_to_group" in holds else "batch"),
            wide=MappingProxyType(dict(wide or {})),
            carry=carry,
            reads_with=MappingProxyType(dict(reads_with or {})),
        )
        _SPECS[name] = spec
        return checked

    return decorate


def get(name: str) -> MethodSpec:
    """The spec of a method or transform; loads its plug-in on a miss.

    Raises:
        UnknownName: with the nearest names.
    """
    if name not in _SPECS:
        if "/" in name:
            _load_plugin(name)
        elif name in _built_in():
            importlib.import_module(f"{PACKAGE}.{name}")
    if name not in _SPECS:
        _load_built_ins()
        near = _nearest(name)
        every = "apportion methods --plugins" if plugged() else "apportion methods"
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; see `{every}`"
        raise UnknownName(f"no credit method named {name!r}{hint}")
    return _SPECS[name]


def names(kind: str | None = None, *, plugins: bool = False) -> tuple[str, ...]:
    """Registered names, built-ins first, in order; ``plugins`` also loads every installed plug-in.

    One that cannot be imported is a warning here, and an error where its own name is asked for.
    """
    _load_built_ins()
    if plugins:
        for point in metadata.entry_points(group=ENTRY_POINTS):
            if point.name not in _SPECS:
                try:
                    _load_plugin(point.name)
                except ConfigError as problem:
                    warnings.warn(str(problem), stacklevel=2)
    ordered = sorted(_SPECS, key=lambda name: ("/" in name, name))
    return tuple(name for name in ordered if kind in (None, _SPECS[name].kind))


def written_as(text: str) -> str | None:
    """The built-in method that papers write so: ``Dr. GRPO``, ``REINFORCE++``; None where it is no such name."""
    if not re.fullmatch(r"[A-Za-z]([\w. -]*\w)?(\+\+)?", text.strip()):
        return None
    plain = re.sub(r"[^a-z0-9]+", "_", text.strip().casefold().replace("++", "_pp"))
    return plain if plain in _built_in() and plain in names() else None


def plugged() -> tuple[str, ...]:
    """What stands before the slash in the names of installed plug-ins; nothing is imported for it."""
    points = metadata.entry_points(group=ENTRY_POINTS)
    return tuple(sorted({point.name.split("/")[0] for point in points}))


def _nearest(name: str) -> list[str]:
    """Names that somebody may have meant: as papers write them, without their package, with another package."""
    plain = re.sub(r"[^\w/]+", "_", name.casefold())  # papers write GRPO, Dr. GRPO
    if plain in _SPECS:
        return [plain]
    package, _, bare = plain.rpartition("/")
    if not package and (own := [known for known in _SPECS if known.endswith(f"/{bare}")]):
        return own
    if package and package not in plugged() and (near := difflib.get_close_matches(package, plugged(), 1)):
        return [f"{near[0]}/{bare}"]
    return difflib.get_close_matches(plain, _SPECS, 3)


@functools.cache
def _built_in() -> tuple[str, ...]:
    """Modules of this package; most hold the method of their name."""
    package = importlib.import_module(PACKAGE)
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def _load_built_ins() -> None:
    for module in _built_in():
        importlib.import_module(f"{PACKAGE}.{module}")


def _load_plugin(name: str) -> None:
    """Import the entry point of that name, or of its package."""
    points = metadata.entry_points(group=ENTRY_POINTS)
    for point in points:
        if point.name == name or point.name == name.split("/")[0]:
            try:
                point.load()
            except Exception as problem:
                raise ConfigError(
                    f"the plug-in {point.value!r} that offers {name!r} cannot be imported: "
                    f"{type(problem).__name__}: {problem}; fix or uninstall it"
                ) from problem


def _check_name(name: str, function: Callable[..., Any]) -> None:
    if not _NAME.match(name):
        raise ConfigError(f"method name {name!r} is not usable; give snake_case, or yourpackage/snake_case")
    inside = function.__module__.split(".")[0] == "apportion"
    if name in _SPECS and _SPECS[name].module != function.__module__:
        bare = name.split("/")[-1]
        raise ConfigError(
            f"method {name!r} is already taken by {_SPECS[name].module}; register yours as 'yourpackage/{bare}'"
        )
    if not inside and "/" not in name:
        raise ConfigError(f"bare names are for built-ins; register {name!r} as 'yourpackage/{name}'")


def _how_to_ask(spec: MethodSpec) -> str:
    if spec.plan is None:
        return f"{spec.name} asks nobody; leave the answers out"
    needs = " and ".join(need.replace("_", " ") for need in spec.needs)
    return f"{spec.name} asks a {needs}; call it as assign({spec.name!r}, units, ask=Asker(...))"


def _positional(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]


def _planned(
    name: str, plan: Callable[..., Sequence[Ask]], defaults: Mapping[str, Any]
) -> Callable[..., Sequence[Ask]]:
    """The plan as callers see it: it is given every parameter of the method and takes those that it names."""
    takes = [p for key, p in inspect.signature(plan).parameters.items() if key not in _positional(plan)]
    check_plan_takes(name, takes, defaults)

    @functools.wraps(plan)
    def planned(*data: Any, **params: Any) -> Sequence[Ask]:
        return asks_of(name, plan(*data, **{p.name: params[p.name] for p in takes}))

    return planned


def _defaults(function: Callable[..., Any], *, positional: int) -> dict[str, Any]:
    parameters = list(inspect.signature(function).parameters.values())[positional:]
    return {p.name: REQUIRED if p.default is inspect.Parameter.empty else p.default for p in parameters}


def _with_params(credit: Credit, name: str, bound: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of everything that made a credit, by name, and those of the transform ``name`` after it."""
    before = {credit.method: dict(credit.params)} if _NAME.match(credit.method) else dict(credit.params)
    return {**before, numbered(name, before): bound}


def numbered(name: str, taken: Container[str]) -> str:
    """The name, or ``name#2``, ``name#3``, … where it is taken."""
    k, out = 2, name
    while out in taken:
        out, k = f"{name}#{k}", k + 1
    return out
