"""The log of each task: its states one after the other, each a file; the highest number wins.

    tasks/<tenant>/<task>/records/00000017.json

Readers look for the newest. Writers append on top of it; one that finds its number taken was too
slow, and tries again on what it finds. Records never change, so what was read once is known.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from adapterbank.errors import BankError, PackageError
from adapterbank.store.files import Files, remove_old
from adapterbank.store.names import check_name, check_tenant, is_name, split_name
from adapterbank.store.record import MAX_BYTES, NOTHING, Record, Version

TASKS = "tasks"
TRIES = 1000  # of an append against other writers
_FILE = re.compile(r"[0-9]{8}\.json")


class TaskLog:
    """The states of all tasks of a bank."""

    def __init__(self, files: Files, patience: float = 0.0) -> None:
        self.files = files
        self.patience = patience
        """For how many seconds a task's state is taken to be what it was. A folder is looked into
        every time; each look at an object store is a request of tens of milliseconds."""
        self._read: dict[str, Record] = {}
        """The newest record of each task that was looked at."""
        self._looked: dict[str, float] = {}
        """When each was last looked for."""

    def tenants(self) -> list[str]:
        """Whoever ever had a task."""
        return [name for name in self.files.names(TASKS) if is_name(name)]

    def names(self, tenant: str | None = None) -> Iterator[str]:
        """Of all tasks that ever were, sorted; of one tenant if given."""
        for owner in self.tenants() if tenant is None else [check_tenant(tenant)]:
            for task in self.files.names(f"{TASKS}/{owner}"):
                if is_name(f"{owner}/{task}"):
                    yield check_name(f"{owner}/{task}")

    def state(self, name: str) -> Record:
        """The state of a task: the empty one where nothing was ever published."""
        looked = self._looked.get(name)
        if looked is not None and time.monotonic() - looked < self.patience:
            return self._read[name]
        return self.newest(name)

    def newest(self, name: str) -> Record:
        """The state of a task, as it is now."""
        for _ in range(TRIES):
            looked = time.monotonic()
            found = self._files_of(name)
            if not found:
                return NOTHING
            known = self._read.get(name)
            if known is not None and _file_of(known.sequence) == found[-1]:
                self._looked[name] = looked
                return known
            try:
                record = self._record(name, found[-1])
            except FileNotFoundError:  # collected meanwhile: there is a newer one
                continue
            if _file_of(record.sequence) != found[-1]:
                raise PackageError(f"The record of task {name!r} is not in its place.")
            self._read[name], self._looked[name] = record, looked
            return record
        raise BankError(f"The records of task {name!r} change faster than they can be read.")

    def before(self, name: str, record: Record) -> Record | None:
        """The state before a record; None where it is gone."""
        try:
            return self._record(name, _file_of(record.sequence - 1))
        except (FileNotFoundError, PackageError):
            return None

    def append(
        self, name: str, change: Callable[[Record], Record], *, despite_damage: bool = False
    ) -> Record:
        """Add a record, on top of whatever another writer has added meanwhile."""
        for _ in range(TRIES):
            try:
                state = self.newest(name)
            except PackageError:
                if not despite_damage:
                    raise
                state = self._damaged(name)
            record = change(state)
            place = f"{_records(name)}/{_file_of(record.sequence)}"
            if self.files.create(place, _bytes_of(name, record)):
                self._looked.pop(name, None)  # what was done here is seen here at once
                return record
        raise BankError(
            f"Task {name!r} could not be changed: others keep changing it.", "Try again."
        )

    def _damaged(self, name: str) -> Record:
        """In place of a record that cannot be read, one that gives no version number again."""
        last = int(self._files_of(name)[-1].removesuffix(".json"))
        lost = Version(last, "", 0, "")
        return replace(NOTHING, sequence=last, highest=last, current=last, versions=(lost,))

    def packages(self, name: str) -> set[str]:
        """Every package that a record of a task names or named. PackageError if one of the records
        cannot be read."""
        found: set[str] = set()
        for file in self._files_of(name):
            with suppress(FileNotFoundError):  # forgotten just now
                found |= self._record(name, file).packages
        return found

    def forget(self, name: str, record: Record, older_than: float) -> None:
        """Delete the old ones of the records before this one. A writer that has read one of them
        and is slow must find the number after it taken."""
        for file in self._files_of(name):
            if file < _file_of(record.sequence):
                remove_old(self.files, f"{_records(name)}/{file}", older_than)

    def _files_of(self, name: str) -> list[str]:
        """The files of a task's records; what else somebody may have put there is passed by."""
        with _of_task(name):
            return [file for file in self.files.names(_records(name)) if _FILE.fullmatch(file)]

    def _record(self, name: str, file: str) -> Record:
        with _of_task(name):
            raw = self.files.read(f"{_records(name)}/{file}", MAX_BYTES)
        return Record.from_json(raw, name)


@contextmanager
def _of_task(name: str) -> Iterator[None]:
    """Records that may not be read are their own task's trouble, and hold up no other. A service
    that cannot be reached stays the whole bank's."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(name, error) from error
    except BankError as error:
        if isinstance(error.__cause__, PermissionError):
            raise _unreadable(name, error.__cause__) from error
        raise


def _unreadable(name: str, error: OSError) -> PackageError:
    return PackageError(
        f"The record of task {name!r} cannot be read: {error.strerror or error}.",
        "See to the permissions of its files, and that they are files.",
    )


def _bytes_of(name: str, record: Record) -> bytes:
    content = record.to_json()
    if len(content) > MAX_BYTES:  # it could not be read again
        raise BankError(
            f"Task {name!r} keeps too many versions: a record of {len(record.versions):,} has "
            f"{len(content):,} bytes, and {MAX_BYTES:,} is the most.",
            "Let older ones go: adapterbank gc --keep N.",
        )
    return content


def home_of(name: str) -> str:
    """Where a task has its records and packages."""
    tenant, task = split_name(name)
    return f"{TASKS}/{tenant}/{task}"


def package_of(name: str, digest: str) -> str:
    """Where one of its packages is."""
    return f"{packages_of(name)}/{digest}"


def packages_of(name: str) -> str:
    """Where all of them are."""
    return f"{home_of(name)}/packages"


def _records(name: str) -> str:
    return f"{home_of(name)}/records"


def _file_of(sequence: int) -> str:
    return f"{sequence:08d}.json"
