"""AdapterBank's training step, as its own loop runs it: adapters of size 64, `ours.py BASE
PRODUCTS`, the latter fp32 or bf16."""

from __future__ import annotations

import sys
from typing import Any

import torch
from protocol import serve, token_rows

from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import load_encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.batches import Encoded
from adapterbank.training.loop import Run
from adapterbank.training.recipe import Recipe
from adapterbank.training.rows import Rows

torch.manual_seed(0)
method = Method("adapters", AdapterConfig(size=64))
model = TaskModel(load_encoder(sys.argv[1]), "classification", 2, method)
rows = Rows((), Encoded.of([[0]], [[0]]), torch.tensor([0]))
products: Any = sys.argv[2]
recipe = Recipe(1e-5, epochs=1_000_000, products=products)
run = Run(model, rows, recipe, score=dict, metric="accuracy")


def prepare(lengths: list[int]) -> list[int]:
    """The batch is all the rows there are."""
    rows = token_rows(lengths)
    types = [[0] * len(row) for row in rows]
    run.rows = Rows((), Encoded.of(rows, types), torch.arange(len(rows)) % 2)
    return list(range(len(rows)))


with run.ready():
    serve(prepare, run.update)
