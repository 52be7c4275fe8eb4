"""Verbs that take groups of options: each field of a dataclass becomes an option of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb as the command line's library wants it: flat. What it is called with is put
    together again."""
    flat: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        kind = parameter.annotation
        if not is_dataclass(kind):
            flat.append(parameter)
            continue
        assert isinstance(kind, type)  # noqa: S101 - an annotation is a class
        groups[parameter.name] = kind
        hints = get_type_hints(kind, include_extras=True)
        flat += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(kind)
        ]

    @wraps(verb)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        verb(**given)

    order = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in flat]
    run.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in order}
    return run
