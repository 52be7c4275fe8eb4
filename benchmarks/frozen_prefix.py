"""What remembering the frozen prefix saves, from the second epoch on.

    python benchmarks/frozen_prefix.py [--task sst2|rte] [--rows 256] [--rounds 4]

Epochs over the same rows take turns: adapters in every layer, adapters in the upper half, the upper
half fine-tuned, and the head alone, each with and without what its frozen layers make of the rows
remembered. A case's time is its shortest epoch. Results go to results/frozen_prefix.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import torch

from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.model.methods import Method, make_method
from adapterbank.model.task_model import TaskModel
from adapterbank.tasks.batches import Encoded
from adapterbank.training.loop import Run
from adapterbank.training.recipe import Recipe
from adapterbank.training.rows import Rows
from lengths import lengths_of

RESULTS = Path(__file__).parent / "results" / "frozen_prefix.json"
EVERY, HALF, TOP, HEAD = "adapters", "adapters, upper half", "top-k, upper half", "head"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=["sst2", "rte"], default="rte")
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    lengths = lengths_of(options.task)[: options.rows]
    ids = [torch.randint(1000, 30000, (length,)).tolist() for length in lengths]  # ordinary words
    targets = torch.arange(len(ids)) % 2
    rows = Rows((), Encoded.of(ids, [[0] * len(row) for row in ids]), targets)
    best = measure(load_encoder(), rows, options.rounds)
    report = {
        **{f"{name}, seconds an epoch": round(seconds, 3) for name, seconds in best.items()},
        **{
            f"{name}: remembered to not": round(best[name] / best[f"{name}, remembered"], 2)
            for name in (HALF, TOP, HEAD)
        },
        f"{HALF}: remembered to every layer": round(best[EVERY] / best[f"{HALF}, remembered"], 2),
    }
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def measure(encoder: Encoder, rows: Rows, rounds: int) -> dict[str, float]:
    """The shortest epoch of each case."""
    layers, half = encoder.layers, encoder.layers // 2
    methods = {
        EVERY: make_method("adapters", layers, size=64),
        HALF: make_method("adapters", layers, size=64, first_layer=half),
        TOP: make_method("top-k", layers, top_k=half),
        HEAD: make_method("head", layers),
    }
    best: dict[str, float] = defaultdict(lambda: float("inf"))
    for _ in range(rounds):
        for name, method in methods.items():
            for label, seconds in epochs(encoder, rows, name, method):
                best[label] = min(best[label], seconds)
    return best


def epochs(encoder: Encoder, rows: Rows, name: str, method: Method) -> list[tuple[str, float]]:
    """An epoch without, and one with what is remembered."""
    with TaskModel(encoder, "classification", 2, method) as model:
        found = [(name, seconds_of(model, rows))]
        known = rows.remembered(model)
        if known.known is not None:
            found.append((f"{name}, remembered", seconds_of(model, known)))
    return found


def seconds_of(model: TaskModel, rows: Rows) -> float:
    """Of one epoch in batches of 32."""
    run = Run(model, rows, Recipe(1e-5, products="fp32"), score=dict, metric="accuracy")
    with run.ready():
        batches = run.batches(0)
        run.update(batches[0])  # warms up
        began = time.perf_counter()
        for batch in batches:
            run.update(batch)
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
