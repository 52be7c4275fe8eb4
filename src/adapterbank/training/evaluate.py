"""Scores of a trained model."""

from __future__ import annotations

import torch
from torch import Tensor

from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.batches import Encoded, cut


@torch.inference_mode()
def logits_of(model: TaskModel, rows: Encoded, batch_size: int = 64) -> Tensor:
    """Logits of every row, in the order given: [rows, outputs].

    Rows run sorted by length, so a batch holds rows of about one length.
    """
    model.eval()
    order = sorted(range(len(rows)), key=lambda row: len(rows.ids[row]))
    with model.packing():
        parts = [model(model.collate(*rows.take(piece))) for piece in cut(order, batch_size)]
    places = torch.empty(len(order), dtype=torch.long)
    places[torch.tensor(order)] = torch.arange(len(order))
    return torch.cat(parts)[places]


def accuracy(model: TaskModel, rows: Encoded, targets: Tensor) -> float:
    """The share of rows whose most likely class is the right one."""
    return float((logits_of(model, rows).argmax(-1) == targets).float().mean())
