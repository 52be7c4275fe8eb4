"""Names of tasks and tenants, checked before any path is made of them."""

from __future__ import annotations

import re

from adapterbank.errors import ConfigError

_PART = r"[a-z0-9][a-z0-9._-]{0,63}"
_NAME = re.compile(rf"{_PART}(/{_PART})?")


def check_name(name: object) -> str:
    """`name` itself, if it is `task` or `tenant/task` in letters that are safe in every path."""
    if isinstance(name, str) and _NAME.fullmatch(name) and ".." not in name:
        return name
    shown = repr(name)
    raise ConfigError(
        f"{shown if len(shown) <= 80 else shown[:77] + '...'} is not a task's name.",
        "Use 1 to 64 of a-z, 0-9, '.', '_' and '-', starting with a letter or digit and without "
        "'..'; a tenant may stand in front: tenant/task.",
    )
