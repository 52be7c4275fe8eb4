"""Examples made ready for a model: tokenised once, with targets in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from adapterbank.model.encoder import Encoder
from adapterbank.model.packing import Batch
from adapterbank.model.prefix import Known
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.batches import Encoded, encode
from adapterbank.tasks.spans import Windows, make_windows
from adapterbank.tasks.task import Example, Task


@dataclass(frozen=True)
class Rows:
    """Token rows with their targets. A long context of a span task becomes several rows."""

    examples: Sequence[Example]
    encoded: Encoded
    targets: Tensor
    windows: Windows | None = None
    known: Known | None = None
    """What the model's frozen prefix makes of them, once it was computed."""

    def __len__(self) -> int:
        return len(self.encoded)

    def remembered(self, model: TaskModel) -> Rows:
        """The same rows with what the frozen prefix makes of them, if there is one."""
        return replace(self, known=model.remember(*self.encoded.take()))

    def few(self, rows: Sequence[int]) -> Rows:
        """Some of the rows as the model sees them, without their examples."""
        return Rows((), Encoded.of(*self.encoded.take(rows)), self.targets[list(rows)])

    def batch(self, model: TaskModel, rows: Sequence[int]) -> Batch:
        """Some of the rows, ready for the model."""
        known = None if self.known is None else self.known.take(rows)
        return model.collate(*self.encoded.take(rows), known)

    def take(self, rows: Sequence[int]) -> Rows:
        """Some of the rows, of a task without windows."""
        encoded = Encoded.of(*self.encoded.take(rows))
        return Rows([self.examples[i] for i in rows], encoded, self.targets[list(rows)])


def prepare(encoder: Encoder, task: Task, examples: Sequence[Example], max_length: int) -> Rows:
    """Tokenise labelled examples and number their labels."""
    limit = min(max_length, encoder.max_length)
    if task.kind == "span":
        windows = make_windows(encoder.tokenizer, examples, limit)
        return Rows(examples, windows.encoded, torch.from_numpy(windows.targets), windows)
    return Rows(examples, encode(encoder.tokenizer, examples, limit), targets_of(task, examples))


def targets_of(task: Task, examples: Sequence[Example]) -> Tensor:
    """What the head is to give: class ids [rows], 0/1 [rows, labels] or numbers [rows]."""
    match task.kind:
        case "multi-label":
            places = {label: i for i, label in enumerate(task.labels)}
            table = np.zeros((len(examples), len(task.labels)), np.float32)
            for row, example in zip(table, examples, strict=True):
                row[[places[name] for name in example.names]] = 1
            return torch.from_numpy(table)
        case "regression":
            return torch.tensor([example.number for example in examples])
        case _:
            return torch.tensor(task.label_ids(examples), dtype=torch.long)
