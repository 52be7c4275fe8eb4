"""Adam with decoupled weight decay; a learning rate that rises and falls linearly."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import AdamW

from adapterbank.training.recipe import Recipe

EPSILON = 1e-6  # the authors' code
# β2 to this power is 0: a step count from which on Adam's bias correction does nothing. The
# authors' Adam has no correction, and this gives just that with the library's fused kernel.
UNCORRECTED = 1e9


def make_optimizer(parameters: Iterable[nn.Parameter], recipe: Recipe) -> AdamW:
    """AdamW in two groups: matrices decay, vectors (biases, LayerNorms) don't."""
    parameters = list(parameters)
    optimizer = AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe.weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=recipe.learning_rate,
        eps=EPSILON,
        fused=True,  # one pass over each tensor in place of a dozen small operations
    )
    start = 0.0 if recipe.bias_correction else UNCORRECTED
    for parameter in parameters:
        optimizer.state[parameter] = {
            "step": torch.tensor(start, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimizer


def set_rate(optimizer: AdamW, recipe: Recipe, step: int, steps: int) -> None:
    """The learning rate of step number `step` (from 0) of `steps`."""
    rise = max(1, round(recipe.warmup * steps))
    factor = (step + 1) / rise if step < rise else (steps - step) / (steps - rise or 1)
    for group in optimizer.param_groups:
        group["lr"] = recipe.learning_rate * factor
