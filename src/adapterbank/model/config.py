"""The settings of adapters. Nothing here needs torch, so a package can be read without it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import Any, Literal, cast, get_args

from adapterbank.errors import ConfigError

Activation = Literal[
    "gelu_tanh", "gelu", "relu", "tanh", "swish", "sigmoid", "leaky_relu", "identity"
]
Where = Literal["both", "attention", "output"]
Insertion = Literal["serial", "parallel"]
Norm = Literal["none", "layer", "batch"]

LARGEST_SIZE = 8_192


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
        for each in fields(self):
            object.__setattr__(self, each.name, plain(getattr(self, each.name)))
        check_count("size", self.size)
        if self.size > LARGEST_SIZE:  # it would be killed for its memory, without a word
            raise ConfigError(
                f"size is {self.size:,}; it is at most {LARGEST_SIZE:,}.",
                "The paper's largest is 512: a bottleneck is narrower than the encoder's states.",
            )
        check_count("hidden_layers", self.hidden_layers)
        check_choice("activation", self.activation, get_args(Activation))
        check_choice("where", self.where, get_args(Where))
        check_choice("insertion", self.insertion, get_args(Insertion))
        check_choice("norm", self.norm, get_args(Norm))
        check_flag("gate", self.gate)
        check_flag("train_layer_norms", self.train_layer_norms)
        check_number(
            "init_std", self.init_std, hint="The paper uses 0.01; anything below that is as good."
        )
        object.__setattr__(self, "init_std", float(self.init_std))
        if self.layers is not None:
            given = self.layers if isinstance(self.layers, list | tuple | set | range) else ()
            if not given or any(type(layer) is not int or layer < 0 for layer in given):
                raise ConfigError(
                    f"layers is {self.layers!r}; it takes layer numbers from 0.",
                    "Use None for all layers.",
                )
            object.__setattr__(self, "layers", tuple(sorted(set(given))))


def plain(value: Any) -> Any:
    """A number or an array of NumPy's as Python's own: a seed or a size may come from one."""
    return value.tolist() if hasattr(value, "tolist") else value


def check_count(name: str, value: object) -> None:
    """A whole number from 1 (True is not one)."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number from 1.")


def check_flag(name: str, value: object) -> None:
    """True or False, and nothing that may be taken for one of them."""
    if type(value) is not bool:
        raise ConfigError(f"{name} is {value!r}; it must be True or False.")


def check_number(
    name: str, value: object, least: float = 0.0, most: float = inf, hint: str = ""
) -> None:
    """A finite number within bounds (True is none)."""
    if type(value) not in (int, float) or not least <= cast(float, value) <= most or value == inf:
        bounds = f"of at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
        raise ConfigError(f"{name} is {value!r}; it must be a number {bounds}.", hint)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """One of the named choices."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(choices)}.")
