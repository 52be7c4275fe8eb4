"""The tasks bundled with the package, written for it: small, varied, ready to train.

| task      | what                                             | labels |
|-----------|--------------------------------------------------|--------|
| support   | which team should answer a customer's message     | 6      |
| reviews   | positive, negative or mixed                       | 3      |
| questions | what kind of answer a question asks for           | 6      |

Each has 300 rows to train on, 90 for dev and 90 for test.
"""

from __future__ import annotations

import csv
import io
from importlib import resources

from adapterbank.errors import DataError
from adapterbank.tasks.task import Example, Task

SAMPLES = ("questions", "support", "reviews")


def load_sample(name: str) -> Task:
    """A bundled task by name."""
    if name not in SAMPLES:
        raise DataError(f"There is no sample {name!r}.", f"Samples: {', '.join(SAMPLES)}.")
    train, dev, test = (_read(name, split) for split in ("train", "dev", "test"))
    labels = tuple(sorted({str(example.label) for example in train}))
    return Task(name, labels, train, dev, test)


def _read(name: str, split: str) -> tuple[Example, ...]:
    file = resources.files("adapterbank") / "samples" / name / f"{split}.csv"
    rows = csv.DictReader(io.StringIO(file.read_text("utf-8"), newline=""))
    return tuple(Example(row["text"], row["label"]) for row in rows)
