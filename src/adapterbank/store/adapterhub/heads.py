"""The head of a task in AdapterHub's words and in ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adapterbank.errors import PackageError
from adapterbank.store.adapterhub.places import HEAD_CONFIG, BaseFacts
from adapterbank.store.adapterhub.reading import AGAIN, TRAIN, shown
from adapterbank.store.manifest import MAX_LABELS, Manifest, Pooling
from adapterbank.store.schema import decode
from adapterbank.tasks.task import Kind


@dataclass(frozen=True)
class HeadForm:
    """A head that both sides compute alike: one linear layer."""

    kind: Kind
    labels: tuple[str, ...]
    outputs: int
    pooling: Pooling
    bias: bool
    named: bool
    """Whether the labels' names came with it."""


@dataclass(frozen=True)
class _HeadSettings:
    """What a head's config may say."""

    head_type: str
    num_labels: int
    layers: int
    label2id: dict[str, int] | None
    use_pooler: bool
    bias: bool
    activation_function: object  # stands between layers: one layer has none
    dropout_prob: object


_HEAD_TYPES: dict[Kind, str] = {
    "classification": "classification",
    "multi-label": "multilabel_classification",
    "regression": "classification",
    "span": "question_answering",
}


def head_to_hub(manifest: Manifest) -> dict[str, object] | None:
    """The settings of a task's head in AdapterHub's words; None for one that cannot cross."""
    settings: dict[str, object] = {
        "head_type": _HEAD_TYPES[manifest.kind],
        "num_labels": {"regression": 1, "span": 2}.get(manifest.kind, len(manifest.labels)),
        "layers": 1,
        "activation_function": None,
        "label2id": {label: i for i, label in enumerate(manifest.labels)} or None,
        "dropout_prob": None,
    }
    if manifest.kind == "span":  # reads tokens
        return settings
    if manifest.pooling == "mean":
        return None
    return settings | {"use_pooler": manifest.pooling == "pooler", "bias": True}


def head_from_hub(settings: Mapping[str, Any], facts: BaseFacts) -> HeadForm:
    """A head in our words."""
    found_type = settings.get("head_type")
    if found_type not in _HEAD_TYPES.values():
        raise PackageError(
            f"{HEAD_CONFIG} describes a head of type {shown(found_type)}; "
            f"these cross: {', '.join(dict.fromkeys(_HEAD_TYPES.values()))}.",
            TRAIN,
        )
    defaults = {"label2id": None, "use_pooler": False, "bias": True}
    defaults |= {"activation_function": None, "dropout_prob": None}
    try:
        found: _HeadSettings = decode(_HeadSettings, defaults | dict(settings), "config")
        if found.layers != 1:
            raise PackageError(
                f"{HEAD_CONFIG} describes a head of {found.layers} layers, "
                "and AdapterBank's heads have one.",
                "Train a head with layers=1 and activation_function=None in AdapterHub, or train "
                "the task with `adapterbank train`.",
            )
        return _our_head(found, facts)
    except ValueError as error:
        raise PackageError(f"{HEAD_CONFIG} cannot be translated: {error}.", AGAIN) from error


def _our_head(found: _HeadSettings, facts: BaseFacts) -> HeadForm:
    kind: Kind = "regression" if found.num_labels == 1 else "classification"
    if found.head_type != "classification":
        kind = "span" if found.head_type == "question_answering" else "multi-label"
    if kind == "span" and found.num_labels != 2:
        raise ValueError(f"a question_answering head has 2 outputs, not {found.num_labels}")
    if found.use_pooler and kind != "span" and not facts.has_pooler:
        raise PackageError(
            f"This head reads the base's pooler, and {facts.name} has none that was trained.",
            "Give the base that the adapter was trained on, with its pooler.",
        )
    pooling: Pooling = "pooler" if found.use_pooler else "first"
    labels = _labels(found) if kind in ("classification", "multi-label") else ()
    return HeadForm(
        kind,
        labels,
        found.num_labels,
        facts.pooling if kind == "span" else pooling,
        found.bias,
        found.label2id is not None or not labels,
    )


def _labels(found: _HeadSettings) -> tuple[str, ...]:
    count = found.num_labels
    if found.label2id is None:
        if count > MAX_LABELS:
            raise ValueError(f"num_labels is {count}, and may be {MAX_LABELS:,} at most")
        return tuple(f"LABEL_{i}" for i in range(count))  # as AdapterHub calls them
    names = {i: label for label, i in found.label2id.items()}
    if len(found.label2id) != count or names.keys() != set(range(len(found.label2id))):
        raise ValueError(f"label2id doesn't give each of the {count} outputs one label")
    return tuple(names[i] for i in range(count))
