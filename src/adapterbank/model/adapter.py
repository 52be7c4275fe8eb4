"""The adapter: a bottleneck with a skip connection, and its settings.

Houlsby et al., "Parameter-Efficient Transfer Learning for NLP", ICML 2019, arXiv:1902.00751,
section 2.1; the variants are those of section 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from adapterbank.errors import ConfigError

Activation = Literal[
    "gelu_tanh", "gelu", "relu", "tanh", "swish", "sigmoid", "leaky_relu", "identity"
]
Where = Literal["both", "attention", "output"]
Insertion = Literal["serial", "parallel"]
Norm = Literal["none", "layer", "batch"]

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


@dataclass(frozen=True)
class AdapterConfig:
    """What an adapter is and where it stands. The defaults are the paper's."""

    size: int = 64
    """m, the width of the bottleneck. The paper tries 1 to 512; 64 is its fixed choice."""
    activation: Activation = "gelu_tanh"
    """f. The paper says only "nonlinearity"; its code uses the tanh form of GELU."""
    init_std: float = 1e-2
    """Standard deviation of the start, a normal cut off at two of them (section 3.6, figure 6)."""
    layers: tuple[int, ...] | None = None
    """Layers that get adapters, counted from 0; None for all. Nothing below the lowest trains."""
    where: Where = "both"
    """After the attention projection, after the second feed-forward projection, or both."""
    insertion: Insertion = "serial"
    """What the adapter reads: the sub-layer's output (serial) or its input (parallel)."""
    gate: bool = False
    """Multiplicative interaction: h + h·δ(x) in place of h + δ(x)."""
    norm: Norm = "none"
    """Normalisation of the bottleneck's input: none, layer or batch."""
    hidden_layers: int = 1
    """Hidden layers of width m in the bottleneck."""
    train_layer_norms: bool = True
    """Train the encoder's LayerNorms beside the adapters, as the paper does."""

    def __post_init__(self) -> None:
        check_count("size", self.size)
        check_count("hidden_layers", self.hidden_layers)
        check_choice("activation", self.activation, get_args(Activation))
        check_choice("where", self.where, get_args(Where))
        check_choice("insertion", self.insertion, get_args(Insertion))
        check_choice("norm", self.norm, get_args(Norm))
        if not 0 <= self.init_std < float("inf"):
            raise ConfigError(
                f"init_std is {self.init_std}; it must be a number of at least 0.",
                "The paper uses 0.01 and finds anything below that as good.",
            )
        if self.layers is not None:
            layers = tuple(sorted(set(self.layers)))
            if not layers or any(type(layer) is not int or layer < 0 for layer in layers):
                raise ConfigError(
                    f"layers is {self.layers!r}; it takes layer numbers from 0.",
                    "Use None for all layers.",
                )
            object.__setattr__(self, "layers", layers)


def check_count(name: str, value: object) -> None:
    """A whole number from 1 (True is not one)."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number from 1.")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """One of the named choices."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(choices)}.")


@torch.no_grad()
def cut_normal_(weight: Tensor, std: float) -> None:
    """Fill with a normal cut off at two standard deviations."""
    # The bounds of trunc_normal_ are absolute, so it draws for σ = 1; this also allows σ = 0.
    nn.init.trunc_normal_(weight, std=1.0, a=-2.0, b=2.0).mul_(std)


class TokenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation over all tokens of a batch, whatever the dimensions in front."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.num_batches_tracked = None  # only read when the momentum is None

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, -2)).view_as(x)


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
        # δ is fresh memory that no backward pass reads: adding in place saves a pass over it.
        return hidden + hidden * delta if self.gate else delta.add_(hidden)

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
