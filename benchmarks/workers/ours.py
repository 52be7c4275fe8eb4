"""AdapterBank's training step: packed batches, adapters of size 64, as its loop runs it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from protocol import serve

from adapterbank.model.dropout import cheap_dropout
from adapterbank.model.encoder import load_encoder
from adapterbank.model.packing import Batch
from adapterbank.model.task_model import TaskModel
from adapterbank.training.optimizer import make_optimizer
from adapterbank.training.recipe import Recipe

torch.manual_seed(0)
model = TaskModel(load_encoder("minilm"), "classification", labels=2).train()
parameters = [p for group in model.groups().values() for p in group]
optimizer = make_optimizer(parameters, Recipe(learning_rate=1e-4))


def prepare(rows: list[list[int]]) -> Any:
    """A packed batch and its targets."""
    batch = model.collate(rows, [[0] * len(row) for row in rows])
    return batch, torch.arange(len(rows)) % 2


def step(prepared: tuple[Batch, torch.Tensor]) -> None:
    """Forward, backward, clip, update."""
    batch, targets = prepared
    model.head.loss(model(batch), targets, batch.lengths).backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad()


with ExitStack() as stack:
    stack.enter_context(model.packing())
    stack.enter_context(cheap_dropout(model))
    serve(prepare, step)
