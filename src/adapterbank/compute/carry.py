"""A unit of work's files, carried between machines that share no folders.

    THROUGH/<unit>/in/<path>     what the unit reads, put there before it starts
    THROUGH/<unit>/out/<path>    what it wrote: states of runs on the way, results at the end

A unit that is started again elsewhere finds both, so it goes on from the last state that was
carried. Any URL will do that fsspec can reach from all machines.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from adapterbank.compute.protocol import Work
from adapterbank.errors import ComputeError

EVERY = 10.0  # seconds between two looks for files to carry
HERE = "{folder}"  # stands for the unit's folder in what travels


class Carrier:
    """The files of units, at a URL."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self.url = url
        self._system, self._root = url_to_fs(url)

    def send(self, work: Work) -> Work:
        """Put what the unit reads where others find it; the unit as it travels."""
        folder = Path(work.folder)
        for name in work.inputs:
            self._put(folder / name, f"{work.id}/in/{name}")
        return _renamed(work, work.folder, HERE)

    @contextmanager
    def received(self, work: Work) -> Iterator[Work]:
        """The unit with a folder of its own on this machine; what it writes goes back."""
        place = Path(tempfile.mkdtemp(prefix="adapterbank-"))
        try:
            self._fetch(f"{work.id}/in", place)
            self._fetch(f"{work.id}/out", place)
            seen = _stamps(place)
            done = threading.Event()
            lock = threading.Lock()

            def send_back() -> None:
                with lock:
                    for name, stamp in _stamps(place).items():
                        if seen.get(name) != stamp:
                            self._put(place / name, f"{work.id}/out/{name}")
                            seen[name] = stamp

            def now_and_then() -> None:
                while not done.wait(EVERY):
                    send_back()

            thread = threading.Thread(target=now_and_then, daemon=True)
            thread.start()
            try:
                yield _renamed(work, HERE, str(place))
            finally:
                done.set()
                thread.join()
            send_back()
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def collect(self, work: Work) -> None:
        """Take what the unit wrote into its folder here, and forget it there."""
        self._fetch(f"{work.id}/out", Path(work.folder))
        self.forget(work)

    def forget(self, work: Work) -> None:
        """Remove the unit's files from the URL."""
        place = f"{self._root}/{work.id}"
        if self._system.exists(place):
            self._system.rm(place, recursive=True)

    def _put(self, path: Path, name: str) -> None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # a state that was removed at this moment
            return
        target = f"{self._root}/{name}"
        self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
        self._system.pipe_file(target, content)

    def _fetch(self, name: str, folder: Path) -> None:
        """Every file there, each whole."""
        root = f"{self._root}/{name}"
        self._system.invalidate_cache()
        try:
            found = self._system.find(root)
        except FileNotFoundError:
            return
        for path in found:
            inside = PurePosixPath(path.partition(f"/{name}/")[2])
            if inside.is_absolute() or ".." in inside.parts:
                raise ComputeError(f"{self.url} holds {path!r}, which no unit wrote.")
            target = folder / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.partial")
            partial.write_bytes(self._system.cat_file(path))
            partial.replace(target)


def _renamed(work: Work, before: str, after: str) -> Work:
    """The unit with its folder called otherwise, in its arguments too."""

    def rename(value: Any) -> Any:
        if isinstance(value, str) and (value == before or value.startswith(f"{before}/")):
            return after + value[len(before) :]
        if isinstance(value, dict):
            return {key: rename(each) for key, each in value.items()}
        return [rename(each) for each in value] if isinstance(value, list) else value

    arguments = rename(json.loads(json.dumps(work.arguments)))
    return replace(work, arguments=arguments, folder=after)


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file that has its name already."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith(".") and path.suffix != ".partial":
            stat = path.stat()
            found[path.relative_to(folder).as_posix()] = (stat.st_size, stat.st_mtime_ns)
    return found
