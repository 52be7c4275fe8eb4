"""A package: one task as two files, `weights.safetensors` and `manifest.json`.

A package is data, never code. It is written whole or not at all, and read only if every byte is
as it was written. Folders whose names start with a dot are unfinished; readers pass them by.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING

from adapterbank.errors import PackageError
from adapterbank.store.disk import open_plain, write_folder
from adapterbank.store.known_files import KnownFiles
from adapterbank.store.manifest import MAX_BYTES, Manifest
from adapterbank.store.weights import (
    WEIGHTS,
    check_finite,
    check_tensors,
    encode_weights,
    read_weights,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

MANIFEST = "manifest.json"
KNOWN_BYTES = 2**16  # of a manifest that is remembered; most have 4 kB
RUNS_CODE = {".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"}


@dataclass(frozen=True)
class Package:
    """A task's manifest and tensors: every digest and shape is right."""

    manifest: Manifest
    arrays: dict[str, NDArray[np.float32]]

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The arrays in torch's form, their memory shared."""
        import torch

        return {name: torch.from_numpy(array) for name, array in self.arrays.items()}


@dataclass(frozen=True)
class Packed:
    """A package as the bytes of its files."""

    manifest: Manifest
    """With the digests filled in."""
    files: dict[str, bytes]
    """The manifest last: where it is, the package is whole."""

    @property
    def digest(self) -> str:
        """Of the manifest, and so of everything."""
        return hashlib.sha256(self.files[MANIFEST]).hexdigest()

    @property
    def bytes(self) -> int:
        """The size of the whole package."""
        return sum(map(len, self.files.values()))

    def unpack(self) -> Package:
        """What the files hold, with every check."""
        return unpack(lambda name: io.BytesIO(self.files[name]), self.digest)


def pack(manifest: Manifest, tensors: Mapping[str, Tensor]) -> Packed:
    """A package's files. Tensors that the manifest doesn't account for are refused."""
    arrays = as_arrays(tensors)
    check_tensors(manifest, {name: array.shape for name, array in arrays.items()})
    check_finite(arrays)
    weights = encode_weights(arrays, manifest.precision)
    whole = dataclasses.replace(
        manifest, weights_sha256=hashlib.sha256(weights).hexdigest(), weights_bytes=len(weights)
    )
    raw = whole.to_json()
    return Packed(Manifest.from_json(raw), {WEIGHTS: weights, MANIFEST: raw})


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[np.float32]]:
    """Tensors as a package keeps them."""
    return {
        name: tensor.detach().cpu().float().contiguous().numpy() for name, tensor in tensors.items()
    }


def unpack(
    open_file: Callable[[str], BufferedIOBase],
    digest: str | None = None,
    known: KnownFiles | None = None,
) -> Package:
    """A package with every check: digests, names, shapes, types, finite values.

    `open_file` opens one of its files; `digest` is what the manifest's must be, where it is known.
    """
    manifest = unpack_manifest(open_file, digest)
    with open_file(WEIGHTS) as file:
        return Package(manifest, read_weights(file, manifest, known))


def unpack_manifest(
    open_file: Callable[[str], BufferedIOBase], digest: str | None = None
) -> Manifest:
    """The manifest of a package; its weights are not looked at."""
    with open_file(MANIFEST) as file:
        raw = file.read(MAX_BYTES + 1)
    found = hashlib.sha256(raw).hexdigest()
    if digest is not None and found != digest:
        raise PackageError(
            f"The manifest has digest {found}, not {digest}.",
            "It is not the one that was published: publish the task again.",
        )
    if digest is not None and len(raw) <= KNOWN_BYTES:
        return _read_known(raw)
    return Manifest.from_json(raw, known=digest is not None)


@lru_cache(1024)
def _read_known(raw: bytes) -> Manifest:
    """Tasks that are let go and loaded again by turns are not decoded each time."""
    return Manifest.from_json(raw, known=True)


def write_package(
    folder: str | Path,
    manifest: Manifest,
    tensors: Mapping[str, Tensor],
    *,
    replace: bool = False,
) -> Manifest:
    """Write a package as a folder and return its manifest with the digests filled in."""
    folder = Path(folder)
    check_target(folder, replace)
    packed = pack(manifest, tensors)
    try:
        write_folder(folder, packed.files, replace=replace)
    except OSError as error:
        raise PackageError(
            f"The package {folder.name!r} could not be written: {error.strerror or error}.",
            "Nothing was changed. Free some space, or choose a folder that can be written to.",
        ) from error
    return packed.manifest


def check_target(folder: Path, replace: bool) -> None:
    """Whether a package may be written there."""
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


def read_manifest(folder: str | Path) -> Manifest:
    """The manifest of a package folder; its weights are not looked at."""
    return unpack_manifest(_opener(Path(folder)))


def read_package(folder: str | Path) -> Package:
    """A package folder, with every check."""
    return unpack(_opener(Path(folder)))


def _opener(folder: Path) -> Callable[[str], BufferedIOBase]:
    _refuse_code(folder)

    def open_file(name: str) -> BufferedIOBase:
        try:
            return open_plain(folder / name)
        except FileNotFoundError as error:
            raise PackageError(f"{folder.name!r} is not a package: it has no {name}.") from error
        except OSError as error:
            raise PackageError(
                f"{name} of the package {folder.name!r} cannot be read: {error.strerror}."
            ) from error

    return open_file


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
