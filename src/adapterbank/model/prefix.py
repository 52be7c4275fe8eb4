"""The frozen prefix: layers below the lowest one that trains give the same for ever.

What enters the first layer that trains is computed once a row and handed in from then on. Nothing
of the encoder is rewritten: its list of layers is cut short for the length of a call, and its
embeddings answer with what is known.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from adapterbank.model.sites import Sites

IN_MEMORY = 2**30  # bytes of known states that stay in memory; more lie in a file


@dataclass(frozen=True)
class Known:
    """What the prefix makes of rows: a vector for each token, or for each row."""

    values: NDArray[np.float32]
    """[tokens, d], rows laid end to end; [rows, d] where one vector stands for a row."""
    starts: NDArray[np.int64] | None
    """Where each row begins, and at last where they end; None for one vector a row."""

    def take(self, rows: Sequence[int]) -> Tensor:
        """Of some rows, end to end."""
        if self.starts is None:
            return torch.from_numpy(self.values[list(rows)])
        pieces = [self.values[self.starts[row] : self.starts[row + 1]] for row in rows]
        return torch.from_numpy(np.concatenate(pieces))


def room_for(rows: int, width: int) -> NDArray[np.float32] | None:
    """An array [rows, width]: in memory, or in a file that goes with it; None if neither holds."""
    size = 4 * rows * width
    if size <= IN_MEMORY:
        return np.empty((rows, width), np.float32)
    with tempfile.TemporaryFile() as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk is found now, not later
        except (AttributeError, OSError):
            return None
        return np.memmap(file, np.float32, "r+", shape=(rows, width))


def frozen_layers(base: PreTrainedModel, sites: Sites, adapted: Sequence[int]) -> int:
    """How many layers there are, from the bottom, that nothing trains in or below."""
    below = [sites.embeddings, *sites.lower_norms.values()]
    if any(_trains(base.get_submodule(path)) for path in below if _has(base, path)):
        return 0
    layers = sites.layer_modules(base)
    still = (i for i, layer in enumerate(layers) if i in adapted or _trains(layer))
    return next(still, len(layers))


def can_skip(base: PreTrainedModel, sites: Sites) -> bool:
    """Whether the layers are a plain list that the embeddings' output goes into as it is."""
    config = base.config
    plain = sites.layers.count("*") == 1 and sites.layers.endswith(".*")
    return (
        plain
        and sites.packs
        and getattr(config, "embedding_size", config.hidden_size) == config.hidden_size
    )


def _trains(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def _has(base: nn.Module, path: str) -> bool:
    try:
        base.get_submodule(path)
    except AttributeError:
        return False
    return True


class _ReachedError(Exception):
    """The states that enter a layer."""

    def __init__(self, states: Tensor) -> None:
        self.states = states


def states_entering(base: PreTrainedModel, layer: nn.Module, inputs: dict[str, Any]) -> Tensor:
    """Run the encoder as far as a layer: what enters it."""

    def stop(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise _ReachedError(args[0] if args else kwargs["hidden_states"])

    handle = layer.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        base(**inputs)
    except _ReachedError as reached:
        return reached.states
    finally:
        handle.remove()
    raise AssertionError("the layer was not reached")


@contextmanager
def skipping(base: PreTrainedModel, sites: Sites, depth: int, states: Tensor) -> Iterator[None]:
    """Within this block a call of the encoder begins with these states at layer `depth`."""
    path, _, name = sites.layers.removesuffix(".*").rpartition(".")
    parent, embeddings = base.get_submodule(path), base.get_submodule(sites.embeddings)
    every = getattr(parent, name)
    setattr(parent, name, every[depth:])
    embeddings.forward = lambda *_, **__: states
    try:
        yield
    finally:
        del embeddings.forward
        setattr(parent, name, every)
