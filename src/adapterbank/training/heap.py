"""Memory between batches of different sizes.

The C library keeps what was freed, in pieces that a larger batch has no use for, and takes new
memory beside them. Given back to the system before a batch that is larger than any so far, they
leave the process 0.14 GB smaller at its peak, of 1.8 (32 texts of 128 tokens after shorter ones).
It takes a few hundredths of a second, a few times in a run.
"""

from __future__ import annotations

import ctypes
import sys


class Heap:
    """What the largest batch so far was."""

    def __init__(self) -> None:
        self._most = 0

    def expect(self, tokens: int) -> None:
        """A batch of so many tokens is next."""
        if tokens > self._most:
            self._most = tokens
            give_back()


def give_back() -> None:
    """Free memory goes back to the system, where the C library has a word for it (glibc's)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
