"""A task from an AdapterHub folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapterbank.errors import PackageError
from adapterbank.model.config import AdapterConfig
from adapterbank.store.adapterhub.heads import HeadForm, head_from_hub
from adapterbank.store.adapterhub.places import (
    ADAPTER,
    CONFIG,
    HEAD,
    HEAD_CONFIG,
    LAYER_NORMS,
    BaseFacts,
    adapted_layers,
    adapter_names,
    current_name,
    find_architecture,
    head_names,
)
from adapterbank.store.adapterhub.reading import (
    AGAIN,
    PICKLED,
    Matcher,
    read_object,
    read_tensors,
    shown,
)
from adapterbank.store.adapterhub.settings import settings_from_hub
from adapterbank.store.manifest import (
    BaseRecord,
    DataRecord,
    Manifest,
    MethodRecord,
    ParameterRecord,
)
from adapterbank.store.names import check_name
from adapterbank.store.record import now_text
from adapterbank.store.weights import WEIGHTS, Shape, adapter_shapes, check_tensors
from adapterbank.tasks.task import METRICS_OF

if TYPE_CHECKING:
    from torch import Tensor

ORIGIN = "adapterhub"
MAX_NORM = 2**16  # numbers of a LayerNorm


def import_adapterhub(
    folder: Path, facts: BaseFacts, *, task: str, pair: bool = False
) -> tuple[Manifest, dict[str, Tensor], list[str]]:
    """A task from an AdapterHub folder: manifest, tensors, and notes on what crossed.

    `pair` says whether it reads pairs of texts, which AdapterHub doesn't tell.
    """
    task = check_name(task)
    find_architecture(facts.model_type)
    about = _describe(folder, CONFIG, facts)
    config, scaling = settings_from_hub(about.settings, facts, versioned=about.versioned)
    if not os.path.lexists(folder / HEAD_CONFIG):
        raise PackageError(
            f"{folder.name!r} has no head ({HEAD_CONFIG}), so it cannot answer anything.",
            "Save the adapter with its head: model.save_adapter(folder, name, with_head=True, "
            "use_safetensors=True).",
        )
    about_head = _describe(folder, HEAD_CONFIG, facts)
    head = head_from_hub(about_head.settings, facts)

    tensors = _read(folder, ADAPTER, _match_adapter(about.name, config, facts))
    for name, tensor in tensors.items():
        if scaling != 1.0 and ".up." in name:
            tensor.mul_(scaling)
    tensors |= _read(folder, HEAD, _match_head(about_head.name, head, facts))
    tensors.setdefault("head.bias", tensors["head.weight"].new_zeros(head.outputs))
    if os.path.lexists(folder / LAYER_NORMS):
        tensors |= _read(folder, LAYER_NORMS, _match_layer_norms)
        config = replace(config, train_layer_norms=True)
    manifest = _manifest(task, facts, config, head, tensors, pair=pair)
    _check(manifest, facts, tensors)
    return manifest, tensors, _notes(manifest, folder, about.model_name, scaling, named=head.named)


# --- the two descriptions


@dataclass(frozen=True)
class _Description:
    """What the descriptions of an adapter and of a head have in common."""

    name: str
    model_name: object
    settings: dict[str, Any]
    versioned: bool


def _describe(folder: Path, file_name: str, facts: BaseFacts) -> _Description:
    found = read_object(folder, file_name)
    if "peft_type" in found:
        raise PackageError(
            f"{file_name} describes an adapter of PEFT, {shown(found['peft_type'])}.",
            "Folders of AdapterHub's `adapters` and AdapterBank's own packages can be imported.",
        )
    for key, ours in (("model_type", facts.model_type), ("hidden_size", facts.width)):
        if found.get(key) != ours:
            raise PackageError(
                f"{file_name} is for a base with {key} {shown(found.get(key))}, "
                f"and {facts.name} has {ours!r}.",
                "Give the base that the adapter was trained on.",
            )
    name, settings = found.get("name"), found.get("config")
    if file_name == HEAD_CONFIG and settings is None:
        raise PackageError(
            f"{file_name} describes the fixed head of {shown(found.get('model_class'))}.",
            "Load the adapter into an AutoAdapterModel, which makes it a head of its own, and "
            "save it again: model.save_adapter(folder, name, use_safetensors=True).",
        )
    if not isinstance(name, str) or not re.fullmatch(r"[^./\\\x00-\x1f]{1,200}", name):
        raise PackageError(
            f"{file_name} gives the name {shown(name)}, and names hold no dots and no slashes.",
            "Load it under another name in AdapterHub (load_as=...) and save it again.",
        )
    if not isinstance(settings, dict):
        raise PackageError(f"{file_name} has {shown(settings)} in place of settings.", AGAIN)
    return _Description(name, found.get("model_name"), settings, "version" in found)


# --- the tensors


def _read(folder: Path, file_name: str, match: Matcher) -> dict[str, Tensor]:
    import torch

    arrays = read_tensors(folder, file_name, match)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _match_adapter(name: str, config: AdapterConfig, facts: BaseFacts) -> Matcher:
    names, shapes = adapter_names(name, config, facts), adapter_shapes(config, facts.width)
    wanted = {ours: shapes[ours.split(".", 3)[3]] for ours in names.values()}
    return lambda found: _match(
        found, {each: names.get(current_name(each, facts)) for each in found}, wanted
    )


def _match_head(name: str, head: HeadForm, facts: BaseFacts) -> Matcher:
    wanted: dict[str, Shape] = {"head.weight": (head.outputs, facts.width)}
    if head.bias:
        wanted["head.bias"] = (head.outputs,)
    names = {theirs: ours for theirs, ours in head_names(name).items() if ours in wanted}
    return lambda found: _match(found, {each: names.get(each) for each in found}, wanted)


def _match(
    found: Mapping[str, Shape], names: Mapping[str, str | None], wanted: Mapping[str, Shape]
) -> dict[str, str]:
    """Our name of each tensor, if they are exactly those that the settings imply."""
    matched = {}
    for each, shape in found.items():
        ours = names[each]
        if ours is None:
            raise ValueError(f"holds {shown(each)}, which the settings don't account for")
        if shape != wanted[ours]:
            raise ValueError(
                f"holds {shown(each)} with shape {list(shape)}, not {list(wanted[ours])}"
            )
        matched[each] = ours
    if missing := wanted.keys() - matched.values():
        raise ValueError(f"lacks what AdapterBank calls {min(missing)}")
    return matched


def _match_layer_norms(found: Mapping[str, Shape]) -> dict[str, str]:
    """Our own names. Whether they fit the rest is checked with it."""
    for each, shape in found.items():
        if not re.fullmatch(r"[a-z0-9.]{1,60}\.norm\.(?:weight|bias)", each):
            raise ValueError(f"holds {shown(each)}, which is not of a LayerNorm")
        if len(shape) != 1 or shape[0] > MAX_NORM:
            raise ValueError(f"holds {shown(each)} with shape {list(shape)}")
    return {each: each for each in found}


# --- the task


def _manifest(
    task: str,
    facts: BaseFacts,
    config: AdapterConfig,
    head: HeadForm,
    tensors: Mapping[str, Tensor],
    *,
    pair: bool,
) -> Manifest:
    trained = sum(tensor.numel() for tensor in tensors.values())
    two_classes = head.kind == "classification" and len(head.labels) == 2
    return Manifest(
        task=task,
        created=now_text(),
        kind=head.kind,
        labels=head.labels,
        pair=pair or head.kind == "span",
        metric=METRICS_OF[head.kind][0],
        positive=head.labels[-1] if two_classes else "",
        dev={},
        method=MethodRecord("adapters"),
        adapter=config,
        pooling=head.pooling,
        max_length=facts.max_length,
        recipe={},
        data=DataRecord({}, ""),
        base=BaseRecord(facts.name, facts.fingerprint),
        parameters=ParameterRecord(
            trained,
            100 * trained / facts.parameters,
            100 * trained / facts.parameters_without_embeddings,
        ),
        origin=ORIGIN,
    )


def _check(manifest: Manifest, facts: BaseFacts, tensors: Mapping[str, Tensor]) -> None:
    """Whatever a package must have, and no layer that is missing or that the base doesn't have."""
    config = manifest.adapter or AdapterConfig()
    every = replace(manifest, adapter=replace(config, layers=adapted_layers(config, facts)))
    norms = [re.fullmatch(r"layer\.(\d{1,4})\.\w+\.norm\.\w+", name) for name in tensors]
    highest = max((int(found[1]) for found in norms if found), default=facts.layers - 1)
    try:
        check_tensors(every, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
        if highest != facts.layers - 1:
            raise PackageError(f"it has LayerNorms up to layer {highest}, not {facts.layers - 1}")
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise PackageError("it has values that are not finite once they are scaled")
        replace(manifest, weights_sha256="0" * 64, weights_bytes=1).to_json()
    except PackageError as error:
        problem = error.message.removeprefix("The manifest is not in order: ")
        problem = problem.replace(WEIGHTS, "it").rstrip(".")
        raise PackageError(f"The folder cannot become a task: {problem}.", AGAIN) from error


def _notes(
    manifest: Manifest, folder: Path, model_name: object, scaling: float, *, named: bool
) -> list[str]:
    """For people: what crossed exactly, and what they should check."""
    evaluate = f"`adapterbank evaluate {manifest.task} --data FILE`"
    notes = ["The adapters and the head crossed number for number."]
    if scaling != 1.0:
        notes = [
            f"The head crossed number for number; the adapters' scaling of {scaling:.4g} was "
            "multiplied into their upper projection, which computes the same up to rounding."
        ]
    if manifest.adapter and manifest.adapter.train_layer_norms:
        notes.append(f"The trained LayerNorms came from {LAYER_NORMS}.")
    notes += [
        f"{name} was not looked at: loading such a file can run code."
        for name in PICKLED.values()
        if os.path.lexists(folder / name)
    ]
    notes.append(
        f"It says that it was trained on {shown(model_name) if model_name else 'some base'} and "
        f"now stands on {manifest.base.name}: AdapterHub keeps no digest of a base, so this was "
        "not checked."
    )
    if manifest.labels:
        source = f"those of {HEAD_CONFIG}" if named else "made up, as none came with the head"
        notes.append(
            f"The labels are {source}. Maps of labels are often wrong: score labelled rows with "
            f"{evaluate} before relying on them."
        )
    else:
        notes.append(f"Score labelled rows with {evaluate} before relying on it.")
    notes.append(
        f"AdapterHub doesn't say what it reads: here that is "
        f"{'pairs of texts' if manifest.pair else 'single texts'} of up to "
        f"{manifest.max_length} tokens."
    )
    return notes
