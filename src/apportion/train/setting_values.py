"""Values of settings: held against the type that a setting is annotated with, and read from a file or from a flag."""

from __future__ import annotations

import json
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from apportion.errors import ConfigError, FormatError, missing_extra

WORDS = {int: "an integer", float: "a number", str: "text", bool: "true or false", Mapping: "a table"}


def checked(name: str, value: Any, kind: Any) -> Any:
    """The value, integers as floats where a float is due; a sentence where the type is wrong."""
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    for option in options:
        if get_origin(option) is Literal:
            if value in get_args(option):
                return value
            raise ConfigError(f"{name} is {value!r}; give one of {', '.join(map(repr, get_args(option)))}")
        plain = get_origin(option) or option
        if plain is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if plain is Mapping and isinstance(value, Mapping):
            return dict(value)
        if plain is not bool and isinstance(value, bool):
            continue
        if isinstance(value, plain):
            return value
    wanted = " or ".join("nothing" if o is type(None) else WORDS[get_origin(o) or o] for o in options)
    raise ConfigError(f"{name} is {value!r}; it takes {wanted}")


def read_settings(path: Path) -> Mapping[str, Any]:
    """The table of a TOML, YAML (.yaml, .yml) or JSON file."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; give a TOML, YAML or JSON file of settings")
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix in (".yaml", ".yml"):
            try:
                import yaml  # type: ignore[import-untyped]
            except ImportError as error:
                raise missing_extra("reading YAML", "pyyaml", "train") from error
            try:
                data = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise ValueError(str(error).replace("\n", " ")) from None
        elif path.suffix == ".json":
            data = json.loads(text)
        else:
            data = tomllib.loads(text)
    except ValueError as error:  # every parser's error is one
        raise FormatError(f"{path}: cannot be read ({error}); see the examples in the documentation") from None
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise FormatError(f"{path}: holds a {type(data).__name__}; give a table of settings")
    return data


def flag_value(text: str) -> Any:
    """A value of TOML; what is not TOML is text as it stands."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
