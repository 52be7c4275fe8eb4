"""Dropout with cheaper random numbers on CPU.

torch draws one double-precision number an element, on one thread: 6 to 10 ns each, a fifth of a
training step on a small encoder. Here every element takes 16 bits of a fast generator (SFC64), and
they are used before they leave the processor's cache: a tenth of the time. The rate is rounded to
1/65536 and the scale belongs to the rounded rate, so the expectation is exact. Each mask is seeded
from torch's own generator: `torch.manual_seed` governs it, and saving torch's random state is
enough to resume. Masks don't depend on the thread count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

LEVELS = 1 << 16  # of a 16-bit number
PIECE = 1 << 17  # elements at a time: with all that is made of them, a megabyte


class Coins:
    """A stream of coins that fall on one side with probability p."""

    def __init__(self, p: float) -> None:
        self._kept = round((1.0 - p) * LEVELS)
        self.scale = LEVELS / max(self._kept, 1)
        """1 / (1 - p), of the rounded p."""
        self._words = np.random.SFC64(int(torch.randint(1 << 62, ())))

    def fill(self, out: Tensor, dropped: float, kept: float) -> Tensor:
        """Fill a contiguous tensor of single precision: `dropped` with probability p, else `kept`.

        numpy compares and converts small integers several times faster than torch does.
        """
        every = out.view(-1).numpy()
        for first in range(0, len(every), PIECE):
            piece = every[first : first + PIECE]
            words = self._words.random_raw(-(-len(piece) // 4))  # four numbers a word
            np.copyto(piece, words.view(np.int16)[: len(piece)] < self._kept - LEVELS // 2)
            piece *= kept - dropped
            piece += dropped
        return out


def dropout(x: Tensor, p: float) -> Tensor:
    """Set each element to 0 with probability p and scale the others by 1 / (1 - p)."""
    if p <= 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return x * keep_mask(x.shape, p, x.dtype)


def keep_mask(shape: torch.Size, p: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """A mask of 0 with probability p, and 1 / (1 - p) elsewhere."""
    coins = Coins(p)
    return coins.fill(torch.empty(shape), 0.0, coins.scale).to(dtype)


@contextmanager
def cheap_dropout(model: nn.Module) -> Iterator[None]:
    """Within this block the model's dropout layers take their numbers from here."""
    layers = [module for module in model.modules() if type(module) is nn.Dropout]
    for layer in layers:
        layer.forward = partial(_forward, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # the class's own again


def _forward(layer: nn.Dropout, x: Tensor) -> Tensor:
    return dropout(x, layer.p) if layer.training else x
