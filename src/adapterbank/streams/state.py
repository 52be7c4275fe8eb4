"""How far a stream is, on disk: every file is there whole or not at all.

    arrivals/0001.json      what became of an arrival: the version it is, or why it was set aside
    held-out/0001.jsonl     the rows that its answers are checked on
    announced.json          the record of a version that is about to be published
    checks/0001.json        what every task answered after an arrival
    contrast/0001.json      what the shared encoder answered after an arrival
    running                 locked by the process that runs the stream
    shared.safetensors      the shared encoder and every head it has had

Publishing comes first and the record of it second, and a kill may come between the two. So the
record is announced before, with the digest of the package: if the bank has a version with that
digest, it was published, and the announcement becomes the record; if not, it never was.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adapterbank.errors import BankError
from adapterbank.store.disk import make_folders, sync_folder, write_file
from adapterbank.store.store import Store

Document = dict[str, Any]


class State:
    """The folder of one stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            for name in ("arrivals", "held-out", "checks", "contrast"):
                make_folders(folder / name)
        except OSError as error:
            raise BankError(f"{folder} cannot be made: {error.strerror}.") from error

    @classmethod
    def of(cls, store: Store, source: Path) -> State:
        """The state of the stream from this list or folder into this bank."""
        digest = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:16]
        return cls(store.runs(f"stream-{digest}"))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within this block no other process runs this stream; a killed one is out of it."""
        try:
            import fcntl
        except ImportError:  # Windows: it is up to the user
            yield
            return
        with (self.folder / "running").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BankError(
                    "This stream is running already.", "Let it end, or stop it with Ctrl-C."
                ) from None
            yield

    # --- arrivals

    def arrivals(self) -> list[Document]:
        """Every arrival, in order."""
        return self._all("arrivals")

    def learnt(self) -> list[Document]:
        """The arrivals that are in the bank."""
        return [record for record in self.arrivals() if "version" in record]

    def last(self, key: str) -> Document | None:
        """What became of the last arrival of this key."""
        return next((each for each in reversed(self.arrivals()) if each["key"] == key), None)

    def next_number(self) -> int:
        """Of the arrival to come."""
        return len(self.arrivals()) + 1

    def held_out(self, number: int) -> Path:
        """The file with the rows that an arrival is checked on."""
        return self.folder / "held-out" / f"{number:04}.jsonl"

    def add_arrival(self, record: Document) -> None:
        """Keep what became of an arrival."""
        write_whole(self._file("arrivals", record["number"]), as_json(record))
        self._announced.unlink(missing_ok=True)

    @property
    def _announced(self) -> Path:
        return self.folder / "announced.json"

    def announce(self, record: Document) -> None:
        """Say what is about to be published."""
        write_whole(self._announced, as_json(record))

    def settle(self, store: Store) -> None:
        """Find out whether what was announced was published."""
        if not self._announced.is_file():
            return
        record = read_json(self._announced)
        for version in store.record(record["name"]).versions:
            if version.package == record["package"] and self.next_number() == record["number"]:
                self.add_arrival(record | {"version": version.version})
        self._announced.unlink(missing_ok=True)

    # --- checks and the contrast

    def checks(self) -> list[Document]:
        """Every check, in order."""
        return self._all("checks")

    def add_check(self, check: Document) -> None:
        """Keep a check."""
        write_whole(self._file("checks", len(self.checks()) + 1), as_json(check))

    def contrasts(self) -> list[Document]:
        """What the shared encoder came to, by arrival."""
        return self._all("contrast")

    def add_contrast(self, record: Document) -> None:
        """Keep what the shared encoder came to after an arrival."""
        write_whole(self._file("contrast", record["after"]), as_json(record))

    def _file(self, kind: str, number: int) -> Path:
        return self.folder / kind / f"{number:04}.json"

    def _all(self, kind: str) -> list[Document]:
        files = (self.folder / kind).glob("[0-9]*.json")
        return [read_json(path) for path in sorted(files, key=lambda path: int(path.stem))]


def as_json(document: Document) -> bytes:
    """A document as it is written."""
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Document:
    """A document that was written."""
    try:
        found: Document = json.loads(path.read_bytes())
    except ValueError as error:
        raise BankError(f"{path} is damaged: {error}.", "Restore it from a copy.") from error
    return found


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, or replace it, in one step."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        write_file(partial, content)
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise BankError(
            f"{path} cannot be written: {error.strerror}.",
            "What was there has not changed. Free some space or see to its permissions.",
        ) from error
    finally:
        partial.unlink(missing_ok=True)
