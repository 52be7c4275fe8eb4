"""The model of a task at its start: fresh from a seed, or where an earlier version left off."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.task import Task
from adapterbank.training.recipe import Recipe


def seeded_model(
    encoder: Encoder,
    task: Task,
    method: Method,
    recipe: Recipe,
    learnt: Mapping[str, Tensor] | None = None,
) -> TaskModel:
    """The task's model at its start, the same for the same seed.

    `learnt` are the tensors of an earlier version, whose labels come first among the task's: what
    it knew stays, and labels that are new to it get a fresh row in the head.
    """
    torch.manual_seed(recipe.seed)
    model = TaskModel(encoder, task.kind, len(task.labels), method)
    if learnt is not None:
        model.load_tensors(_with_new_labels(learnt, model.tensors()))
    if task.kind == "regression" and recipe.scale_targets:
        numbers = [example.number for example in task.train]
        targets = torch.tensor(numbers, dtype=torch.float64)  # squares of large ones fit into it
        rescale = model.head.rescale if learnt is None else model.head.unfold
        spread = targets.std(correction=min(1, len(targets) - 1))  # one number has none
        rescale(float(targets.mean()), float(spread) or 1.0)
    return model


def _with_new_labels(
    learnt: Mapping[str, Tensor], fresh: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    tensors = dict(learnt)
    for name in ("head.weight", "head.bias"):
        known = len(learnt[name])
        tensors[name] = torch.cat([learnt[name], fresh[name][known:].cpu()])
    return tensors
