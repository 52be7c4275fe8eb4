"""The contrast: one encoder fine-tuned whole, task after task, each with a head of its own.

Every task starts from the weights that the one before it left. Nothing of it goes into the bank.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from adapterbank.errors import TrainingDiverged
from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.streams.state import write_whole
from adapterbank.tasks.task import Task
from adapterbank.training.checkpoint import Checkpoint
from adapterbank.training.evaluate import logits_of, predictions_of, scores_of
from adapterbank.training.judge import dev_scores, judge
from adapterbank.training.loop import Epoch, Run, Step
from adapterbank.training.recipe import Recipe, make_recipe
from adapterbank.training.rows import prepare
from adapterbank.training.start import seeded_model

# What the shared encoder has in common with the task's own training; its rate is its own.
SAME = (
    "epochs", "max_steps", "batch_size", "accumulate", "max_length", "patience", "checkpointing",
    "products",
)  # fmt: skip
HEAD = "head."


class SharedEncoder:
    """The weights after the last task, and every task's head, in one file."""

    def __init__(self, encoder: Encoder, file: Path) -> None:
        self.encoder, self.file = encoder, file
        self.body: dict[str, Tensor] = {}
        self.heads: dict[int, dict[str, Tensor]] = {}
        self.thresholds: dict[int, float | None] = {}
        if file.is_file():
            self._load()

    def recipe_for(self, task: Task, recipe: Mapping[str, Any], number: int) -> Recipe:
        """The default recipe of full fine-tuning, for as long as the task's own training was.

        A seed of its own for each arrival: with one for all, heads of the same shape would start
        as the same numbers.
        """
        same = {name: recipe[name] for name in SAME if name in recipe}
        seed = int(recipe["seed"]) + number - 1
        rows, units = len(task.train), self.encoder.units
        return make_recipe("default", "full", rows, task.kind, units=units, **same, seed=seed)

    def learn(self, number: int, task: Task, recipe: Recipe) -> Iterator[Step | Epoch]:
        """Fine-tune on a task, and keep what came of it. Goes on where it was stopped."""
        train, dev = (
            prepare(self.encoder, task, rows, recipe.max_length) for rows in (task.train, task.dev)
        )
        place = self._run(number)
        with seeded_model(self.encoder, task, Method("full"), recipe) as model:
            model.load_tensors(model.tensors() | self.body)
            run = Run(model, train, recipe, lambda: dev_scores(model, task, dev), task.metric)
            place.restore(run)
            try:
                for event in run.events():
                    place.save_if_due(run)
                    yield event
            except TrainingDiverged:
                place.remove()
                raise
            self.thresholds[number] = judge(model, replace(task, test=()), dev, dev).threshold
            self._take(number, model)
        self._save()
        place.remove()

    def score(self, number: int, task: Task, max_length: int, metric: str) -> float:
        """What the encoder as it is now reaches on a task's held-out rows, with the task's head."""
        rows = prepare(self.encoder, task, task.test, max_length)
        with TaskModel(self.encoder, task.kind, len(task.labels), Method("full")) as model:
            model.load_tensors(self.body | self.heads[number])
            logits = logits_of(model, rows)
        answers = predictions_of(task, rows, logits, threshold=self.thresholds[number])
        return scores_of(task, task.test, answers)[metric]

    def _run(self, number: int) -> Checkpoint:
        """Where a task's training keeps its state meanwhile."""
        return Checkpoint(self.file.with_name(f"shared-{number:04}.run.safetensors"))

    def _take(self, number: int, model: TaskModel) -> None:
        tensors = {name: tensor.cpu().clone() for name, tensor in model.tensors().items()}
        self.heads[number] = {n: t for n, t in tensors.items() if n.startswith(HEAD)}
        self.body = {n: t for n, t in tensors.items() if not n.startswith(HEAD)}

    def _save(self) -> None:
        tensors = {f"body/{name}": tensor for name, tensor in self.body.items()}
        for number, head in self.heads.items():
            tensors |= {f"{number}/{name}": tensor for name, tensor in head.items()}
        write_whole(self.file, save(tensors, {"thresholds": json.dumps(self.thresholds)}))

    def _load(self) -> None:
        with safe_open(self.file, "pt") as file:
            thresholds = json.loads(file.metadata()["thresholds"])
            for name in file.keys():  # noqa: SIM118 - it is no dict
                owner, _, own = name.partition("/")
                if owner == "body":
                    self.body[own] = file.get_tensor(name)
                else:
                    self.heads.setdefault(int(owner), {})[own] = file.get_tensor(name)
        self.thresholds = {int(number): value for number, value in thresholds.items()}
        for number in self.heads:  # one that was killed just before it removed it
            self._run(number).remove()
