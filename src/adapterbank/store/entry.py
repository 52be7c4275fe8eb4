"""What a bank says of a task: one of its versions, with what there is to know of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from adapterbank.store.manifest import Manifest
from adapterbank.store.record import Version


@dataclass(frozen=True)
class Entry:
    """One version of one task in a bank."""

    task: str
    version: Version

    def __str__(self) -> str:
        return f"{self.task}@{self.version.version}"


@dataclass(frozen=True)
class TaskInfo:
    """A task in a bank: one of its versions, and those beside it."""

    task: str
    version: Version
    current: int | None
    versions: tuple[Version, ...]
    manifest: Manifest

    def __str__(self) -> str:
        return f"{self.task}@{self.version.version}"

    def summary(self) -> dict[str, Any]:
        """The task in a few fields, for JSON."""
        manifest = self.manifest
        return {
            "task": self.task,
            "version": self.version.version,
            "versions": [each.version for each in self.versions],
            "kind": manifest.kind,
            "pair": manifest.pair,
            "labels": list(manifest.labels),
            "metric": manifest.metric,
            "dev": manifest.dev,
            "test": manifest.test,
            "method": manifest.method.name,
            "trained_parameters": manifest.parameters.trained,
            "percent_of_base": manifest.parameters.percent_of_base,
            "bytes": self.version.bytes,
            "published": self.version.published,
        }

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the manifest with the bank's own knowledge."""
        return {
            **asdict(self.manifest),
            "task": self.task,
            "version": self.version.version,
            "current": self.current,
            "published": self.version.published,
            "bytes": self.version.bytes,
            "versions": [asdict(each) for each in self.versions],
        }
