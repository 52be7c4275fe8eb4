"""How much of a source may be read: past it, reading stops before memory does."""

from __future__ import annotations

from dataclasses import dataclass

from adapterbank.errors import TooLarge
from adapterbank.tasks.cells import Cell


@dataclass
class Room:
    """So many rows and characters, of all sources of a task together."""

    rows: int
    characters: int
    _rows: int = 0
    _characters: int = 0

    def take(self, text: str, pair: str | None, cell: Cell) -> None:
        """One row more."""
        self._rows += 1
        self._characters += len(text) + len(pair or "") + sum(map(len, cell or ()))
        if self._rows > self.rows:
            raise TooLarge(
                f"The data has more than {self.rows:,} rows; {self.rows:,} at most are taken.",
                "Send fewer.",
            )
        if self._characters > self.characters:
            raise TooLarge(
                f"The data has more than {self.characters:,} characters; no more are taken.",
                "Send fewer rows, or shorter texts.",
            )
