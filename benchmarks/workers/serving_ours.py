"""Rows of many tasks in one pass: `serving_ours.py KIND BASE`, where KIND is `onnx` or `torch`, or
for the base alone in ONNX Runtime, exported by torch, `bare` (as it comes: every operation on all
cores) or `bare-cut` (a part of the batch on each core). Heads are left out."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from protocol import serve, token_rows

from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.serving.passes import Passes
from adapterbank.serving.rows import Row

SIZE, TASKS = 64, 32
kind, base = sys.argv[1:]
encoder = load_encoder(base)


def tensors(seed: int) -> dict[str, np.ndarray]:
    """A task of random numbers: what they are makes no difference to the time."""
    draw = np.random.default_rng(seed)
    d = encoder.width
    found: dict[str, np.ndarray] = {}
    for layer in range(encoder.layers):
        for site in ("attention", "output"):
            at = f"layer.{layer}.{site}"
            shapes = {"down.weight": (SIZE, d), "down.bias": (SIZE,), "up.weight": (d, SIZE)}
            shapes |= {"up.bias": (d,), "norm.weight": (d,), "norm.bias": (d,)}
            found |= {f"{at}.{n}": 0.01 * draw.standard_normal(s) for n, s in shapes.items()}
    found |= {f"embeddings.norm.{leaf}": draw.standard_normal(d) for leaf in ("weight", "bias")}
    return {name: values.astype(np.float32) for name, values in found.items()}


def export_plain(encoder: Encoder, file: Path) -> None:
    """The base as torch exports it."""
    import torch

    ids = torch.ones((2, 8), dtype=torch.long)
    axes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("length", min=2, max=512)}
    torch.onnx.export(
        encoder.model,
        (),
        file,
        kwargs={"input_ids": ids, "attention_mask": ids},
        dynamic_shapes={"input_ids": axes, "attention_mask": axes},
        dynamo=True,
        verbose=False,
    )


if kind.startswith("bare"):
    import onnxruntime

    cores = len(os.sched_getaffinity(0))
    parts = cores if kind == "bare-cut" else 1
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores // parts
    with tempfile.TemporaryDirectory() as folder:
        export_plain(encoder, Path(folder) / "base.onnx")
        session = onnxruntime.InferenceSession(Path(folder) / "base.onnx", options)
    pool = ThreadPoolExecutor(parts)

    def pad(rows: list[list[int]]) -> dict[str, np.ndarray]:
        """A padded batch."""
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        return {"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64)}

    def prepare(request: dict[str, Any]) -> Any:
        """Equal parts of the rows."""
        rows = token_rows(request["lengths"])
        each = -(-len(rows) // parts)
        return [pad(rows[i : i + each]) for i in range(0, len(rows), each)]

    def step(feed: Any) -> None:
        """One pass."""
        list(pool.map(lambda part: session.run(None, part), feed))
else:
    passes = Passes(encoder.fingerprint, lambda: encoder, memory=2**30, onnx=kind == "onnx")
    runs_on: Any = passes.onnx if kind == "onnx" else passes.torch
    seats = [runs_on.seat_tensors(AdapterConfig(SIZE), tensors(i)) for i in range(TASKS)]

    def prepare(request: dict[str, Any]) -> Any:
        """Rows, those of a task not together."""
        rows = [np.array(row, np.int32) for row in token_rows(request["lengths"])]
        return [
            Row(row, np.zeros_like(row), seats[i % request["tasks"]], "mean")
            for i, row in enumerate(rows)
        ]

    def step(feed: Any) -> None:
        """One pass."""
        runs_on.run(feed)


serve(prepare, step)
