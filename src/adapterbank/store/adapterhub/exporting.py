"""A task as a folder that AdapterHub can load."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from adapterbank.errors import PackageError
from adapterbank.model.config import AdapterConfig
from adapterbank.store.adapterhub.heads import head_to_hub
from adapterbank.store.adapterhub.places import (
    ADAPTER,
    CONFIG,
    HEAD,
    HEAD_CONFIG,
    LAYER_NORMS,
    BaseFacts,
    adapter_names,
    find_architecture,
    head_names,
)
from adapterbank.store.adapterhub.reading import shown
from adapterbank.store.adapterhub.settings import settings_to_hub
from adapterbank.store.disk import write_folder
from adapterbank.store.manifest import Manifest
from adapterbank.store.package import Package
from adapterbank.store.weights import encode_weights

if TYPE_CHECKING:
    from torch import Tensor

VERSION = "adapters.1.3.0"  # whose form is written


def export_adapterhub(
    package: Package,
    facts: BaseFacts,
    folder: Path,
    *,
    name: str,
    layer_norms_beside: bool = False,
) -> list[str]:
    """Write a task as an AdapterHub folder, whole or not at all; notes on what crossed."""
    manifest, tensors = package.manifest, package.tensors
    config = _exportable(manifest, facts, layer_norms_beside)
    _check_hub_name(name)
    names = adapter_names(name, config, facts)
    files = {
        CONFIG: _describe(settings_to_hub(config, facts), facts, name),
        ADAPTER: _encode({theirs: tensors[ours] for theirs, ours in names.items()}),
    }
    head = head_to_hub(manifest)
    if head is not None:
        files[HEAD_CONFIG] = _describe(head, facts, name)
        files[HEAD] = _encode({theirs: tensors[ours] for theirs, ours in head_names(name).items()})
    if config.train_layer_norms:
        norms = {key: tensor for key, tensor in tensors.items() if ".norm." in key}
        files[LAYER_NORMS] = _encode(norms)
    _write(folder, files)
    return _export_notes(manifest, config, crossed=head is not None)


def _exportable(manifest: Manifest, facts: BaseFacts, beside: bool) -> AdapterConfig:
    """The adapters of a task, if they can cross."""
    own = "Export the task in AdapterBank's own form."
    if manifest.base.fingerprint != facts.fingerprint:
        raise PackageError(
            f"Task {manifest.task!r} was learnt on {manifest.base.name} "
            f"({manifest.base.fingerprint[:12]}), and this base is {facts.name} "
            f"({facts.fingerprint[:12]}).",
            "Give the base that the task fits.",
        )
    if manifest.adapter is None:
        raise PackageError(
            f"Task {manifest.task!r} was trained by the method {manifest.method.name}, "
            "and AdapterHub holds adapters.",
            own,
        )
    if manifest.adapter.train_layer_norms and not beside:
        raise PackageError(
            f"Task {manifest.task!r} has trained LayerNorms, which AdapterHub cannot hold.",
            f"{own} Or train it with frozen LayerNorms (train_layer_norms=False in Python); or "
            "write them with --with-layer-norms into a file beside, which AdapterHub won't read: "
            "its answers will differ.",
        )
    return manifest.adapter


def _check_hub_name(name: str) -> None:
    from torch.nn import ModuleDict

    # AdapterHub keeps adapters by name in such a module, and its own words are taken.
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name) or hasattr(ModuleDict(), name):
        raise PackageError(
            f"{shown(name)} cannot be an adapter's name in AdapterHub.",
            "Use letters, digits, '_' and '-', and none of PyTorch's own words such as 'type'.",
        )


def _describe(settings: Mapping[str, object], facts: BaseFacts, name: str) -> bytes:
    """The bytes of a configuration file."""
    hub_id = re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", facts.name)
    whole = {
        "config": settings,
        "hidden_size": facts.width,
        "model_class": find_architecture(facts.model_type).model_class,
        # Of a folder its last part: where it was is nobody's business.
        "model_name": facts.name if hub_id else re.split(r"[/\\]", facts.name.rstrip("/\\"))[-1],
        "model_type": facts.model_type,
        "name": name,
        "version": VERSION,
    }
    return json.dumps(whole, indent=2, sort_keys=True).encode()


def _encode(tensors: Mapping[str, Tensor]) -> bytes:
    arrays = {
        name: tensor.detach().cpu().float().contiguous().numpy() for name, tensor in tensors.items()
    }
    return encode_weights(arrays, "fp32")


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    if os.path.lexists(folder):
        raise PackageError(
            f"There is already something called {folder.name!r}.", "Choose another folder."
        )
    try:
        write_folder(folder, files)
    except OSError as error:
        raise PackageError(
            f"The folder {folder.name!r} could not be written: {error.strerror or error}.",
            "Nothing was changed. Free some space, or choose a folder that can be written to.",
        ) from error


def _export_notes(manifest: Manifest, config: AdapterConfig, *, crossed: bool) -> list[str]:
    notes = [f"The adapters{' and the head' if crossed else ''} crossed number for number."]
    if not crossed:
        notes.append(
            "The head did not cross: AdapterHub's heads read the pooler or the first token, and "
            "this one reads the mean. A new one has to be trained there."
        )
    if config.train_layer_norms:
        notes.append(
            f"The trained LayerNorms stand in {LAYER_NORMS}, which AdapterHub will not read: "
            "its answers differ from AdapterBank's."
            + " An import here takes them up again."
            * crossed  # none is taken up without a head
        )
    if manifest.temperature != 1.0:
        notes.append(
            f"The temperature {manifest.temperature:.4g} stays behind: the same answers, with "
            "other probabilities."
        )
    if manifest.threshold is not None:
        notes.append(
            f"The threshold {manifest.threshold:.4g} for giving no answer stays behind: AdapterHub "
            "has no place for it."
        )
    notes.append(
        "To load it: AutoAdapterModel.from_pretrained(BASE), then "
        "model.load_adapter(FOLDER, use_safetensors=True, set_active=True)."
    )
    return notes
