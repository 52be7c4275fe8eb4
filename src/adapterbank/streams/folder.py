"""A folder that tasks come into as files: which are there, which are whole, which are bad.

spam.csv  spam.dev.csv  spam.test.csv     the task `spam` and its splits
rejected/odd.csv                          what could not be learnt …
rejected/odd.csv.reason.txt               … and why
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from adapterbank.errors import ConfigError, DataError
from adapterbank.store.names import check_name
from adapterbank.streams.arrivals import SPLITS, Arrival

FORMS = (".csv", ".tsv", ".jsonl", ".parquet", ".json")
SETTLED = 2.0  # seconds that a file must have been left alone
REJECTED = "rejected"

Stamp = tuple[tuple[str, int, int], ...]


class Folder:
    """Tasks in a folder, each a file with its splits beside it."""

    def __init__(self, place: Path, given: Mapping[str, Any]) -> None:
        self.place, self.given = place, dict(given)
        self._seen: dict[str, tuple[Stamp, float]] = {}

    def arrivals(self) -> list[Arrival]:
        """What is there now, by time of change, then by name."""
        files, splits = self._files()
        first: dict[str, Path] = {}
        for path in files:
            first.setdefault(path.stem.lower(), path)
        return [
            self._arrival(path, splits.get(path.stem.lower(), []), first[path.stem.lower()])
            for path in files
        ]

    def waiting(self) -> list[str]:
        """Splits whose task is not there."""
        files, splits = self._files()
        names = {path.stem.lower() for path in files}
        return [path.name for name, paths in splits.items() if name not in names for path in paths]

    def _files(self) -> tuple[list[Path], dict[str, list[Path]]]:
        """Files of tasks in their order, and files of splits by the task's name."""
        try:
            there = list(self.place.iterdir())
        except OSError as error:
            raise DataError(f"{self.place} cannot be read: {error.strerror}.") from error
        stamped = [
            (stamp[0][2], path.name, path)
            for path in there
            if path.suffix.lower() in FORMS and path.name[0] != "." and path.is_file()
            if (stamp := stamp_of([path]))
        ]
        files: list[Path] = []
        splits: dict[str, list[Path]] = {}
        for _, _, path in sorted(stamped):
            name, _, split = path.stem.lower().rpartition(".")
            if name and split in SPLITS[1:]:
                splits.setdefault(name, []).append(path)
            else:
                files.append(path)
        return files, splits

    def _arrival(self, path: Path, splits: list[Path], first: Path) -> Arrival:
        name, problem = path.stem.lower(), ""
        sources = {"train": str(path)}
        if first != path:
            problem = f"There is another file of the task {name!r}: {first.name}."
            splits = []
        for split in splits:
            kind = split.stem.lower().rpartition(".")[2]
            if kind in sources:
                problem = f"There are two files of its {kind} rows: {split.name} is the second."
            sources[kind] = str(split)
        try:
            check_name(name)
        except ConfigError as error:
            problem = str(error)
        return Arrival(path.name, name, sources, {}, self.given, problem=problem)

    def settled(self, arrival: Arrival) -> bool:
        """Whether its files are whole: unchanged for a while, and open in nobody's hands."""
        stamp, now = stamp_of(arrival.files.values()), time.monotonic()
        if not stamp or self._seen.get(arrival.key, ((), 0.0))[0] != stamp:
            self._seen[arrival.key] = (stamp, now)
            return False
        if now < self._seen[arrival.key][1] + SETTLED:
            return False
        return not any(being_written(path) for path in arrival.files.values())

    def put_aside(self, arrival: Arrival, reason: str) -> str:
        """Move its files out of the way with the reason beside them, replacing nothing; where they
        are now."""
        home = self.place / REJECTED
        files = [path for path in arrival.files.values() if path.exists()]
        number = 1
        while any(os.path.lexists(home / name) for name in _names(files, arrival.key, number)):
            number += 1
        try:
            home.mkdir(exist_ok=True)
            *targets, note = _names(files, arrival.key, number)
            (home / note).write_text(reason + "\n", "utf-8")
            for path, target in zip(files, targets, strict=True):
                path.rename(home / target)
        except OSError as error:
            return f"{self.place} (it could not be moved: {error.strerror})"
        return str(home)


def stamp_of(files: Iterable[Path]) -> Stamp:
    """Names, sizes and times of change; empty if a file is gone."""
    with suppress(FileNotFoundError):
        found = [(path, path.stat()) for path in files]
        return tuple((path.name, stat.st_size, stat.st_mtime_ns) for path, stat in found)
    return ()


def being_written(path: Path) -> bool:
    """Whether a process has the file open for writing, as far as the system can tell."""
    try:
        import fcntl

        with path.open("rb") as file:
            # The kernel grants a lease only on a file without writers. One who comes while it is
            # held raises a signal: SIGURG, which does nothing, in place of SIGIO, which kills.
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except (ImportError, AttributeError):  # not Linux
        return False
    except OSError as error:  # others than EAGAIN: another's file, or a system without leases
        return error.errno == errno.EAGAIN
    return False


def _names(files: Iterable[Path], key: str, number: int) -> list[str]:
    """What rejected files are called, and last the note with the reason; with a number from 2."""

    def numbered(path: Path) -> str:
        return path.name if number == 1 else f"{path.stem}-{number}{path.suffix}"

    return [*map(numbered, files), f"{numbered(Path(key))}.reason.txt"]
