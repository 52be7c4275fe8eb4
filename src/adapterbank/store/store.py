"""Versions of tasks in a folder: `<bank>/<task>/<version>/` is a package, and never changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from adapterbank.errors import PackageError
from adapterbank.store.manifest import Manifest
from adapterbank.store.names import check_name
from adapterbank.store.package import write_package

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

RUNS = ".runs"  # where runs that are not finished keep their state


def publish(bank: Path, manifest: Manifest, tensors: Mapping[str, Tensor]) -> Manifest:
    """Write a task's next version."""
    home = bank / check_name(manifest.task)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PackageError(
            f"The bank {str(bank)!r} cannot be written to: {error.strerror}.",
            "Name another with --bank.",
        ) from error
    version = max(versions(bank, manifest.task), default=0) + 1
    return write_package(home / str(version), replace(manifest, version=version), tensors)


def versions(bank: Path, task: str) -> list[int]:
    """The versions of a task, oldest first."""
    home = bank / check_name(task)
    return sorted(int(path.name) for path in home.glob("[0-9]*") if path.name.isdecimal())


def find(bank: Path, reference: str) -> Path:
    """The package of `TASK` (its newest version) or `TASK@3`."""
    task, _, wanted = reference.partition("@")
    if not bank.is_dir():
        raise PackageError(
            f"There is no bank at {str(bank)!r}.", "Learn a task: adapterbank train."
        )
    there = versions(bank, task)
    if not there:
        known = ", ".join(sorted(tasks(bank))) or "none yet"
        raise PackageError(f"The bank has no task {task!r}.", f"Its tasks: {known}.")
    version = int(wanted) if wanted.isdecimal() else None if wanted else there[-1]
    if version not in there:
        raise PackageError(
            f"Task {task!r} has no version {wanted!r}.", f"It has: {', '.join(map(str, there))}."
        )
    return bank / task / str(version)


def tasks(bank: Path) -> list[str]:
    """The names of all tasks."""
    shown = "[!.]*"  # what starts with a dot is unfinished
    found = {path.parent.parent for path in bank.glob(f"{shown}/{shown}/manifest.json")}
    found |= {path.parent.parent for path in bank.glob(f"{shown}/{shown}/{shown}/manifest.json")}
    return sorted(path.relative_to(bank).as_posix() for path in found)
