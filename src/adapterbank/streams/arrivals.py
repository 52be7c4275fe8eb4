"""What comes in: tasks to learn, each with its data and its settings, from a list in TOML.

[defaults]
epochs = 5

[[task]]
name = "support"                 # a bundled sample, or a task of the catalogue

[[task]]
name = "spam"
train = "sms.csv"                # beside this file
text_column = "body"
size = 16
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from adapterbank.bank import OF_DATA
from adapterbank.errors import ConfigError, DataError
from adapterbank.order import OF_ADAPTER, OF_METHOD, OF_RECIPE, OWN, SHORT
from adapterbank.store.names import check_name
from adapterbank.tasks.known import check_rows, is_known, known_task
from adapterbank.tasks.limit import limited
from adapterbank.tasks.load import load_task
from adapterbank.tasks.sources import local_file
from adapterbank.tasks.task import Task

SPLITS = ("train", "dev", "test")
READING = tuple(name for name in OF_DATA if name not in (*SPLITS, "max_rows"))
LEARNING = (
    *OF_METHOD, *OF_ADAPTER, *OF_RECIPE, *SHORT, *(name for name in OWN if name != "earlier"),
    "from_version", "even_if_worse",
)  # fmt: skip
HUB = "hub:"


@dataclass(frozen=True)
class Arrival:
    """A task that has come in and is not read yet."""

    key: str
    """What it is known by where it came from: its name in a list, its file's in a folder."""
    name: str
    sources: dict[str, str] = field(default_factory=dict)
    """Its splits: paths or hub datasets. None: a sample or a task of the catalogue."""
    reading: dict[str, Any] = field(default_factory=dict)
    """How to read them."""
    learning: dict[str, Any] = field(default_factory=dict)
    """How to learn it."""
    max_rows: int = 0
    """At most so many rows of each split; 0: all."""
    problem: str = ""
    """Why it cannot be a task, where that shows before it is read."""

    @property
    def files(self) -> dict[str, Path]:
        """Its splits, where all of them are files."""
        hub = any(source.startswith(HUB) for source in self.sources.values())
        return {} if hub else {split: Path(source) for split, source in self.sources.items()}

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that was said of it, as plain JSON."""
        limit = {"max_rows": self.max_rows} if self.max_rows else {}
        every = self.reading | self.learning | limit
        said: dict[str, Any] = json.loads(json.dumps(every, default=str))
        return said

    def read(self) -> Task:
        """The task."""
        if self.problem:
            raise DataError(self.problem)
        seed = self.learning.get("seed") or 0
        if not self.sources:
            task = known_task(self.name, seed=seed).named(self.name)
        else:
            dev, test = self.sources.get("dev"), self.sources.get("test")
            train = self.sources["train"]
            task = load_task(self.name, train, dev=dev, test=test, seed=seed, **self.reading)
        return limited(task, self.max_rows, self.max_rows, self.max_rows, seed)

    def digest(self) -> str:
        """Of its files' bytes, or of its rows where it has no files; empty if they can't be had."""
        try:
            return _digest_of(self.files) if self.files else self.read().digest()
        except (OSError, DataError):
            return ""


def _digest_of(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for split, path in files.items():
        with path.open("rb") as file:
            digest.update(split.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def read_list(path: Path, given: Mapping[str, Any]) -> list[Arrival]:
    """The tasks of a TOML file in their order. Settings that are `given` go before the file's."""
    document = _toml(path)
    _check_keys(document, ("defaults", "task"), path.name)
    defaults, tables = document.get("defaults", {}), document.get("task", [])
    if not isinstance(defaults, dict) or not isinstance(tables, list) or not tables:
        raise ConfigError(f"{path.name} lists no tasks.", "Give each a table: [[task]].")
    _check_keys(defaults, (*READING, *LEARNING, "max_rows"), f"{path.name}, [defaults]")
    arrivals = [
        read_arrival(table, f"{path.name}, task {number}", path.parent, defaults, given)
        for number, table in enumerate(tables, 1)
    ]
    names = [arrival.name for arrival in arrivals]
    for number, name in enumerate(names, 1):
        if name in names[: number - 1]:
            raise ConfigError(
                f"{path.name}, task {number}: there is a task {name!r} already.",
                "Give each a name of its own.",
            )
    return arrivals


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(f"{path.name} is not TOML: {error}.") from error


def read_arrival(
    table: Any,
    where: str,
    home: Path,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Arrival:
    """One task of a list; its files are beside the list. `where` says in errors which it is."""
    if not isinstance(table, dict) or "name" not in table:
        raise ConfigError(f"{where}: it has no name.", 'Give it one: name = "spam".')
    try:
        name = check_name(table["name"])
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", error.hint) from None
    where = f"{where} ({name})"
    _check_keys(table, ("name", *SPLITS, *READING, *LEARNING, "max_rows"), where)
    sources = {
        split: _source(table[split], split, home, where) for split in SPLITS if split in table
    }
    own = [key for key in (*SPLITS[1:], *READING) if key in table]
    if "train" not in table:
        if own:
            raise ConfigError(
                f"{where}: it has {', '.join(own)} and no train.", 'Give its rows: train = "F.csv".'
            )
        _check_known(name, where)
    said = {
        SHORT.get(key, key): value
        for each in (defaults, table, given)
        for key, value in each.items()
    }
    return Arrival(
        name,
        name,
        sources,
        {key: said[key] for key in READING if key in said and sources},
        {key: said[key] for key in LEARNING if key in said},
        _count(said.get("max_rows", 0), where),
    )


def _count(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{where}: max_rows is {value!r}.", "Give a number of rows.")
    return value


def _source(value: Any, split: str, home: Path, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {split} is {value!r}.", "Give the path of a file.")
    if value.startswith(HUB):
        return value
    try:
        return str(local_file(home / Path(value).expanduser()))
    except DataError as error:
        raise DataError(f"{where}: {error.message}", error.hint) from None


def _check_known(name: str, where: str) -> None:
    if not is_known(name):
        raise DataError(
            f"{where}: it has no train, and is neither a bundled sample nor in the catalogue.",
            'Give its rows: train = "F.csv".',
        )
    try:
        check_rows(name)
    except DataError as error:
        raise DataError(f"{where}: {error.message}", error.hint) from None


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            raise ConfigError(
                f"{where}: there is no setting {key!r}.",
                f"Did you mean {close[0]}?" if close else f"There are: {', '.join(sorted(known))}.",
            )
