"""How long and how fast to train: every number with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from adapterbank.errors import ConfigError
from adapterbank.model.adapter import check_count
from adapterbank.model.methods import MethodName

# Adapters start near the identity and want a larger step than pre-trained weights do; a lone
# linear head is convex and takes a larger one still. The paper's own grids: 3e-5 to 3e-3.
LEARNING_RATES: dict[MethodName, float] = {
    "adapters": 1e-3,
    "full": 5e-5,
    "top-k": 1e-4,
    "layer-norm": 3e-3,
    "head": 1e-2,
}


@dataclass(frozen=True)
class Recipe:
    """Settings of one training run."""

    learning_rate: float
    """The peak, reached after the warm-up."""
    epochs: int = 10
    """Passes over the data."""
    batch_size: int = 32
    """Rows a step (section 3.1)."""
    max_length: int = 128
    """Tokens a text; longer ones are cut."""
    warmup: float = 0.1
    """Share of the steps over which the learning rate rises; then it falls linearly to 0."""
    weight_decay: float = 0.01
    """Decoupled; none on biases and LayerNorms."""
    clip: float = 1.0
    """Largest gradient norm over all trained parameters."""
    seed: int = 0
    """Governs the start of adapters and head, the order of the rows and dropout."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_length"):
            check_count(name, getattr(self, name))
        if not 0 < self.learning_rate < 1:
            raise ConfigError(f"learning_rate is {self.learning_rate}; it lies between 0 and 1.")
        if not 0 <= self.warmup <= 1:
            raise ConfigError(f"warmup is {self.warmup}; it is a share from 0 to 1.")
