"""The training loop: an iterator of events.

It knows nothing of progress bars, logs or files: the caller looks at the events and does as it
likes. Selection is on dev: after the last event the model holds the weights of the best epoch.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from adapterbank.model.dropout import cheap_dropout
from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.batches import Encoded, encode, length_grouped, shuffled
from adapterbank.tasks.task import Task
from adapterbank.training.evaluate import accuracy
from adapterbank.training.optimizer import make_optimizer, make_schedule
from adapterbank.training.recipe import Recipe


@dataclass(frozen=True)
class Step:
    """One update."""

    step: int
    steps: int
    loss: float
    examples_per_second: float


@dataclass(frozen=True)
class Epoch:
    """One pass over the data, scored on dev."""

    epoch: int
    epochs: int
    dev_accuracy: float
    best: bool


def seeded_model(encoder: Encoder, task: Task, method: Method, recipe: Recipe) -> TaskModel:
    """The task's model at its start, the same for the same seed."""
    torch.manual_seed(recipe.seed)
    return TaskModel(encoder, "classification", len(task.labels), method)


def train(model: TaskModel, encoder: Encoder, task: Task, recipe: Recipe) -> Iterator[Step | Epoch]:
    """Train `model` on the task's train split and keep the epoch that is best on dev."""
    limit = min(recipe.max_length, encoder.max_length)
    rows = encode(encoder.tokenizer, task.train, limit)
    targets = torch.tensor(task.label_ids(task.train))
    dev = encode(encoder.tokenizer, task.dev, limit)
    dev_targets = torch.tensor(task.label_ids(task.dev))

    trained = [parameter for group in model.groups().values() for parameter in group]
    steps = recipe.epochs * -(-len(rows) // recipe.batch_size)
    optimizer = make_optimizer(trained, recipe)
    schedule = make_schedule(optimizer, recipe, steps)
    draw = random.Random(recipe.seed)
    best, best_score, step = _copies(trained), -1.0, 0

    with ExitStack() as stack:
        stack.enter_context(model.packing())
        stack.enter_context(cheap_dropout(model))
        for epoch in range(1, recipe.epochs + 1):
            model.train()
            for batch_rows in _batches(model, rows, recipe.batch_size, draw):
                began = time.perf_counter()
                batch = model.collate(*rows.take(batch_rows))
                loss = model.head.loss(model(batch), targets[batch_rows], batch.lengths)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(trained, recipe.clip)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
                step += 1
                pace = len(batch_rows) / (time.perf_counter() - began)
                yield Step(step, steps, loss.item(), pace)
            score = accuracy(model, dev, dev_targets)
            if score > best_score:
                best, best_score = _copies(trained), score
            yield Epoch(epoch, recipe.epochs, score, score == best_score)
    with torch.no_grad():
        for parameter, value in zip(trained, best, strict=True):
            parameter.copy_(value)
    model.eval()


def _batches(model: TaskModel, rows: Encoded, size: int, draw: random.Random) -> list[list[int]]:
    if model.sites.packs:
        return shuffled(len(rows), size, draw)
    return length_grouped([len(ids) for ids in rows.ids], size, draw)


def _copies(parameters: list[torch.nn.Parameter]) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in parameters]
