"""A bank's files: versions of tasks on one base, published whole or not at all, never changed.

    bank.json                                   the base that everything here fits
    tasks/<tenant>/<task>/records/00000017.json the task's state; the highest number wins
    tasks/<tenant>/<task>/packages/<digest>/    a package, named by its manifest's digest

Publishing writes the package first and the record last, so a reader sees the old version or the
new one. What a crash leaves behind is an unfinished folder or a package without a record: readers
never see them, and `collect` removes them. Nothing here grows with the number of tasks but their
listing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from adapterbank.errors import BankError, BankNotFound, PackageError, TaskNotFound, WrongBase
from adapterbank.store.cache import PackageCache
from adapterbank.store.files import Files, LocalFiles, make_folders, open_files
from adapterbank.store.known_files import KnownFiles
from adapterbank.store.manifest import BaseRecord, Manifest
from adapterbank.store.names import check_name, check_tenant, is_name, split_name, split_reference
from adapterbank.store.package import MANIFEST, Package, Packed, pack, unpack, unpack_manifest
from adapterbank.store.record import MAX_BYTES, NOTHING, Record, Version, now_text
from adapterbank.store.schema import decode
from adapterbank.store.sealed import seal, unseal
from adapterbank.store.weights import WEIGHTS

if TYPE_CHECKING:
    from torch import Tensor

Opener = Callable[[str], BufferedIOBase]
T = TypeVar("T")
FORMAT = 1
BANK = "bank.json"
TASKS = "tasks"
HOUR = 3600.0
TRIES = 1000  # of an append against other writers


@dataclass(frozen=True)
class BankRecord:
    """What a bank says of itself."""

    base: BaseRecord
    created: str
    format: int = FORMAT


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


class Store:
    """Versions of tasks at a folder or URL. Any number of processes may use one at a time."""

    def __init__(self, files: Files, bank: BankRecord) -> None:
        self.files, self.base = files, bank.base
        self._read: dict[str, Record] = {}
        """The newest record of each task that was looked at: records never change."""
        self._looked: dict[str, float] = {}
        """When each was last looked for."""
        self.patience = 0.0
        """For how many seconds a task's state is taken to be what it was. A folder is looked into
        every time; each look at an object store is a request of tens of milliseconds."""
        local = isinstance(files, LocalFiles)
        self._cache = None if local else PackageCache(self.local / "packages")

    @classmethod
    def open(cls, url: str | Path) -> Store:
        """A bank that is there."""
        files = open_files(url)
        try:
            raw = files.read(BANK, MAX_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            raise BankNotFound(
                f"There is no bank at {files.url!r}.",
                "Name another with --bank, or learn a first task: adapterbank train.",
            ) from None
        except OSError as error:
            raise BankError(
                f"The bank at {files.url!r} cannot be read: {error.strerror}."
            ) from error
        try:
            bank: BankRecord = decode(BankRecord, unseal(raw), "bank")
        except ValueError as error:
            raise BankError(f"{BANK} of the bank at {files.url!r} is damaged: {error}.") from error
        return cls(files, bank)

    @classmethod
    def create(cls, url: str | Path, base: BaseRecord) -> Store:
        """A bank on a base; one that is there already must be on the same."""
        files = open_files(url)
        if isinstance(files, LocalFiles):
            try:
                make_folders(files.local)
            except OSError as error:
                raise BankError(
                    f"There can be no bank at {files.url!r}: {error.strerror}.",
                    "Name another place with --bank.",
                ) from error
        files.create(BANK, seal(asdict(BankRecord(base, now_text()))))
        store = cls.open(url)
        store.check_base(base)
        return store

    def fresh(self) -> Store:
        """The same bank, with nothing remembered."""
        other = copy(self)
        other._read, other._looked = {}, {}
        return other

    def check_base(self, base: BaseRecord) -> None:
        """Refuse any base but this bank's."""
        if base.fingerprint != self.base.fingerprint:
            raise WrongBase(
                f"The bank at {self.files.url!r} is on {self.base.name} "
                f"({self.base.fingerprint}), and this base is {base.name} ({base.fingerprint}).",
                "Everything in a bank fits one base, bit for bit: use that one, or another bank.",
            )

    def runs(self, name: str) -> Path:
        """A folder of this machine for the state of runs that are not finished."""
        return self.local / ".runs" / Path(*split_name(name))

    def forget_runs(self, name: str) -> None:
        """Delete the states of a task's runs."""
        shutil.rmtree(self.runs(name), ignore_errors=True)

    @property
    def local(self) -> Path:
        """A folder of this machine that goes with the bank: the bank itself, if it is one."""
        if isinstance(self.files, LocalFiles):
            return self.files.local
        cache = os.environ.get("ADAPTERBANK_CACHE") or Path.home() / ".cache" / "adapterbank"
        return Path(cache) / hashlib.sha256(self.files.url.encode()).hexdigest()[:16]

    # --- reading

    def tasks(self, tenant: str | None = None) -> Iterator[str]:
        """The names of all tasks, sorted; of one tenant if given."""
        for owner in self._tenants() if tenant is None else [tenant]:
            for name in self._names(owner):
                try:
                    there = self.record(name).current is not None
                except PackageError:  # damaged, and told when it is used
                    there = True
                if there:
                    yield name

    def _tenants(self) -> list[str]:
        return [name for name in self.files.names(TASKS) if is_name(name)]

    def _names(self, tenant: str) -> list[str]:
        """Of all tasks of a tenant that ever were."""
        tenant = check_tenant(tenant)
        names = (f"{tenant}/{task}" for task in self.files.names(f"{TASKS}/{tenant}"))
        return [check_name(name) for name in names if is_name(name)]

    def kept(self) -> set[str]:
        """Every version that is kept, as task@3; of removed tasks too."""
        names = [name for tenant in self._tenants() for name in self._names(tenant)]
        return {str(Entry(name, each)) for name in names for each in self.record(name).versions}

    def record(self, name: str) -> Record:
        """The state of a task: the empty one where nothing was ever published."""
        looked = self._looked.get(name)
        if looked is not None and time.monotonic() - looked < self.patience:
            return self._read[name]
        return self._newest(name)

    def _newest(self, name: str) -> Record:
        """The state of a task, as it is now."""
        records = f"{_home(name)}/records"
        for _ in range(TRIES):
            looked = time.monotonic()
            found = self.files.names(records)
            if not found:
                return NOTHING
            known = self._read.get(name)
            if known is not None and _file_of(known.sequence) == found[-1]:
                self._looked[name] = looked
                return known
            try:
                raw = self.files.read(f"{records}/{found[-1]}", MAX_BYTES)
            except FileNotFoundError:  # collected meanwhile: there is a newer one
                continue
            record = Record.from_json(raw, name)
            if _file_of(record.sequence) != found[-1]:
                raise PackageError(f"The record of task {name!r} is not in its place.")
            self._read[name], self._looked[name] = record, looked
            return record
        raise BankError(f"The records of task {name!r} change faster than they can be read.")

    def find(self, reference: str) -> Entry:
        """What `task` (its current version) or `task@3` is."""
        name, wanted = split_reference(reference)
        record = self.record(name)
        if wanted is None:
            if record.current is None:
                raise self._unknown(name, record)
            wanted = record.current
        version = record.find(wanted)
        if version is None or record.current is None:
            if not record.versions or record.current is None:
                raise self._unknown(name, record)
            raise TaskNotFound(
                f"Task {name!r} has no version {wanted}.",
                f"It has: {', '.join(str(each.version) for each in record.versions)}.",
            )
        return Entry(name, version)

    def _unknown(self, name: str, record: Record) -> TaskNotFound:
        if record.versions:
            return TaskNotFound(
                f"Task {name!r} was removed.",
                f"adapterbank rollback {name} {self._last(name, record)} brings it back.",
            )
        return TaskNotFound(
            f"The bank has no task {name!r}.", "adapterbank tasks lists those it has."
        )

    def _last(self, name: str, removed: Record) -> int:
        """The version that was current until the task was removed; the newest where the record of
        it is gone."""
        before = f"{_home(name)}/records/{_file_of(removed.sequence - 1)}"
        try:
            current = Record.from_json(self.files.read(before, MAX_BYTES), name).current
        except (OSError, PackageError):
            current = None
        found = removed.find(current) if current is not None else None
        return (found or removed.versions[-1]).version

    def info(
        self, reference: str, manifest_of: Callable[[Entry], Manifest] | None = None
    ) -> TaskInfo:
        """What there is to know of a task; its weights are not looked at. `manifest_of` may
        remember manifests, which never change."""
        entry = self.find(reference)
        record = self.record(entry.task)
        manifest = (manifest_of or self.manifest)(entry)
        return TaskInfo(entry.task, entry.version, record.current, record.versions, manifest)

    def manifest(self, entry: Entry) -> Manifest:
        """What a version says of itself; its weights are not looked at."""
        return self._checked(entry, unpack_manifest)

    def _checked(self, entry: Entry, read: Callable[[Opener, str], T]) -> T:
        """What is read of a version; if a copy on this machine is damaged, of a fresh one."""
        digest = entry.version.package
        try:
            return read(self.opener(entry), digest)
        except PackageError:
            if self._cache is None or not self._cache.has(digest):
                raise
            self._cache.forget(digest)
        return read(self.opener(entry), digest)

    def load(self, entry: Entry, known: KnownFiles | None = None) -> Package:
        """A version with every check; files that are `known` and the same still are not hashed
        again."""
        package = self._checked(entry, partial(unpack, known=known))
        if package.manifest.base.fingerprint != self.base.fingerprint:
            raise WrongBase(
                f"{entry} fits {package.manifest.base.name} "
                f"({package.manifest.base.fingerprint}), and the bank is on {self.base.name} "
                f"({self.base.fingerprint})."
            )
        return package

    def packed(self, entry: Entry) -> Packed:
        """A version as the bytes of its files, with every check."""

        def read(opener: Opener, digest: str) -> Packed:
            found = {}
            for name in (WEIGHTS, MANIFEST):
                with opener(name) as file:
                    found[name] = file.read()
            packed = Packed(unpack_manifest(opener, digest), found)
            packed.unpack()
            return packed

        return self._checked(entry, read)

    def opener(self, entry: Entry) -> Opener:
        """A function that opens a file of a version by name."""
        digest = entry.version.package
        folder = _package(entry.task, digest)

        def open_file(name: str) -> BufferedIOBase:
            def fetch() -> BufferedIOBase:
                return self.files.open(f"{folder}/{name}")

            try:
                return self._cache.open(digest, name, fetch) if self._cache else fetch()
            except FileNotFoundError as error:
                raise PackageError(
                    f"{entry} has lost its {name}.", "Restore it, or publish the task again."
                ) from error
            except OSError as error:
                raise PackageError(
                    f"{name} of {entry} cannot be read: {error.strerror}."
                ) from error

        return open_file

    # --- writing

    def publish(self, name: str, manifest: Manifest, tensors: Mapping[str, Tensor]) -> Entry:
        """Add a version and make it the current one. When this returns, it is kept."""
        return self.publish_packed(name, pack(manifest, tensors))

    def publish_packed(self, name: str, packed: Packed) -> Entry:
        """The same for the files of a package."""
        name = check_name(name)
        self.check_base(packed.manifest.base)
        place = _package(name, packed.digest)
        self.files.add_folder(place, packed.files)
        record = self._append(name, lambda state: state.publish(packed.digest, packed.bytes))
        if MANIFEST not in self.files.names(place):  # purged before there was a record of it
            self.files.add_folder(place, packed.files)
        return Entry(name, record.versions[-1])

    def rollback(self, name: str, version: int) -> Entry:
        """Make another version the current one; a removed task comes back with it."""
        name = check_name(name)

        def change(state: Record) -> Record:
            if state.find(version) is None:
                has = ", ".join(str(each.version) for each in state.versions) or "none"
                raise TaskNotFound(f"Task {name!r} has no version {version}.", f"It has: {has}.")
            return state.rollback(version)

        record = self._append(name, change)
        found = record.find(version)
        assert found is not None  # noqa: S101 - `change` has seen it
        return Entry(name, found)

    def remove(self, name: str, *, purge: bool = False) -> None:
        """Take a task out. With `purge` its bytes are deleted too, and there is no way back."""
        name = check_name(name)

        def change(state: Record) -> Record:
            if state.current is None and not (purge and state.versions):
                raise self._unknown(name, state)
            return state.purge() if purge else state.remove()

        record = self._append(name, change, despite_damage=purge)
        if purge:
            for digest in self._had(name) - _packages(self._newest(name)):
                if self._cache is not None:
                    self._cache.forget(digest)
                self.files.remove(_package(name, digest))
            self._sweep(name, HOUR)
            self._forget(name, record, HOUR)
            self.forget_runs(name)

    def collect(self, *, keep: int | None = None, older_than: float = HOUR) -> int:
        """Delete what no record names any more, and but for `keep` versions a task the older ones.

        Only what is older than `older_than` seconds goes: a younger package may be about to be
        published. Returns how many packages and unfinished pieces were deleted.
        """
        count = self.files.sweep(older_than)
        named: set[str] = set()
        for tenant in self._tenants():
            for name in self._names(tenant):
                record = self.record(name)
                if keep is not None and record.collect(keep).versions != record.versions:
                    record = self._append(name, lambda state: state.collect(keep))
                self._forget(name, record, older_than)
                named |= _packages(record)
                count += self._sweep(name, older_than)
        if self._cache is not None:
            count += self._cache.forget_others(named)
        return count

    def _append(
        self, name: str, change: Callable[[Record], Record], *, despite_damage: bool = False
    ) -> Record:
        """Add a record, on top of whatever another writer has added meanwhile."""
        for _ in range(TRIES):
            try:
                state = self._newest(name)
            except PackageError:
                if not despite_damage:
                    raise
                state = self._damaged(name)
            record = change(state)
            place = f"{_home(name)}/records/{_file_of(record.sequence)}"
            if self.files.create(place, record.to_json()):
                self._looked.pop(name, None)  # what was done here is seen here at once
                return record
        raise BankError(
            f"Task {name!r} could not be changed: others keep changing it.", "Try again."
        )

    def _damaged(self, name: str) -> Record:
        """In place of a record that cannot be read, one that gives no version number again."""
        last = int(self.files.names(f"{_home(name)}/records")[-1].removesuffix(".json"))
        lost = Version(last, "", 0, "")
        return replace(NOTHING, sequence=last, highest=last, current=last, versions=(lost,))

    def _had(self, name: str) -> set[str]:
        """The packages that records of a task name or named: none that is about to be published.
        If one of the records cannot be read, all that there are."""
        home, found = _home(name), set()
        for file in self.files.names(f"{home}/records"):
            try:
                raw = self.files.read(f"{home}/records/{file}", MAX_BYTES)
                found |= _packages(Record.from_json(raw, name))
            except FileNotFoundError:  # forgotten just now
                continue
            except PackageError:
                return set(self.files.names(f"{home}/packages"))
        return found

    def _sweep(self, name: str, older_than: float) -> int:
        """Delete the packages of a task that no record names; how many there were."""
        home, count = f"{_home(name)}/packages", 0
        for package in set(self.files.names(home)) - _packages(self._newest(name)):
            with suppress(FileNotFoundError):  # another was quicker
                if self.files.age(f"{home}/{package}") >= older_than:
                    self.files.remove(f"{home}/{package}")
                    count += 1
        return count

    def _forget(self, name: str, record: Record, older_than: float) -> None:
        """Delete the old ones of the records before this one. A writer that has read one of them
        and is slow must find the number after it taken."""
        records = f"{_home(name)}/records"
        for file in self.files.names(records):
            if file < _file_of(record.sequence):
                with suppress(FileNotFoundError):  # another was quicker
                    if self.files.age(f"{records}/{file}") >= older_than:
                        self.files.remove(f"{records}/{file}")


def _home(name: str) -> str:
    tenant, task = split_name(name)
    return f"{TASKS}/{tenant}/{task}"


def _packages(record: Record) -> set[str]:
    return {each.package for each in record.versions}


def _package(name: str, digest: str) -> str:
    return f"{_home(name)}/packages/{digest}"


def _file_of(sequence: int) -> str:
    return f"{sequence:08d}.json"
