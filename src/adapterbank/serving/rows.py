"""What runs together: rows of any tasks in any order, in one pass over the shared encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adapterbank.store.manifest import Manifest, Pooling
from adapterbank.store.package import Package

Array = NDArray[np.float32]


class Seat(Protocol):
    """A task's place in a pass: its tensors are where the pass can reach them."""

    @property
    def lowest(self) -> int:
        """The first layer that it changes."""
        ...


@dataclass(frozen=True)
class Row:
    """The tokens of one text, and whose they are."""

    tokens: NDArray[Any]
    types: NDArray[Any]
    seat: Seat | None
    """None for the bare encoder."""
    reads: Pooling | None
    """What the head reads: one vector of the text, or None for the state of every token."""

    @property
    def key(self) -> bytes:
        """The same for the same text."""
        return self.tokens.tobytes() + b"|" + self.types.tobytes()


class Pass(Protocol):
    """One encoder, and the tasks that are seated at it. One thread runs it at a time; seating and
    leaving may happen meanwhile."""

    def takes(self, manifest: Manifest) -> bool:
        """Whether it can serve such a task."""
        ...

    def bytes_of(self, manifest: Manifest) -> int:
        """The memory that it would take."""
        ...

    def seat(self, package: Package) -> Seat:
        """Take a task in."""
        ...

    def leave(self, seat: Seat) -> None:
        """Let it go. None of its rows is running."""
        ...

    def run(self, rows: Sequence[Row]) -> list[Array]:
        """What each row's head reads: [d], or [tokens, d]."""
        ...
