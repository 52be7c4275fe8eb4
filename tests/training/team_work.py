"""What each process of `test_team.py` runs: a few steps without dropout, kept by the first."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from adapterbank.model.encoder import load_encoder
from adapterbank.model.methods import Method
from adapterbank.tasks.limit import limited
from adapterbank.tasks.samples import load_sample
from adapterbank.training.loop import Run
from adapterbank.training.recipe import Recipe
from adapterbank.training.rows import prepare
from adapterbank.training.start import seeded_model


def main(base: str, method: str, out: str) -> None:
    torch.set_num_threads(1)
    encoder = load_encoder(base)
    task = limited(load_sample("support"), 45, 20, 20)  # the last batch is an odd one
    recipe = Recipe(1e-2, epochs=2, batch_size=9, accumulate=2)
    train, dev = (prepare(encoder, task, rows, 64) for rows in (task.train, task.dev))
    with seeded_model(encoder, task, Method(method), recipe) as model:
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        run = Run(model, train, recipe, lambda: {"accuracy": float(len(dev))}, "accuracy")
        losses = [event.loss for event in run.events()]
        if run.team.first:
            tensors = {name: tensor.clone() for name, tensor in model.tensors().items()}
            save_file(tensors, f"{out}.safetensors")
            told = {"losses": losses, "processes": run.team.size}
            Path(f"{out}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
