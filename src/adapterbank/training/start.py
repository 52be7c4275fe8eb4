"""The model of a task at its start."""

from __future__ import annotations

import torch

from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.task import Task
from adapterbank.training.recipe import Recipe


def seeded_model(encoder: Encoder, task: Task, method: Method, recipe: Recipe) -> TaskModel:
    """The task's model at its start, the same for the same seed."""
    torch.manual_seed(recipe.seed)
    model = TaskModel(encoder, task.kind, len(task.labels), method)
    if task.kind == "regression" and recipe.scale_targets:
        targets = torch.tensor([example.number for example in task.train])
        model.head.rescale(float(targets.mean()), float(targets.std()) or 1.0)
    return model
