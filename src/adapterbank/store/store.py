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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from adapterbank.errors import BankError, BankNotFound, PackageError, TaskNotFound, WrongBase
from adapterbank.store.cache import PackageCache
from adapterbank.store.disk import make_folders
from adapterbank.store.entry import Entry, TaskInfo
from adapterbank.store.files import Files, LocalFiles, open_files
from adapterbank.store.known_files import KnownFiles
from adapterbank.store.log import TaskLog, package_of
from adapterbank.store.manifest import BaseRecord, Manifest
from adapterbank.store.names import check_name, split_name, split_reference
from adapterbank.store.package import MANIFEST, Package, Packed, pack, unpack, unpack_manifest
from adapterbank.store.record import MAX_BYTES, Record, now_text
from adapterbank.store.schema import decode
from adapterbank.store.sealed import seal, unseal
from adapterbank.store.sweep import HOUR, Sweep
from adapterbank.store.weights import WEIGHTS

if TYPE_CHECKING:
    from torch import Tensor

Opener = Callable[[str], BufferedIOBase]
T = TypeVar("T")
FORMAT = 1
BANK = "bank.json"


@dataclass(frozen=True)
class BankRecord:
    """What a bank says of itself."""

    base: BaseRecord
    created: str
    format: int = FORMAT


class Store:
    """Versions of tasks at a folder or URL. Any number of processes may use one at a time."""

    def __init__(self, files: Files, bank: BankRecord) -> None:
        self.files, self.base = files, bank.base
        self.log = TaskLog(files)
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
        other.log = TaskLog(self.files, self.log.patience)
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
        for name in self.log.names(tenant):
            try:
                there = self.record(name).current is not None
            except PackageError:  # damaged, and told when it is used
                there = True
            if there:
                yield name

    def kept(self) -> set[str]:
        """Every version that is kept, as task@3; of removed tasks too, and of damaged ones none."""
        found: set[str] = set()
        for name in self.log.names():
            with suppress(PackageError):
                found |= {str(Entry(name, each)) for each in self.record(name).versions}
        return found

    def record(self, name: str) -> Record:
        """The state of a task: the empty one where nothing was ever published."""
        return self.log.state(name)

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
        before = self.log.before(name, removed)
        current = before.current if before is not None else None
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

    def is_far(self, reference: str) -> bool:
        """Whether a version's package is yet to be brought to this machine."""
        return self._cache is not None and not self._cache.has(self.find(reference).version.package)

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
        folder = package_of(entry.task, digest)

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
        place = package_of(name, packed.digest)
        self.files.add_folder(place, packed.files)
        record = self.log.append(name, lambda state: state.publish(packed.digest, packed.bytes))
        if MANIFEST not in self.files.names(place):  # purged before there was a record of it
            self.files.add_folder(place, packed.files)
        return Entry(name, record.versions[-1])

    def rollback(self, name: str, version: int) -> Entry:
        """Make another version the current one; a removed task comes back with it."""
        name = check_name(name)

        def change(state: Record) -> Record:
            if not state.versions:
                raise self._unknown(name, state)
            if state.find(version) is None:
                has = ", ".join(str(each.version) for each in state.versions)
                raise TaskNotFound(f"Task {name!r} has no version {version}.", f"It has: {has}.")
            return state.rollback(version)

        record = self.log.append(name, change)
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

        record = self.log.append(name, change, despite_damage=purge)
        if purge:
            self._sweep().purge(name, record)
            self.forget_runs(name)

    def collect(self, *, keep: int | None = None, older_than: float = HOUR) -> int:
        """Delete what no record names any more, and but for `keep` versions a task the older ones.

        Only what is older than `older_than` seconds goes: a younger package may be about to be
        published. A task whose records are damaged keeps what it has, and a warning is logged.
        Returns how many packages and unfinished pieces were deleted.
        """
        return self._sweep().collect(keep, older_than)

    def _sweep(self) -> Sweep:
        return Sweep(self.files, self.log, self._cache)
