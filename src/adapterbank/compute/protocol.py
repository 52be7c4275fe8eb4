"""What every place that runs trials and jobs agrees on: units of work, their events, cancelling.

    Work("trial-3", "adapterbank.training.trial", {"lr": 3e-4})
      → started · event · event · … · done | failed | cancelled

A unit is a module with a function `work(arguments, emit) -> dict` and its plain JSON arguments, so
it can be run by a process on this machine or by one on another. A module that needs what is slow to
import may have a function `preload()` that imports it: processes on one machine then share that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from adapterbank.errors import ConfigError

EventKind = Literal["started", "event", "done", "failed", "cancelled"]
LAST_KINDS: tuple[EventKind, ...] = ("done", "failed", "cancelled")
# Only our own modules run: no record on a disk and no client can name another.
PACKAGE = "adapterbank."


@dataclass(frozen=True)
class Work:
    """A unit of work: what to call, with what, under which name."""

    id: str
    module: str
    """A module of this package that has `work(arguments, emit) -> dict`."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Plain JSON."""
    folder: str = ""
    """The folder of the unit's files: arguments that begin with it are paths in it."""
    inputs: Sequence[str] = ()
    """What the unit reads there, if it has to be carried elsewhere; what it writes comes back."""

    def __post_init__(self) -> None:
        if not self.module.startswith(PACKAGE):
            raise ConfigError(
                f"Work {self.id!r} names the module {self.module!r}.",
                f"Modules of work start with {PACKAGE!r}.",
            )
        try:
            json.dumps(self.arguments)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"The arguments of work {self.id!r} are not plain JSON: {error}.",
                "Use strings, numbers, booleans, None, lists and dicts with string keys.",
            ) from None


@dataclass(frozen=True)
class Event:
    """Something that happened to a unit of work.

    | kind      | payload                                                   |
    |-----------|-----------------------------------------------------------|
    | started   | `pid`                                                     |
    | event     | what the work emitted                                     |
    | done      | what the work returned                                    |
    | failed    | `message`, `hint`, `kind`, `stderr` (its last lines)      |
    | cancelled | nothing                                                   |
    """

    id: str
    kind: EventKind
    payload: dict[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> bool:
        """Whether nothing follows from this unit. Each unit has one such event."""
        return self.kind in LAST_KINDS


class Compute(Protocol):
    """A place that runs work."""

    def run(self, works: Iterable[Work]) -> Iterator[Event]:
        """Start the works in their order; their events as they come. Closing it ends them all."""
        ...

    def cancel(self, id: str) -> bool:
        """End this unit, running or waiting; False if there is none. From any thread."""
        ...
