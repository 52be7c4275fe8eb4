"""A package: one version of one task, as a folder with `weights.safetensors` and `manifest.json`.

A package is data, never code. It is written whole or not at all, and read only if every byte is
as it was written. Folders whose names start with a dot are unfinished; readers pass them by.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from adapterbank.errors import PackageError
from adapterbank.store.manifest import MAX_BYTES, Manifest
from adapterbank.store.weights import (
    WEIGHTS,
    check_finite,
    check_tensors,
    encode_weights,
    read_weights,
)

if TYPE_CHECKING:
    from torch import Tensor

MANIFEST = "manifest.json"
RUNS_CODE = {".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"}


@dataclass(frozen=True)
class Package:
    """What a folder held: every digest and shape is right."""

    manifest: Manifest
    tensors: dict[str, Tensor]


def write_package(
    folder: str | Path,
    manifest: Manifest,
    tensors: Mapping[str, Tensor],
    *,
    replace: bool = False,
) -> Manifest:
    """Write a package and return its manifest with the digests filled in.

    Everything is on the disk under a hidden name before the folder gets its own, so there is
    never half a package. With `replace`, an earlier package there gives way; a crash between the
    two renames leaves it beside, under a hidden name.
    """
    folder = Path(folder)
    _check_target(folder, replace)
    arrays = {
        name: tensor.detach().cpu().float().contiguous().numpy() for name, tensor in tensors.items()
    }
    check_tensors(manifest, {name: array.shape for name, array in arrays.items()})
    check_finite(arrays)
    weights = encode_weights(arrays)
    text = dataclasses.replace(
        manifest,
        weights_sha256=hashlib.sha256(weights).hexdigest(),
        weights_bytes=len(weights),
    ).to_json()
    hidden = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        hidden.mkdir()
        try:
            _write(hidden / WEIGHTS, weights)
            _write(hidden / MANIFEST, text.encode())
            _sync(hidden)
            _put_in_place(hidden, folder, replace)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
    except OSError as error:
        raise PackageError(
            f"The package {folder.name!r} could not be written: {error.strerror or error}.",
            "Nothing was changed. Free some space, or choose a folder that can be written to.",
        ) from error
    return Manifest.from_json(text)


def _check_target(folder: Path, replace: bool) -> None:
    if not os.path.lexists(folder):
        return
    if not replace:
        raise PackageError(
            f"There is already something called {folder.name!r}.",
            "Packages never change: choose another name or version.",
        )
    if folder.is_symlink() or not (folder / MANIFEST).is_file():
        raise PackageError(
            f"{folder.name!r} is not a package, so it is not replaced.", "Choose another folder."
        )


def _put_in_place(new: Path, folder: Path, replace: bool) -> None:
    """Give `new` its name, or put everything back."""
    old = new.with_name(f"{new.name}.old")
    with ExitStack() as undo:
        if replace and folder.exists():
            folder.rename(old)
            undo.callback(old.rename, folder)
        new.rename(folder)
        undo.callback(folder.rename, new)
        _sync(folder.parent)
        undo.pop_all()
    shutil.rmtree(old, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    if os.name == "nt":  # has no way to sync a folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_manifest(folder: str | Path) -> Manifest:
    """The manifest of a package; its weights are not looked at."""
    folder = Path(folder)
    _refuse_code(folder)
    with _open(folder, MANIFEST) as file:
        return Manifest.from_json(file.read(MAX_BYTES + 1))


def read_package(folder: str | Path) -> Package:
    """A package with every check: digests, names, shapes, types, finite values."""
    import torch

    manifest = read_manifest(folder)
    with _open(Path(folder), WEIGHTS) as file:
        arrays = read_weights(file, manifest)
    return Package(manifest, {name: torch.from_numpy(array) for name, array in arrays.items()})


def _refuse_code(folder: Path) -> None:
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        raise PackageError(f"There is no package {folder.name!r}: {error.strerror}.") from error
    for file in files:
        if file.suffix.lower() in RUNS_CODE:
            raise PackageError(
                f"The package {folder.name!r} holds {file.name}; loading such a file can run code.",
                f"Take it out: a package is {WEIGHTS} and {MANIFEST}. Other weights can be "
                "re-saved with safetensors where you trust them.",
            )


@contextmanager
def _open(folder: Path, name: str) -> Iterator[BufferedReader]:
    """A plain file of the package: no link that leads elsewhere, no pipe that never ends."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(folder / name, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PackageError(f"{name} of the package {folder.name!r} is not a file.")
            yield file
    except FileNotFoundError as error:
        raise PackageError(f"{folder.name!r} is not a package: it has no {name}.") from error
    except OSError as error:
        raise PackageError(
            f"{name} of the package {folder.name!r} cannot be read: {error.strerror}."
        ) from error
