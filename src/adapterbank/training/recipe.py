"""How long and how fast to train: every number with its reason.

Two recipes. `paper` is section 3.1 and the authors' code to the letter; `default` is the best that
was measured over many datasets, sensible from 200 to 100,000 rows without a single flag.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Literal, get_args

from adapterbank.errors import ConfigError
from adapterbank.model.config import check_choice, check_count, check_flag, check_number
from adapterbank.model.heads import Kind
from adapterbank.model.methods import MethodName
from adapterbank.model.products import Products

RecipeName = Literal["default", "paper"]

# Adapters start near the identity and want a larger step than pre-trained weights do; a lone
# linear head is convex and takes a larger one still. Measured in batches of 16: docs/training.md.
LEARNING_RATES: dict[MethodName, float] = {
    "adapters": 2e-3,
    "full": 1e-4,
    "top-k": 2e-4,
    "layer-norm": 3e-3,
    "head": 1e-2,
}
# The middle of the paper's GLUE grid for adapters, and of BERT's own for the rest.
PAPER_LEARNING_RATES: dict[MethodName, float] = {
    "adapters": 3e-4,
    "full": 3e-5,
    "top-k": 3e-5,
    "layer-norm": 3e-3,
    "head": 3e-3,
}
FULL_RATE_ROWS, FULL_RATE_SIZE = 1_000, 128  # up to these adapters take their whole rate;
LEAST_RATE = 1e-3  # with four times as many rows, or four times the size, this one
FULL_RATE_UNITS = 6 * 384  # layers × width of minilm, which the rates were measured on …
OF_BASE: tuple[MethodName, ...] = ("adapters", "full", "top-k")  # … and by what they change in it
SPAN_LENGTH = 384  # tokens of a window over a long context
MANY_ROWS = 20_000
LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Recipe:
    """Settings of one training run."""

    learning_rate: float
    """The peak, reached after the warm-up."""
    epochs: int = 10
    """Passes over the data."""
    max_steps: int = 0
    """Stop after so many steps, in the middle of an epoch if need be; 0: all of them."""
    batch_size: int = 32
    """Rows a step (section 3.1)."""
    accumulate: int = 1
    """Pieces that a batch is computed in, one after the other: less memory, the same step."""
    max_length: int = 128
    """Tokens a text; longer ones are cut (a span task's contexts: seen through windows)."""
    warmup: float = 0.1
    """Share of the steps over which the learning rate rises; then it falls linearly to 0."""
    weight_decay: float = 0.01
    """Decoupled; none on biases and LayerNorms."""
    clip: float = 1.0
    """Largest gradient norm over all trained parameters."""
    bias_correction: bool = True
    """Adam's correction of its young averages; the authors' code has none."""
    patience: int = 0
    """Stop after so many epochs without a better dev score; 0: never."""
    checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third slower."""
    products: Products = "auto"
    """How the encoder multiplies: fp32, bf16, or auto: bf16 where the processor is fast at it."""
    scale_targets: bool = True
    """Train regression in units of the targets' own deviation."""
    seed: int = 0
    """Governs the start of adapters and head, the order of the rows and dropout."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "max_length"):
            check_count(name, getattr(self, name))
        rate = self.learning_rate
        if not isinstance(rate, int | float) or not 0 < rate < 1:
            raise ConfigError(
                f"learning_rate is {rate!r}; it is a number between 0 and 1.",
                "On the command line it is --lr.",
            )
        check_number("warmup", self.warmup, most=1)
        check_number("weight_decay", self.weight_decay)
        check_number("clip", self.clip)
        for name in ("bias_correction", "checkpointing", "scale_targets"):
            check_flag(name, getattr(self, name))
        check_choice("products", self.products, get_args(Products))
        for name, most in (("seed", LARGEST_SEED), ("patience", inf), ("max_steps", inf)):
            if type(value := getattr(self, name)) is not int or not 0 <= value <= most:
                to = "" if most == inf else f" to {most:,}"
                raise ConfigError(f"{name} is {value!r}; it is a whole number from 0{to}.")
        for name in ("learning_rate", "warmup", "weight_decay", "clip"):  # 1 and 1.0 are one recipe
            object.__setattr__(self, name, float(getattr(self, name)))

    def as_dict(self) -> dict[str, Any]:
        """Every setting by name."""
        return asdict(self)


def make_recipe(
    name: RecipeName,
    method: MethodName,
    rows: int,
    kind: Kind = "classification",
    *,
    size: int = 0,
    units: int = 0,
    **given: Any,
) -> Recipe:
    """A recipe by name, for a method, a number of training rows, a size of adapters and a base of
    so many `units`: `Encoder.units`.

    `given` overrides single settings; those that are None are left as the recipe has them.
    """
    check_choice("recipe", name, get_args(RecipeName))
    recipe = _paper(method) if name == "paper" else _default(method, rows, size, units)
    if kind == "span":
        recipe = replace(recipe, max_length=SPAN_LENGTH)
    return replace(recipe, **{key: value for key, value in given.items() if value is not None})


def _paper(method: MethodName) -> Recipe:
    """Section 3.1 and the authors' code. Epochs: the longer of the paper's two (3, 20)."""
    return Recipe(
        PAPER_LEARNING_RATES[method],
        epochs=20,
        bias_correction=False,
        scale_targets=False,
    )


def _default(method: MethodName, rows: int, size: int, units: int) -> Recipe:
    """What measured best. The number of steps is what small data lacks, so it gets smaller batches
    and more epochs; a row costs the same in either."""
    return Recipe(
        _rate(method, rows, size, units),
        epochs=_epochs(rows),
        batch_size=16 if rows < MANY_ROWS else 32,
    )


def _rate(method: MethodName, rows: int, size: int, units: int) -> float:
    """Of adapters it falls with the root of the rows and of the size; of all that changes what the
    base computes, with the base's layers and with its width. The more steps are taken at a high
    rate, and the further each goes, the likelier one of them leads to where all rows are answered
    alike, and there is no way back."""
    rate = LEARNING_RATES[method]
    if method == "adapters":
        many = max(rows / FULL_RATE_ROWS, 1) * max(size / FULL_RATE_SIZE, 1)
        rate = max(LEAST_RATE, rate / many**0.5)
    if method in OF_BASE:
        rate /= max(units / FULL_RATE_UNITS, 1)
    return float(f"{rate:.2g}")


def _epochs(rows: int) -> int:
    """15 of 200 rows, 5 of 1,000, 4 of 3,000, 3 of 10,000, 2 of 20,000 and more."""
    return max(2, min(15, 3 + round(2_500 / max(rows, 1)) - (rows >= MANY_ROWS)))
