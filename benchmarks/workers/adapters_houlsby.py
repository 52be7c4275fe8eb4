"""The `adapters` package's training step: its Houlsby preset at size 64, padded batches.

Runs in the peers' environment. `argv[1]` is the folder of the base.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from adapters import AutoAdapterModel, DoubleSeqBnConfig
from protocol import serve

torch.manual_seed(0)
model = AutoAdapterModel.from_pretrained(sys.argv[1])
model.add_adapter("task", config=DoubleSeqBnConfig(reduction_factor=model.config.hidden_size / 64))
model.add_classification_head("task", num_labels=2)
model.train_adapter("task")
model.train()
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=1e-4)


def prepare(rows: list[list[int]]) -> Any:
    """A batch padded to its longest row."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "token_type_ids": torch.zeros_like(ids),
        "labels": torch.arange(len(rows)) % 2,
    }


def step(batch: dict[str, torch.Tensor]) -> None:
    """Forward, backward, clip, update."""
    model(**batch).loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad()


serve(prepare, step)
