"""Adapters that were trained in a loop of one's own, as a folder: settings and tensors, never code.

    adapters.json          the settings of `AdapterConfig`, sealed by their digest
    adapters.safetensors   adapters, LayerNorms and head by neutral name, in single precision

This is no package: a package (`package.py`) is a task with labels, scores and a base it fits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from adapterbank.errors import ConfigError, PackageError
from adapterbank.model.config import AdapterConfig
from adapterbank.store.disk import open_plain, write_folder
from adapterbank.store.schema import decode
from adapterbank.store.sealed import seal, unseal
from adapterbank.store.weights import (
    ADAPTER,
    WEIGHTS,
    check_finite,
    encode_weights,
    not_finite,
    read_header,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from adapterbank.model.attach import Attachment

SETTINGS, TENSORS = "adapters.json", "adapters.safetensors"
FORMAT = 1
MAX_SETTINGS = 100_000  # bytes
HEAD = "head."


@dataclass(frozen=True)
class Settings:
    """What stands beside the tensors."""

    format: int
    adapter: AdapterConfig


def save_adapters(adapters: Attachment, folder: str | Path) -> None:
    """Keep what `attach` put on a model and what trained with it, head included, in a folder; one
    that was saved there before gives way."""
    if adapters.config is None:
        raise ConfigError(
            "These are no adapters: apply_method made them.",
            "Keep the whole model: model.save_pretrained(folder).",
        )
    place = Path(folder)
    with _written(place):
        _check_target(place)
    arrays = {name: each.float().cpu().numpy() for name, each in adapters.tensors().items()}
    wrong = not_finite(arrays)
    if wrong is not None:
        raise PackageError(
            f"The adapters hold {wrong!r} with values that are not finite.",
            "Train them again, at a lower learning rate.",
        )
    settings = Settings(FORMAT, adapters.config)
    files = {TENSORS: encode_weights(arrays, "fp32"), SETTINGS: seal(asdict(settings))}
    with _written(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_folder(place, files, replace=True)


@contextmanager
def _written(place: Path) -> Iterator[None]:
    """Why a folder cannot be, in a sentence."""
    try:
        yield
    except OSError as error:
        raise PackageError(
            f"The adapters could not be written to {place}: {error.strerror or error}.",
            "Free some space, or name a folder that can be written to.",
        ) from error


def _check_target(place: Path) -> None:
    """Refuse a folder with anything else in it: the whole of it gives way."""
    if place.resolve() == Path.cwd():
        raise ConfigError(f"{place} is the folder that this runs in.", "Name one within it.")
    if not os.path.lexists(place):
        return
    if place.is_symlink() or not place.is_dir():
        raise ConfigError(f"{place} is there, and is no folder.", "Name one that is not there yet.")
    others = {each.name for each in place.iterdir()} - {SETTINGS, TENSORS}
    if others:
        raise ConfigError(
            f"{place} holds other things than adapters, {min(others)!r} for one.",
            "Name a folder that is not there yet, such as one within it.",
        )


def load_adapters(model: nn.Module, folder: str | Path, *, head: bool = True) -> Attachment:
    """Attach what was saved to a model of the same form. With `head=False` the model's own head
    stays as it is, to be trained for other labels."""
    import torch

    from adapterbank.model.attach import attach

    place = Path(folder)
    with _explained(place):
        settings = _read_settings(place)
        arrays = _read_arrays(place, settings.adapter)
    given = {name: array for name, array in arrays.items() if head or not name.startswith(HEAD)}
    with torch.random.fork_rng(devices=[]):  # the start is overwritten at once
        adapters = attach(model, replace(settings.adapter, init_std=0.0))
    adapters.config = settings.adapter
    mine = {name: t for name, t in adapters.tensors().items() if head or not name.startswith(HEAD)}
    wrong = [
        name
        for name in sorted(mine.keys() | given.keys())
        if name not in mine or name not in given or tuple(mine[name].shape) != given[name].shape
    ]
    if wrong:
        adapters.detach()
        raise PackageError(
            f"{len(wrong)} of the tensors in {place} do not fit this model, "
            f"{wrong[0]!r} among them.",
            "Load them on a model of the same form; with head=False its head may be another.",
        )
    with torch.no_grad():
        for name, tensor in mine.items():
            tensor.copy_(torch.from_numpy(given[name]))
    return adapters


def _read_settings(place: Path) -> Settings:
    with open_plain(place / SETTINGS) as file:
        content = file.read(MAX_SETTINGS)
    settings: Settings = decode(Settings, unseal(content), "settings")
    if settings.format != FORMAT:
        raise ValueError(f"its format is {settings.format}, and {FORMAT} is read")
    return settings


def _read_arrays(place: Path, config: AdapterConfig) -> dict[str, NDArray[np.float32]]:
    """The tensors, once the file's header fits the settings: adapters of a size that the file does
    not hold are not made."""
    from safetensors.numpy import load

    with open_plain(place / TENSORS) as file:
        content = file.read()
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8:
        raise ValueError(f"its header has {length:,} bytes")
    shapes = read_header(content[8 : 8 + length], len(content) - 8 - length, "fp32")
    sizes = {shape[0] for name, (shape, _) in shapes.items() if ADAPTER.fullmatch(name)}
    if sizes != {config.size} or config.hidden_layers > len(shapes):
        raise ValueError("its settings are not those of its tensors")
    arrays: dict[str, NDArray[np.float32]] = load(content)
    check_finite(arrays)
    return arrays


@contextmanager
def _explained(place: Path) -> Iterator[None]:
    """What is wrong with a folder, in a sentence."""
    hint = "Save them again: save_adapters(adapters, folder)."
    try:
        yield
    except FileNotFoundError as error:
        raise PackageError(f"{place} holds no {SETTINGS} with {TENSORS}.", hint) from error
    except OSError as error:
        raise PackageError(f"{place} cannot be read: {error.strerror}.", hint) from error
    except (ValueError, ConfigError, PackageError) as error:
        said = getattr(error, "message", str(error)).rstrip(".").replace(WEIGHTS, TENSORS, 1)
        raise PackageError(f"The adapters in {place} are damaged: {said}.", hint) from error
