"""Packages of a bank elsewhere, kept on this machine by digest: each is fetched once.

A package never changes, so what is here is right as long as its digests are; readers check them
every time, and a copy that fails is fetched again.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path

from adapterbank.store.disk import appearing, open_plain


class PackageCache:
    """A folder of packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, digest: str, name: str, fetch: Callable[[], BufferedIOBase]) -> BufferedIOBase:
        """A file of a package, from here or from where `fetch` finds it. A disk that is full keeps
        nobody from reading."""
        path = self.folder / digest / name
        try:
            return open_plain(path)
        except OSError:
            pass
        with fetch() as file:
            content = file.read()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with appearing(path) as kept:
                kept.write(content)
        except OSError:
            pass
        return io.BytesIO(content)

    def has(self, digest: str) -> bool:
        """Whether something of the package is here."""
        return (self.folder / digest).is_dir()

    def forget(self, digest: str) -> None:
        """Delete a package here."""
        shutil.rmtree(self.folder / digest, ignore_errors=True)

    def forget_others(self, used: set[str]) -> int:
        """Delete all but these; how many there were."""
        try:
            others = [path.name for path in self.folder.iterdir() if path.name not in used]
        except FileNotFoundError:
            return 0
        for digest in others:
            self.forget(digest)
        return len(others)
