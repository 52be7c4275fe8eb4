"""The files of an AdapterHub folder, read without trust.

Sizes are bounded, the names and shapes of tensors are compared before anything of their size is
allocated, and nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from io import BufferedIOBase
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapterbank.errors import PackageError
from adapterbank.store.adapterhub.places import ADAPTER, HEAD
from adapterbank.store.disk import open_plain
from adapterbank.store.manifest import Precision
from adapterbank.store.schema import parse
from adapterbank.store.weights import MAX_HEADER, NUMBERS, WEIGHTS, Shape, read_header

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PICKLED = {ADAPTER: "pytorch_adapter.bin", HEAD: "pytorch_model_head.bin"}
MAX_JSON = 10**6  # bytes
AGAIN = "Save the adapter again with AdapterHub's `adapters`, or get it again from where it came."
TRAIN = "Train the task with `adapterbank train`, or in AdapterHub with its double_seq_bn adapters."

# From the shapes that a file holds to our name of each tensor; ValueError where they are wrong.
Matcher = Callable[[Mapping[str, Shape]], Mapping[str, str]]


def read_object(folder: Path, file_name: str) -> dict[str, Any]:
    """The object in a JSON file."""
    with _open(folder, file_name) as file:
        raw = file.read(MAX_JSON + 1)
    try:
        if len(raw) > MAX_JSON:
            raise ValueError(f"it is longer than {MAX_JSON:,} bytes")
        found = parse(raw)
        if not isinstance(found, dict):
            raise ValueError("it is not an object")
    except ValueError as error:
        raise PackageError(f"{file_name} cannot be read: {error}.", AGAIN) from error
    return found


def read_tensors(folder: Path, file_name: str, match: Matcher) -> dict[str, NDArray[np.float32]]:
    """The tensors of a safetensors file by our names, in single precision."""
    try:
        with _open(folder, file_name) as file:
            return _read_tensors(file, match)
    except ValueError as error:
        raise PackageError(f"{file_name} {error}.", AGAIN) from error


def _read_tensors(file: BufferedIOBase, match: Matcher) -> dict[str, NDArray[np.float32]]:
    import numpy as np

    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > min(MAX_HEADER, size - 8):
        raise ValueError(f"has a header of {length:,} bytes")
    header = file.read(length)
    data = size - 8 - length
    precision, places = _read_places(header, data)
    names = match({each: shape for each, (shape, _) in places.items()})

    values = bytearray(data)
    if file.readinto(values) != data:
        raise ValueError("changed while it was read")
    arrays: dict[str, NDArray[np.float32]] = {}
    for each, (shape, begin) in places.items():
        array = np.frombuffer(values, NUMBERS[precision][1], prod(shape), begin).reshape(shape)
        array = array.astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            raise ValueError(f"holds {shown(each)} with values that are not finite")
        # One tensor may have two names, and an old and a new one.
        if not np.array_equal(arrays.setdefault(names[each], array), array):
            raise ValueError(f"holds {shown(each)} twice, with different values")
    return arrays


def _read_places(header: bytes, data: int) -> tuple[Precision, dict[str, tuple[Shape, int]]]:
    """The numbers' precision, and shape and first byte of each tensor."""
    try:
        entries = parse(header)
    except ValueError as error:
        raise ValueError(f"has a header that cannot be read: {error}") from error
    if not isinstance(entries, dict):
        raise ValueError("has a header that is no list of tensors")
    entries.pop("__metadata__", None)  # of whoever wrote it
    types = {str(entry.get("dtype")) for entry in entries.values() if isinstance(entry, dict)}
    if others := types - {"F16", "F32"}:
        raise ValueError(f"has numbers of type {shown(min(others))}, not F32 or F16")
    precision: Precision = "fp16" if "F16" in types else "fp32"
    try:
        return precision, read_header(json.dumps(entries).encode(), data, precision)
    except PackageError as error:  # speaks of a package's file
        raise ValueError(error.message.removeprefix(f"{WEIGHTS} ").rstrip(".")) from error


def _open(folder: Path, file_name: str) -> BufferedIOBase:
    try:
        return open_plain(folder / file_name)
    except FileNotFoundError as error:
        pickled = PICKLED.get(file_name, "")
        if pickled and os.path.lexists(folder / pickled):
            raise PackageError(
                f"{folder.name!r} holds {pickled}, which can run code when loaded, "
                f"and no {file_name}.",
                "Where you trust it, load it with AdapterHub's `adapters` and save it again: "
                "model.save_adapter(folder, name, use_safetensors=True).",
            ) from error
        raise PackageError(
            f"{folder.name!r} is not a whole AdapterHub folder: it has no {file_name}.", AGAIN
        ) from error
    except OSError as error:
        raise PackageError(
            f"{file_name} of {folder.name!r} cannot be read: {error.strerror}.",
            "It must be a plain file; a folder of links is copied as files by `cp -rL`.",
        ) from error


def shown(value: object) -> str:
    """A value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."
