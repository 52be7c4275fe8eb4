"""What happens in a stream, as it happens."""

from __future__ import annotations

from dataclasses import dataclass

from adapterbank.events import Event as LearningEvent
from adapterbank.streams.report import Problem
from adapterbank.streams.state import Document


@dataclass(frozen=True)
class Arrived:
    """A task is there."""

    name: str
    number: int
    """Among all that the stream has to look at, from 1."""
    of: int | None
    """How many there are; None where more may come."""
    known: bool
    """Whether it is in the stream's record already, so that nothing is left to do."""


@dataclass(frozen=True)
class Begun:
    """A training begins; its own events follow."""

    metric: str
    title: str


@dataclass(frozen=True)
class Kept:
    """A task is in the bank, and in the stream's record."""

    record: Document


@dataclass(frozen=True)
class SetAside:
    """An arrival could not be learnt; the stream goes on."""

    name: str
    reason: str
    place: str
    """Where its files are now, if they were moved."""


@dataclass(frozen=True)
class Checking:
    """All tasks so far are about to be asked again."""

    tasks: int


@dataclass(frozen=True)
class Checked:
    """All tasks so far were asked again."""

    tasks: int
    problems: list[Problem]
    """What differs; nothing, if all is well."""


@dataclass(frozen=True)
class Contrasted:
    """The shared encoder has learnt a task."""

    record: Document


Event = Arrived | Begun | Kept | SetAside | Checking | Checked | Contrasted | LearningEvent
