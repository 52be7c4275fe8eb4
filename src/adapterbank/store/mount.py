"""A package put on its base: the task's model as it was learnt."""

from __future__ import annotations

from dataclasses import replace

import torch

from adapterbank.errors import WrongBase
from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import Encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.store.manifest import Manifest
from adapterbank.store.package import Package


def method_of(manifest: Manifest) -> Method:
    """How the task was learnt."""
    record = manifest.method
    return Method(record.name, manifest.adapter or AdapterConfig(), record.top_k)


def mount(encoder: Encoder, package: Package) -> TaskModel:
    """The task's model. The encoder is lent, until the model releases it."""
    manifest = package.manifest
    if manifest.base.fingerprint != encoder.fingerprint:
        raise WrongBase(
            f"Task {manifest.task!r} was learnt on {manifest.base.name} "
            f"({manifest.base.fingerprint}), and this base is {encoder.name} "
            f"({encoder.fingerprint}).",
            "A package fits its own base alone.",
        )
    method = method_of(manifest)
    # The start is overwritten at once: drawing it would only cost time and random numbers.
    method = replace(method, adapter=replace(method.adapter, init_std=0.0))
    with torch.random.fork_rng(devices=[]):
        model = TaskModel(
            encoder.pooled(manifest.pooling), manifest.kind, max(1, len(manifest.labels)), method
        )
    try:
        model.load_tensors(package.tensors)
    except BaseException:
        model.release()
        raise
    return model
