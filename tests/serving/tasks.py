"""Tasks of every form on a tiny base, made of random numbers: nothing is trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.store.entry import Entry
from adapterbank.store.manifest import BaseRecord, Manifest, MethodRecord
from adapterbank.store.store import Store
from store.samples import manifest

LABELS = {"classification": ("no", "perhaps", "yes"), "multi-label": ("a", "b")}


def random_task(
    encoder: Encoder,
    seed: int,
    *,
    kind: Any = "classification",
    method: Any = "adapters",
    pair: bool = False,
    labels: tuple[str, ...] | None = None,
    **adapter: Any,
) -> tuple[Manifest, dict[str, torch.Tensor]]:
    """A package's manifest and tensors."""
    labels = LABELS.get(kind, ()) if labels is None else labels
    config = AdapterConfig(**{"size": 8, **adapter})
    torch.manual_seed(seed)
    with TaskModel(encoder, kind, max(1, len(labels)), Method(method, config, 2)) as model:
        tensors = {
            name: tensor.abs() + 0.5 if name.endswith("running_var") else tensor
            for name, tensor in (
                (name, tensor + 0.2 * torch.randn_like(tensor))
                for name, tensor in model.tensors().items()
            )
        }
    made = replace(
        manifest(),
        kind=kind,
        labels=labels,
        pair=pair,
        positive="",
        method=MethodRecord(method, 2),
        adapter=config if method == "adapters" else None,
        pooling=encoder.pooling,
        max_length=48,
        base=BaseRecord(encoder.name, encoder.fingerprint),
    )
    return made, tensors


def publish(store: Store, encoder: Encoder, name: str, seed: int, **form: Any) -> Entry:
    """Put such a task into a store."""
    made, tensors = random_task(encoder, seed, **form)
    return store.publish(name, made, tensors)
