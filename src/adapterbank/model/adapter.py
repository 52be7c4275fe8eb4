"""The adapter: a bottleneck with a skip connection.

Houlsby et al., "Parameter-Efficient Transfer Learning for NLP", ICML 2019, arXiv:1902.00751,
section 2.1; the variants are those of section 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from adapterbank.model.config import Activation, Norm

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
    "tanh": torch.tanh,
    "swish": F.silu,
    "sigmoid": torch.sigmoid,
    "leaky_relu": F.leaky_relu,
    "identity": lambda x: x,
}


@torch.no_grad()
def cut_normal_(weight: Tensor, std: float) -> None:
    """Fill with a normal cut off at two standard deviations."""
    if std == 0:
        weight.zero_()
    else:  # the bounds of trunc_normal_ are absolute, so it draws for σ = 1
        nn.init.trunc_normal_(weight, std=1.0, a=-2.0, b=2.0).mul_(std)


class TokenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation over all tokens of a batch, whatever the dimensions in front."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.num_batches_tracked = None  # only read when the momentum is None

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, -2)).view_as(x)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Past torch's own, which asks dictionaries from before for that number."""
        nn.Module._load_from_state_dict(self, *args, **kwargs)


def make_norm(kind: Norm, width: int) -> nn.Module | None:
    """The normalisation of a bottleneck's input."""
    if kind == "none":
        return None
    return nn.LayerNorm(width) if kind == "layer" else TokenBatchNorm(width)


class Adapter(nn.Module):
    """A(h) = h + W2·f(W1·h + b1) + b2, with 2md + d + m parameters."""

    def __init__(
        self,
        width: int,  # d
        size: int,  # m
        *,
        activation: Activation = "gelu_tanh",
        init_std: float = 1e-2,
        gate: bool = False,
        norm: Norm = "none",
        hidden_layers: int = 1,
    ) -> None:
        super().__init__()
        self.inner_norm = make_norm(norm, width)
        self.down = nn.Linear(width, size)
        self.inner = nn.ModuleList(nn.Linear(size, size) for _ in range(hidden_layers - 1))
        self.up = nn.Linear(size, width)
        self.activation = activation
        self.gate = gate
        self.reset(init_std)

    @torch.no_grad()
    def reset(self, std: float) -> None:
        """Start near the identity: weights from a normal cut off at 2σ, biases 0."""
        for linear in (self.down, *self.inner, self.up):
            assert isinstance(linear, nn.Linear)  # noqa: S101 - narrows the type only
            cut_normal_(linear.weight, std)
            nn.init.zeros_(linear.bias)

    def forward(self, hidden: Tensor, source: Tensor | None = None) -> Tensor:
        """hidden [..., d] and source [..., d], which the bottleneck reads: `hidden` if None."""
        delta = self.bottleneck(hidden if source is None else source)
        # Not in place: δ is a view of its product, and the gradient of that takes three copies.
        return hidden + (hidden * delta if self.gate else delta)

    def bottleneck(self, x: Tensor) -> Tensor:
        """δ(x) = W2·f(W1·x + b1) + b2: [..., d] → [..., m] → [..., d]."""
        f = ACTIVATIONS[self.activation]
        if self.inner_norm is not None:
            x = self.inner_norm(x)
        x = f(self.down(x))
        for linear in self.inner:
            x = f(linear(x))
        out: Tensor = self.up(x)
        return out
