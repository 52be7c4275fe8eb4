"""A task that a tiny random encoder can learn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.task import Example, Task
from adapterbank.training.evaluate import logits_of, predictions_of, scores_of
from adapterbank.training.loop import Run
from adapterbank.training.recipe import Recipe
from adapterbank.training.rows import prepare
from adapterbank.training.start import seeded_model

GOOD, BAD, THINGS = ("good", "fine", "great"), ("bad", "poor", "awful"), ("film", "book", "meal")
EXAMPLES = tuple(
    Example(f"the {thing} was {word}" + " it was" * extra, label)
    for label, words in (("good", GOOD), ("bad", BAD))
    for word in words
    for thing in THINGS
    for extra in range(3)
)
TASK = Task("toy", ("bad", "good"), EXAMPLES, EXAMPLES[::4], EXAMPLES[1::4])
STARS = tuple(
    example._replace(label=4000.0 + 1000.0 * (example.label == "good")) for example in EXAMPLES
)
NUMBERS = Task("stars", (), STARS, STARS[::4], STARS[1::4], kind="regression")
TAGS = tuple(
    example._replace(
        label=("film",) * ("film" in example.text) + ("liked",) * (example.label == "good")
    )
    for example in EXAMPLES
)
TAGGED = Task("tags", ("film", "liked"), TAGS, TAGS[::4], TAGS[1::4], kind="multi-label")


@contextmanager
def started(
    encoder: Encoder, recipe: Recipe, method: Method | None = None, task: Task = TASK
) -> Iterator[tuple[TaskModel, Run]]:
    """A model at its start with the run that trains it."""
    with seeded_model(encoder, task, method or Method(), recipe) as model:
        dev = prepare(encoder, task, task.dev, 64)

        def score() -> dict[str, float]:
            return scores_of(task, task.dev, predictions_of(task, dev, logits_of(model, dev)))

        rows = prepare(encoder, task, task.train, 64)
        yield model, Run(model, rows, recipe, score, task.metric)
