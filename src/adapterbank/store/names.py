"""Names of tasks and tenants, checked before any path is made of them.

A task's full name is `tenant/task`; `task` alone is of the tenant `default`. `task@3` names one of
its versions.
"""

from __future__ import annotations

import re

from adapterbank.errors import ConfigError

DEFAULT_TENANT = "default"

_PART = r"[a-z0-9][a-z0-9._-]{0,63}"
_NAME = re.compile(rf"(?:({_PART})/)?({_PART})")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")


def check_name(name: object) -> str:
    """`name` in its short form, if it is `task` or `tenant/task` in letters that are safe in every
    path: without the tenant where that is `default`."""
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None or ".." in found[0]:
        raise _wrong(name, "a task's name")
    return found[2] if found[1] in (None, DEFAULT_TENANT) else found[0]


def is_name(name: str) -> bool:
    """Whether it could be a task's or a tenant's."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def check_tenant(name: object) -> str:
    """`name` itself, if it is a tenant's."""
    if not isinstance(name, str) or "/" in name or not is_name(name):
        raise _wrong(name, "a tenant's name")
    return name


def split_name(name: str) -> tuple[str, str]:
    """Tenant and task of a name."""
    tenant, _, task = check_name(name).rpartition("/")
    return tenant or DEFAULT_TENANT, task


def split_reference(reference: object) -> tuple[str, int | None]:
    """Name and version of `task` or `task@3`."""
    if not isinstance(reference, str) or "@" not in reference:
        return check_name(reference), None
    name, _, version = reference.partition("@")
    if not _VERSION.fullmatch(version):
        raise ConfigError(
            f"{_shown(reference)} names no version.", "Versions are whole numbers from 1: task@3."
        )
    return check_name(name), int(version)


def _wrong(name: object, what: str) -> ConfigError:
    return ConfigError(
        f"{_shown(name)} is not {what}.",
        "Use 1 to 64 of a-z, 0-9, '.', '_' and '-', starting with a letter or digit and "
        "without '..'; a tenant may stand in front of a task: tenant/task.",
    )


def _shown(name: object) -> str:
    shown = repr(name)
    return shown if len(shown) <= 80 else shown[:77] + "..."
