"""What a unit of work leaves behind: a file, whole or not at all, made by one process at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record as JSON in place of any that is there."""
    write_whole(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a text in place of any that is there."""
    with replacing(path) as partial:
        partial.write_text(text, "utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write, with the path's ending; it takes its place once it is whole."""
    partial = path.with_name(f".{os.getpid()}.partial.{path.name}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Within this block no other process is within one of the same path: it waits, and a killed one
    is out of it. The file is gone afterwards: who waited looks again whether the work is done."""
    if os.name == "nt":  # Windows has no such locks: two processes may do the same work
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _locked(path: Path) -> IO[str]:
    """The file of that path, locked. One that was deleted while its lock was waited for keeps
    nobody out who opens the path anew."""
    import fcntl

    while True:
        file = path.open("w")
        with suppress(OSError):  # a file system without locks: as there
            fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
