"""Packages that no record names are deleted: when a task is purged, and when a bank is collected.

Whoever publishes adds the package, then its record, then looks whether the package is still there.
So a package in a folder is first put out of sight, and comes back if a record names it then: later
publishers see that it is gone, and add it again. An object store has no such move: there the last
look at the records comes right before the deletion.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from adapterbank.errors import BankError, PackageError
from adapterbank.store.cache import PackageCache
from adapterbank.store.files import Files, remove_old
from adapterbank.store.log import TaskLog, package_of, packages_of
from adapterbank.store.record import Record

HOUR = 3600.0
log = logging.getLogger("adapterbank.store")


@dataclass(frozen=True)
class Sweep:
    """Deletes what a bank does not need."""

    files: Files
    log: TaskLog
    cache: PackageCache | None
    """Copies on this machine, of a bank elsewhere."""

    def purge(self, name: str, record: Record) -> None:
        """Delete every package that a task had, once it is purged with `record`."""
        for digest in self._had(name) - self.log.newest(name).packages:
            if self.cache is not None:
                self.cache.forget(digest)
            self.files.remove(package_of(name, digest), partial(self._is_named, name, digest))
        self._delete_unnamed(name, HOUR)
        self.log.forget(name, record, HOUR)

    def collect(self, keep: int | None, older_than: float) -> int:
        """Delete what no record names and, but for `keep` versions a task, the older ones. A task
        that cannot be read keeps all that it has. Returns how much was deleted."""
        count = self.files.sweep(older_than)
        named: set[str] = set()
        for name in self.log.names():
            try:
                record = self._shorten(name, keep)
                self.log.forget(name, record, older_than)
                named |= record.packages
                count += self._delete_unnamed(name, older_than)
            except PackageError as error:
                with suppress(BankError):  # copies of what cannot be listed can be fetched again
                    named |= self._there(name)
                log.warning("Nothing of task %r was deleted. %s", name, error)
        if self.cache is not None:
            count += self.cache.forget_others(named)
        return count

    def _shorten(self, name: str, keep: int | None) -> Record:
        """The state of a task, with no more than `keep` versions and the current one."""
        record = self.log.state(name)
        if keep is None or record.collect(keep).versions == record.versions:
            return record
        return self.log.append(name, lambda state: state.collect(keep))

    def _had(self, name: str) -> set[str]:
        """The packages that records of a task name or named: none that is about to be published.
        If one of the records cannot be read, all that there are."""
        try:
            return self.log.packages(name)
        except PackageError:
            return self._there(name)

    def _there(self, name: str) -> set[str]:
        return set(self.files.names(packages_of(name)))

    def _delete_unnamed(self, name: str, older_than: float) -> int:
        """Delete the packages of a task that no record names; how many there were."""
        unnamed = self._there(name) - self.log.newest(name).packages
        return sum(
            remove_old(
                self.files,
                package_of(name, digest),
                older_than,
                partial(self._is_named, name, digest),
            )
            for digest in unnamed
        )

    def _is_named(self, name: str, digest: str) -> bool:
        return digest in self.log.newest(name).packages
