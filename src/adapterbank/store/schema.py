"""Strict JSON: text to plain values, and plain values to dataclasses by their annotations.

Nothing is guessed or filled in: a field that is missing, unknown or of another type is an error
(`ValueError`) that names its place.
"""

from __future__ import annotations

import json
import math
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def parse(text: str | bytes) -> object:
    """Plain values of a JSON text. No NaN, no key twice, no bottomless nesting."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field stands there twice")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def decode(kind: Any, value: object, where: str) -> Any:
    """`value` as `kind`: a dataclass, Literal, `X | None`, `tuple[X, ...]`, `dict[str, X]`, a
    plain type, or `object` for any plain value. `where` names the value in errors."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is object:
        return value
    if is_dataclass(kind):
        return _decode_fields(kind, value, where)
    if origin in (UnionType, Union):
        (some,) = (one for one in inner if one is not NoneType)
        return None if value is None else decode(some, value, where)
    if origin is Literal:
        if value not in inner or isinstance(value, bool):
            raise _wrong(where, value, f"one of {', '.join(map(str, inner))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(where, value, "a list")
        return tuple(decode(inner[0], one, f"{where}[{i}]") for i, one in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        return {name: decode(inner[1], one, f"{where}.{name}") for name, one in value.items()}
    return _decode_plain(kind, value, where)


def _decode_fields(kind: Any, value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object")
    hints = _hints(kind)
    if missing := hints.keys() - value.keys():
        raise ValueError(f"{where} lacks the field {min(missing)}")
    if unknown := value.keys() - hints.keys():
        raise ValueError(f"{where} has an unknown field, {_short(min(unknown))}")
    return kind(
        **{name: decode(hint, value[name], f"{where}.{name}") for name, hint in hints.items()}
    )


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode_plain(kind: type, value: object, where: str) -> object:
    if kind is float and type(value) is int and abs(value) < 2**53:
        value = float(value)
    if type(value) is not kind or (type(value) is float and not math.isfinite(value)):
        raise _wrong(where, value, _NAMES[kind])
    return value


def _wrong(where: str, value: object, accepted: str) -> ValueError:
    return ValueError(f"{where[:120]} is {_short(value)}, and must be {accepted}")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
