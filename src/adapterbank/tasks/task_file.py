"""A task as one file, exactly: for a process that learns it elsewhere.

The first line holds the task, each further one an example: its split, then its fields.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from adapterbank.errors import DataError
from adapterbank.tasks.task import Answer, Example, Task

SPLITS = ("train", "dev", "test")


def write_task(path: Path, task: Task) -> None:
    """Write a task; the file is there whole or not at all."""
    head = {
        name: getattr(task, name) for name in ("name", "labels", "kind", "metric", "positive")
    } | {"columns": task.columns}
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            print(json.dumps(head), file=file)
            for split in SPLITS:
                for example in getattr(task, split):
                    print(json.dumps([split, *example]), file=file)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_task(path: Path) -> Task:
    """The task that was written."""
    splits: dict[str, Any] = {split: [] for split in SPLITS}
    try:
        with path.open(encoding="utf-8") as file:
            head: dict[str, Any] = json.loads(next(file))
            for line in file:
                split, text, label, pair, id, answers = json.loads(line)
                label = tuple(label) if isinstance(label, list) else label
                found = tuple(Answer(*answer) for answer in answers)
                splits[split].append(Example(text, label, pair, id, found))
        head["labels"] = tuple(head["labels"])
        return Task(**head, **splits)
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise DataError(f"{path.name} is not a task that was written here: {error}.") from error
