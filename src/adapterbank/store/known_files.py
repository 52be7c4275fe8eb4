"""Files whose digests were compared before: one that is the same still is not hashed again.

A file is known by its place on the disk, its size and the times of its last changes, which the
system keeps and no program can set back. A file that changed a moment ago is hashed each time: a
second change may bear the same time.
"""

from __future__ import annotations

import io
import os
import time
from collections import OrderedDict

Identity = tuple[int, int, int, int, int]

SETTLED = 2.0  # seconds; clocks of file systems tick less often than processors'
MOST = 100_000  # files that are remembered


class KnownFiles:
    """Digests by file."""

    def __init__(self) -> None:
        self._digests: OrderedDict[Identity, str] = OrderedDict()

    def hold(self, identity: Identity | None, digest: str) -> bool:
        """Whether the file was found to have this digest."""
        return identity is not None and self._digests.get(identity) == digest

    def add(self, identity: Identity | None, digest: str) -> None:
        """Remember a file, as it was before it was read."""
        if identity is None:
            return
        *_, modified, changed = identity
        if time.time() - 1e-9 * max(modified, changed) < SETTLED:
            return
        self._digests[identity] = digest
        while len(self._digests) > MOST:
            self._digests.popitem(last=False)


def identity_of(file: io.BufferedIOBase) -> Identity | None:
    """What an open file is known by; None if it is none of the system's."""
    try:
        state = os.fstat(file.fileno())
    except OSError:  # bytes in memory, or a file that another machine sends
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
