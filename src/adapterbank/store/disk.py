"""A disk's own promises: files and folders that are there whole or not at all, and stay through a
power cut; and no file that is a link or a pipe."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO


def write_folder(folder: Path, files: Mapping[str, bytes], *, replace: bool = False) -> None:
    """Make a folder anywhere, whole or not at all. With `replace`, an earlier one gives way; a
    crash between the two renames leaves it beside, under a hidden name."""
    hidden = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    hidden.mkdir()
    try:
        for name, content in files.items():
            write_file(hidden / name, content)
        sync_folder(hidden)
        _put_in_place(hidden, folder, replace)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _put_in_place(new: Path, folder: Path, replace: bool) -> None:
    """Give `new` its name, or put everything back."""
    old = new.with_name(f"{new.name}.old")
    with ExitStack() as undo:
        if replace and folder.exists():
            folder.rename(old)
            undo.callback(old.rename, folder)
        new.rename(folder)
        undo.callback(folder.rename, new)
        sync_folder(folder.parent)
        undo.pop_all()
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name once all of it is on the disk."""
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with ExitStack() as undo:
            hidden.rename(path)
            undo.callback(path.rename, hidden)
            sync_folder(path.parent)
            undo.pop_all()
    finally:
        hidden.unlink(missing_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """A new file, on the disk when this returns."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def make_folders(folder: Path) -> None:
    """A folder and those above it, on the disk when this returns."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """The folder's names, on the disk when this returns."""
    if os.name == "nt":  # has no way to sync a folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_plain(path: Path) -> BufferedIOBase:
    """A plain file to be read: no link that leads elsewhere, no pipe that never ends."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise IsADirectoryError(errno.EISDIR, "it is not a file")
    return file
