"""How long a run will take, from a few batches timed on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from adapterbank.tasks.batches import Encoded
from adapterbank.training.evaluate import logits_of
from adapterbank.training.loop import Run
from adapterbank.training.recipe import Recipe
from adapterbank.training.rows import Rows

TRIES = 4  # batches timed; the first is warm-up
MOST_EPOCHS = 30  # a longer time than this asks for would only overfit


@dataclass(frozen=True)
class Pace:
    """Seconds a token."""

    train: float
    read: float
    """Forward only."""
    remember: float = 0.0
    """Once, through the frozen prefix; 0 where there is none."""

    def training(self, train: Encoded, dev: Encoded, epochs: float) -> float:
        """Seconds of so many epochs, each scored on dev."""
        once = self.remember * (len(train.ids) + len(dev.ids))
        return once + epochs * (self.train * len(train.ids) + self.reading(dev))

    def reading(self, rows: Encoded) -> float:
        """Seconds to read rows once."""
        return self.read * len(rows.ids)


def measure_pace(run: Run) -> Pace:
    """Time a few of the run's own batches, and leave the run as it was."""
    before = run.copies()
    batches = run.batches(0)[:TRIES]
    few = run.rows.few([row for batch in batches for row in batch])
    tokens = len(few.encoded.ids)
    began = time.perf_counter()
    few = few.remembered(run.model)
    remember = (time.perf_counter() - began) / tokens if few.known is not None else 0.0
    times, start = [], 0
    with run.ready():
        run.model.train()
        for batch in batches:
            rows = range(start, start + len(batch))
            began = time.perf_counter()
            run.backward(rows, few)
            times.append((time.perf_counter() - began) / _tokens(few, rows))
            run.optimizer.zero_grad()
            start += len(batch)
    began = time.perf_counter()
    logits_of(run.model, few)
    read = (time.perf_counter() - began) / tokens
    run.model.load_tensors(before)  # adapters that normalise over batches have seen these
    settled = times[1:] or times
    return Pace(sum(settled) / len(settled), read, remember)


def fit_to_time(recipe: Recipe, pace: Pace, train: Encoded, dev: Encoded, seconds: float) -> Recipe:
    """The recipe with as many epochs as fit into the time; part of one if not even one does."""
    once = pace.training(train, dev, 0)
    one, seconds = pace.training(train, dev, 1) - once, seconds - once
    if seconds >= one:
        return replace(recipe, epochs=min(MOST_EPOCHS, int(seconds / one)))
    share = max(seconds / 2, seconds - pace.reading(dev)) / (one - pace.reading(dev))
    steps = int(share * len(train) / recipe.batch_size)
    return replace(recipe, epochs=1, max_steps=max(1, steps))


def _tokens(rows: Rows, chosen: range) -> int:
    return int(rows.encoded.lengths[chosen.start : chosen.stop].sum())
