"""A small manifest and tensors that fit it, for tests that need a package and no model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from adapterbank.model.config import AdapterConfig
from adapterbank.store.manifest import (
    BaseRecord,
    DataRecord,
    Manifest,
    MethodRecord,
    ParameterRecord,
)

D, M = 4, 2
BASE = BaseRecord("minilm", "b" * 64)


def manifest(**changes: Any) -> Manifest:
    """A manifest with anything in it changed."""
    made = Manifest(
        task="shop/spam",
        created="2026-01-31T12:00:00Z",
        kind="classification",
        labels=("no", "yes"),
        pair=False,
        metric="accuracy",
        positive="yes",
        dev={"accuracy": 0.9375, "f1": 1},
        test={"accuracy": 1 / 3},
        columns={"text": "message", "label": "ist Müll?"},
        method=MethodRecord("adapters"),
        adapter=AdapterConfig(size=M),
        pooling="mean",
        max_length=128,
        recipe={"learning_rate": 1e-3, "epochs": 3, "schedule": [1, 2], "seed": None},
        data=DataRecord({"train": 10, "dev": 4}, "a" * 64),
        base=BASE,
        parameters=ParameterRecord(94, 0.5, 0.75),
        baselines={"ngrams": {"accuracy": 0.5}},
        software={"torch": "2.13.0"},
    )
    return replace(made, **changes)


def tensors(layers: int = 2, seed: int = 0) -> dict[str, Tensor]:
    """What that manifest implies."""
    draw = torch.Generator().manual_seed(seed)
    shapes: dict[str, tuple[int, ...]] = {"head.weight": (2, D), "head.bias": (2,)}
    for layer in range(layers):
        for site in ("attention", "output"):
            at = f"layer.{layer}.{site}"
            shapes |= {
                f"{at}.down.weight": (M, D),
                f"{at}.down.bias": (M,),
                f"{at}.up.weight": (D, M),
                f"{at}.up.bias": (D,),
                f"{at}.norm.weight": (D,),
                f"{at}.norm.bias": (D,),
            }
    shapes |= {"embeddings.norm.weight": (D,), "embeddings.norm.bias": (D,)}
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
