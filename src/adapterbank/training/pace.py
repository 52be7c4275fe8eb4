"""How long a run will take, from a few batches timed on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from adapterbank.tasks.batches import Encoded
from adapterbank.training.loop import Run
from adapterbank.training.recipe import Recipe

TRIES = 4  # batches timed; the first is warm-up
MOST_EPOCHS = 30  # a longer time than this asks for would only overfit


@dataclass(frozen=True)
class Pace:
    """Seconds a token."""

    train: float
    read: float
    """Forward only."""

    def training(self, train: Encoded, dev: Encoded, epochs: float) -> float:
        """Seconds of so many epochs, each scored on dev."""
        return epochs * (self.train * len(train.ids) + self.reading(dev))

    def reading(self, rows: Encoded) -> float:
        """Seconds to read rows once."""
        return self.read * len(rows.ids)


def measure_pace(run: Run) -> Pace:
    """Time a few of the run's own batches, and leave the run as it was."""
    before = run.copies()
    batches = run.batches(0)[:TRIES]
    with run.ready():
        run.model.train()
        times = []
        for batch in batches:
            began = time.perf_counter()
            run.backward(batch)
            times.append((time.perf_counter() - began) / _tokens(run, batch))
            run.optimizer.zero_grad()
    began = time.perf_counter()
    run.model.logits(*run.rows.encoded.take(batches[-1]))
    read = (time.perf_counter() - began) / _tokens(run, batches[-1])
    run.model.load_tensors(before)  # adapters that normalise over batches have seen these
    settled = times[1:] or times
    return Pace(sum(settled) / len(settled), read)


def fit_to_time(recipe: Recipe, pace: Pace, train: Encoded, dev: Encoded, seconds: float) -> Recipe:
    """The recipe with as many epochs as fit into the time; part of one if not even one does."""
    one = pace.training(train, dev, 1)
    if seconds >= one:
        return replace(recipe, epochs=min(MOST_EPOCHS, int(seconds / one)))
    share = max(seconds / 2, seconds - pace.reading(dev)) / (one - pace.reading(dev))
    steps = int(share * len(train) / recipe.batch_size)
    return replace(recipe, epochs=1, max_steps=max(1, steps))


def _tokens(run: Run, batch: list[int]) -> int:
    return int(run.rows.encoded.lengths[batch].sum())
