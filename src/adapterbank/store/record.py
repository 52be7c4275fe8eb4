"""The record of a task: its versions, and which of them is current.

Every change appends a record with the task's whole state; the highest number wins. So a reader
needs one list and one file whatever the history, and a writer that finds its number taken has lost
a race: it reads again and applies its change to what it finds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from adapterbank.errors import PackageError
from adapterbank.store.schema import decode
from adapterbank.store.sealed import seal, unseal

MAX_BYTES = 4 * 2**20
FORMAT = 1
Action = Literal["publish", "rollback", "remove", "purge", "collect"]


@dataclass(frozen=True)
class Version:
    """One version of a task: a package, and never another."""

    version: int
    package: str
    """sha256 of its manifest."""
    bytes: int
    published: str


@dataclass(frozen=True)
class Record:
    """The state of a task after a change."""

    sequence: int
    action: Action
    at: str
    current: int | None
    """None once it is removed."""
    highest: int
    """Of all version numbers ever given: none is given twice."""
    versions: tuple[Version, ...]
    """Those that are kept, oldest first."""
    format: int = FORMAT

    @property
    def packages(self) -> set[str]:
        """The digests of all that is kept."""
        return {each.package for each in self.versions}

    def find(self, version: int) -> Version | None:
        """A version that is kept."""
        return next((each for each in self.versions if each.version == version), None)

    def publish(self, package: str, size: int) -> Record:
        """With one version more, the current one."""
        version, now = self.highest + 1, now_text()
        kept = (*self.versions, Version(version, package, size, now))
        return self._next("publish", current=version, highest=version, versions=kept)

    def rollback(self, version: int) -> Record:
        """With an earlier (or later) version as the current one."""
        return self._next("rollback", current=version)

    def remove(self) -> Record:
        """With no current version; the versions stay."""
        return self._next("remove", current=None)

    def purge(self) -> Record:
        """With nothing left but the count of versions."""
        return self._next("purge", current=None, versions=())

    def collect(self, keep: int) -> Record:
        """With the newest `keep` versions and the current one."""
        newest = {each.version for each in self.versions[-keep:]} | {self.current}
        kept = tuple(each for each in self.versions if each.version in newest)
        return self._next("collect", versions=kept)

    def _next(self, action: Action, **changes: object) -> Record:
        return replace(
            self,
            sequence=self.sequence + 1,
            action=action,
            at=now_text(),
            **changes,  # type: ignore[arg-type]
        )

    def to_json(self) -> bytes:
        """The bytes of the record's file."""
        return seal(asdict(self))

    @classmethod
    def from_json(cls, raw: bytes, task: str) -> Record:
        """Read and check the bytes of a record's file."""
        try:
            record: Record = decode(cls, unseal(raw), "record")
            kept = [each.version for each in record.versions]
            if kept != sorted(set(kept)) or not all(0 < v <= record.highest for v in kept):
                raise ValueError("its versions are out of order")
            if record.current is not None and record.current not in kept:
                raise ValueError("its current version is not kept")
        except ValueError as error:
            raise PackageError(
                f"The record of task {task!r} is damaged: {error}.",
                "Restore its file from a copy of the bank, or purge the task and learn it again.",
            ) from error
        return record


NOTHING = Record(sequence=0, action="purge", at="", current=None, highest=0, versions=())


def now_text() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
