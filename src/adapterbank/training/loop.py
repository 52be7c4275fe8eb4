"""The training loop: an iterator of events whose state can be saved between any two of them.

It knows nothing of progress bars, logs or files: the caller looks at the events and does as it
likes. Selection is on dev: after the last event the model holds the weights of the best epoch.

Nothing random is carried from step to step. The order of an epoch's rows and the dropout of a step
follow from the seed and their number alone, so a run that goes on from saved state computes the
very same numbers as one that was never interrupted.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from adapterbank.errors import TrainingDiverged
from adapterbank.model.dropout import cheap_dropout
from adapterbank.model.products import fast_products, settled
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.batches import cut, length_grouped, shuffled
from adapterbank.tasks.metrics import LOWER_IS_BETTER
from adapterbank.training.heap import Heap
from adapterbank.training.optimizer import make_optimizer, set_rate
from adapterbank.training.recipe import Recipe
from adapterbank.training.rows import Rows
from adapterbank.training.team import team

Scores = dict[str, float]
SEEDS_APART = 1_000_003  # more than any run has steps, so that no two seeds share a step's dropout


@dataclass(frozen=True)
class Step:
    """One update."""

    step: int
    steps: int
    loss: float
    rows: int
    seconds: float


@dataclass(frozen=True)
class Epoch:
    """One pass over the data, scored on dev."""

    epoch: int
    epochs: int
    loss: float
    """Mean over the epoch's steps."""
    dev: Scores
    best: bool
    """Whether it is the best so far."""


class Run:
    """One training run of a model: `events()` drives it, `state()` and `restore()` carry it on."""

    def __init__(
        self,
        model: TaskModel,
        rows: Rows,
        recipe: Recipe,
        score: Callable[[], Scores],
        metric: str,
    ) -> None:
        """`score` gives the model's scores on dev, `metric` names the one that selects."""
        recipe = replace(recipe, products=settled(recipe.products, model.device))
        model.mixed = recipe.products == "bf16"
        self.model, self.rows, self.recipe = model, rows, recipe
        self.team, self.heap = team(), Heap()
        self.score, self.metric = score, metric
        self.trained = model.trained()
        self.optimizer = make_optimizer(self.trained.values(), recipe)
        self.step = 0
        self.losses: list[float] = []  # of this epoch
        self.history: list[Scores] = []
        self.best_epoch = 0
        self.best = self.copies()

    @property
    def steps_an_epoch(self) -> int:
        """Batches of one pass over the rows."""
        return -(-len(self.rows) // self.recipe.batch_size)

    @property
    def steps(self) -> int:
        """Of the whole run, unless it stops early."""
        every = self.recipe.epochs * self.steps_an_epoch
        return min(every, self.recipe.max_steps or every)

    @property
    def stopped(self) -> bool:
        """Whether all epochs are done and scored, or dev has not improved for too long."""
        epochs = -(-self.steps // self.steps_an_epoch)
        waited = len(self.history) - self.best_epoch
        return len(self.history) == epochs or 0 < self.recipe.patience <= waited

    def events(self) -> Iterator[Step | Epoch]:
        """Train to the end, from wherever the run stands."""
        with self.ready():
            while not self.stopped:
                batches = self.batches(len(self.history))
                passed = len(self.history) * self.steps_an_epoch
                for batch in batches[self.step - passed : self.steps - passed]:
                    yield self.update(batch)
                yield self._finish_epoch()
        self.model.load_tensors(self.best)
        self.model.head.fold()
        self.model.eval()

    def update(self, batch: list[int]) -> Step:
        """One step on these rows."""
        began = time.perf_counter()
        self.model.train()
        # Processes that train together have dropout of their own.
        torch.manual_seed(
            self.recipe.seed * SEEDS_APART + self.step * self.team.size + self.team.rank
        )
        loss = self.backward(self.team.share(batch), of=len(batch))
        loss = self.team.add_up(self.trained.values(), loss)
        if not math.isfinite(loss):
            raise TrainingDiverged(
                f"The loss is {loss} at step {self.step + 1}.",
                f"Take a smaller learning rate than {self.recipe.learning_rate:g} (--lr).",
            )
        torch.nn.utils.clip_grad_norm_(self.trained.values(), self.recipe.clip)
        set_rate(self.optimizer, self.recipe, self.step, self.steps)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        self.losses.append(loss)
        return Step(self.step, self.steps, loss, len(batch), time.perf_counter() - began)

    def backward(self, batch: Sequence[int], rows: Rows | None = None, of: int = 0) -> float:
        """Add the gradients of a batch, in as many pieces as asked; its mean loss. Of a batch of
        `of` rows that others have a share in, this share's part of both."""
        model, rows, total = self.model, rows or self.rows, 0.0
        for piece in cut(batch, -(-len(batch) // self.recipe.accumulate) or 1):
            inputs = rows.batch(model, piece)
            self.heap.expect(int(inputs.lengths.sum()))
            targets = rows.targets[piece].to(model.device)
            with model.autocast():
                loss = model.head.loss(model(inputs), targets, inputs.lengths)
            share = loss * (len(piece) / (of or len(batch)))
            share.backward()
            total += share.item()
        return total

    def _finish_epoch(self) -> Epoch:
        scores = self.score()
        self.history.append(scores)
        best = len(self.history) == 1 or self._rank(-1) >= self._rank(self.best_epoch - 1)
        if best:  # of equals the later, which has seen more
            self.best, self.best_epoch = self.copies(), len(self.history)
        loss = sum(self.losses) / max(len(self.losses), 1)
        self.losses = []
        return Epoch(len(self.history), self.recipe.epochs, loss, scores, best)

    def _rank(self, epoch: int) -> float:
        score = self.history[epoch][self.metric]
        return -score if self.metric in LOWER_IS_BETTER else score

    def batches(self, epoch: int) -> list[list[int]]:
        """The rows of each batch of an epoch (from 0)."""
        draw = random.Random(f"{self.recipe.seed} {epoch}")
        batches = shuffled if self.model.sites.packs else length_grouped
        return batches(self.rows.encoded.lengths.tolist(), self.recipe.batch_size, draw)

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Within this block, batches run as the recipe says."""
        with ExitStack() as stack:
            stack.enter_context(self.model.packing())
            stack.enter_context(cheap_dropout(self.model))
            base, own = self.model.base, self.model.attachment
            stack.enter_context(fast_products(base, self.recipe.products, apart=own))
            if self.recipe.checkpointing:
                stack.enter_context(self.model.recomputing())
            yield

    def copies(self) -> dict[str, Tensor]:
        """The model's tensors as they are now."""
        return {name: tensor.clone() for name, tensor in self.model.tensors().items()}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the run needs to go on from here, as tensors and as plain values."""
        tensors = {f"now.{name}": tensor for name, tensor in self.model.tensors().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        for name, parameter in self.trained.items():
            adam = self.optimizer.state[parameter]
            tensors |= {f"mean.{name}": adam["exp_avg"], f"square.{name}": adam["exp_avg_sq"]}
        facts = {
            "epochs": self.recipe.epochs,
            "max_steps": self.recipe.max_steps,
            "step": self.step,
            "losses": self.losses,
            "history": self.history,
            "best_epoch": self.best_epoch,
        }
        return tensors, facts

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Go on from a saved state of the same run, for as long as it was meant to be."""
        length = {name: facts[name] for name in ("epochs", "max_steps")}
        self.recipe = replace(self.recipe, **length)
        self.model.load_tensors(_under("now.", tensors))
        self.best = _under("best.", tensors)
        means, squares = _under("mean.", tensors), _under("square.", tensors)
        for name, parameter in self.trained.items():
            adam = self.optimizer.state[parameter]
            adam["exp_avg"].copy_(means[name])
            adam["exp_avg_sq"].copy_(squares[name])
            adam["step"] += facts["step"]
        self.step, self.losses = facts["step"], list(facts["losses"])
        self.history, self.best_epoch = list(facts["history"]), facts["best_epoch"]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}
