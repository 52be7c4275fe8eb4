"""Where a bank's files are: a folder of this machine, or anything that fsspec can reach.

Two promises are all that the store builds on:

- `create` makes a file with its whole content, or finds that there is one already;
- `add_folder` makes a folder of files that is whole once its last file can be seen.

A local folder keeps both through a crash or a power cut: content is on the disk before it gets its
name. Elsewhere they are as strong as the service: exclusive creation is asked for, and the last
file of a folder is written last. Where a service cannot create exclusively, two publishers of one
task at one moment are not told apart, and one publisher at a time is up to the user.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from adapterbank.errors import BankError
from adapterbank.store.disk import make_folders, open_plain, sync_folder, write_file

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

UNFINISHED = ".unfinished"  # what was being written; nobody reads it


class Files(Protocol):
    """A tree of files. Paths are relative, with slashes; names in them were checked before."""

    url: str

    def read(self, path: str, limit: int) -> bytes:
        """The content of a file, `limit` bytes at most. FileNotFoundError if there is none."""
        ...

    def open(self, path: str) -> BufferedIOBase:
        """A file to be read. FileNotFoundError if there is none."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Make a file; False if there is one of that name already."""
        ...

    def add_folder(self, path: str, files: Mapping[str, bytes]) -> None:
        """Make a folder of files, the last one last. One that is there is made whole."""
        ...

    def names(self, path: str) -> list[str]:
        """What is in a folder, sorted; nothing if it isn't there. Hidden names are left out."""
        ...

    def remove(self, path: str, unless: Callable[[], bool] = lambda: False) -> bool:
        """Remove a file, or a folder with everything in it, if it is there; False if it stays.

        `unless` says whether it is to stay. It is asked right before and, where a folder can be
        put back, once more when nobody finds it any longer.
        """
        ...

    def age(self, path: str) -> float:
        """Seconds since a file or folder was last written."""
        ...

    def sweep(self, older_than: float) -> int:
        """Remove what was left unfinished so many seconds ago; how many there were."""
        ...


def open_files(url: str | Path) -> Files:
    """The files at a path or a URL."""
    text = str(url)
    if "://" not in text:
        return LocalFiles(Path(text).expanduser())
    if text.startswith(("file://", "local://")):
        return LocalFiles(Path(text.partition("://")[2]))
    from fsspec.core import url_to_fs

    try:
        system, root = url_to_fs(text)
    except Exception as error:  # some services are spoken to at once, and have errors of their own
        raise BankError(
            f"{text!r} cannot be a bank: {error}.", "Give a folder, or a URL that fsspec knows."
        ) from error
    return RemoteFiles(text, system, root.rstrip("/"))


def remove_old(
    files: Files, path: str, older_than: float, unless: Callable[[], bool] = lambda: False
) -> bool:
    """Remove what was last written so many seconds ago; whether it was."""
    with suppress(FileNotFoundError):  # another was quicker
        if files.age(path) >= older_than:
            return files.remove(path, unless)
    return False


class LocalFiles:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.local, self.url = root, str(root)

    def read(self, path: str, limit: int) -> bytes:
        with self.open(path) as file:
            return file.read(limit)

    def open(self, path: str) -> BufferedIOBase:
        return open_plain(self.local / path)

    def create(self, path: str, content: bytes) -> bool:
        target = self.local / path
        with _explained(self.url):
            if target.exists():
                return False
            unfinished = self._unfinished()
            try:
                make_folders(target.parent)
                write_file(unfinished, content)
                try:
                    os.link(unfinished, target)  # never replaces, and has its content at once
                except FileExistsError:
                    return False
                sync_folder(target.parent)
            finally:
                unfinished.unlink(missing_ok=True)
        return True

    def add_folder(self, path: str, files: Mapping[str, bytes]) -> None:
        target = self.local / path
        with _explained(self.url):
            unfinished = self._unfinished()
            try:
                unfinished.mkdir()
                for name, content in files.items():
                    write_file(unfinished / name, content)
                sync_folder(unfinished)
                make_folders(target.parent)
                while not _take_name(unfinished, target):
                    with suppress(FileNotFoundError):  # it was purged in between
                        if _holds(target, files):
                            os.utime(target)  # in use again: not to be collected
                            break
                        damaged = self._unfinished()
                        target.rename(damaged)
                        shutil.rmtree(damaged, ignore_errors=True)
                sync_folder(target.parent)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)

    def _unfinished(self) -> Path:
        folder = self.local / UNFINISHED
        folder.mkdir(exist_ok=True)
        return folder / secrets.token_hex(8)

    def names(self, path: str) -> list[str]:
        with _explained(self.url, "read"):
            try:
                names = (each.name for each in (self.local / path).iterdir())
                return sorted(name for name in names if name[0] != ".")
            except (FileNotFoundError, NotADirectoryError):
                return []

    def remove(self, path: str, unless: Callable[[], bool] = lambda: False) -> bool:
        target = self.local / path
        if unless():
            return False
        with _explained(self.url):
            if not target.is_dir() or target.is_symlink():
                target.unlink(missing_ok=True)
                return True
            # Out of sight in one step, so that nobody sees half of it.
            hidden = self._unfinished()
            with suppress(FileNotFoundError), ExitStack() as undo:
                os.utime(target)  # it is not what a crash left, to be swept before it is put back
                target.rename(hidden)
                undo.callback(_put_back, hidden, target)
                if unless():
                    return False
                undo.pop_all()
                sync_folder(target.parent)
            shutil.rmtree(hidden, ignore_errors=True)
        return True

    def age(self, path: str) -> float:
        return time.time() - (self.local / path).stat().st_mtime

    def sweep(self, older_than: float) -> int:
        count = 0
        with suppress(FileNotFoundError):
            for path in (self.local / UNFINISHED).iterdir():
                with suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime < older_than:
                        continue
                    if path.is_dir():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink()
                    count += 1
        return count


class RemoteFiles:
    """Anything behind fsspec."""

    def __init__(self, url: str, system: AbstractFileSystem, root: str) -> None:
        self.url, self._system, self._root = url, system, root

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _explained(self, done: str = "written to") -> AbstractContextManager[None]:
        """Services have errors of their own: botocore's, for one, are no OSError."""
        return _explained(self.url, done, Exception)

    def read(self, path: str, limit: int) -> bytes:
        with self._explained("read"):
            content: bytes = self._system.cat_file(self._at(path), start=0, end=limit)
            return content

    def open(self, path: str) -> BufferedIOBase:
        with self._explained("read"):
            return io.BytesIO(self._system.cat_file(self._at(path)))

    def create(self, path: str, content: bytes) -> bool:
        with self._explained():
            try:
                self._system.pipe_file(self._at(path), content, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno == errno.EEXIST:
                    return False
                raise
        return True

    def add_folder(self, path: str, files: Mapping[str, bytes]) -> None:
        with self._explained():
            for name, content in files.items():
                self._system.pipe_file(self._at(f"{path}/{name}"), content)

    def names(self, path: str) -> list[str]:
        self._system.invalidate_cache(self._at(path))
        with self._explained("read"):
            try:
                found: list[str] = self._system.ls(self._at(path), detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return []
        names = {name.rstrip("/").rpartition("/")[2] for name in found}
        return sorted(name for name in names if name and name[0] != ".")

    def remove(self, path: str, unless: Callable[[], bool] = lambda: False) -> bool:
        if unless():
            return False
        with self._explained(), suppress(FileNotFoundError):
            self._system.rm(self._at(path), recursive=True)
        return True

    def age(self, path: str) -> float:
        place = self._at(path)
        self._system.invalidate_cache(place)
        with self._explained("read"):
            # An object store has no folders: the newest file below one stands for it.
            times: list[Any] = [self._system.modified(file) for file in self._system.find(place)]
        if not times:
            raise FileNotFoundError(errno.ENOENT, "there is nothing", path)
        return time.time() - max(float(each.timestamp()) for each in times)

    def sweep(self, older_than: float) -> int:
        del older_than
        return 0


HINTS = {
    "written to": "Nothing that was there has changed. Free some space or see to its permissions.",
    "read": "See to its permissions, or to the connection.",
}


@contextmanager
def _explained(
    url: str, done: str = "written to", refusals: type[Exception] = OSError
) -> Iterator[None]:
    """What the disk or the network refuses, in a sentence. Missing files are the caller's."""
    try:
        yield
    except FileNotFoundError:
        raise
    except refusals as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise BankError(f"The bank at {url!r} cannot be {done}: {reason}.", HINTS[done]) from error


def _take_name(new: Path, folder: Path) -> bool:
    """Give `new` its name; False if there is a folder of that name."""
    try:
        new.rename(folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether a folder has these files as they were written: one may be lost or damaged."""
    try:
        for name, content in files.items():
            with open_plain(folder / name) as file:
                if file.read(len(content) + 1) != content:
                    return False
    except OSError:
        return False
    return True


def _put_back(hidden: Path, folder: Path) -> None:
    """Undo a removal. A folder that another made meanwhile is taken to be the same."""
    if not _take_name(hidden, folder):
        shutil.rmtree(hidden, ignore_errors=True)
    sync_folder(folder.parent)
