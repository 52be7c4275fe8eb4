"""The manifest: what a package says of itself, as strict JSON.

The annotations are the schema. Every field is always there, and a field that comes, goes or
changes its meaning is a new format number. The JSON also carries its own digest and has one form
only, so that a changed byte anywhere is found.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Literal

from adapterbank.errors import AdapterBankError, PackageError
from adapterbank.model.adapter import AdapterConfig
from adapterbank.store.names import check_name
from adapterbank.store.schema import decode, parse
from adapterbank.tasks.task import Kind

FORMAT = 1
MAX_BYTES = 4 * 2**20
MAX_LABELS = 10_000
MAX_LABEL_CHARACTERS = 512
LEAST_LABELS: dict[Kind, int] = {"classification": 2, "multi-label": 1}
DAMAGED = "Get the package again from where it came, or train the task again."

# As in `model`, spelled out so that a manifest can be read without loading that room's libraries.
MethodName = Literal["adapters", "full", "top-k", "layer-norm", "head"]
Pooling = Literal["pooler", "mean", "first"]


@dataclass(frozen=True)
class MethodRecord:
    """What was trained on the base."""

    name: MethodName
    top_k: int = 1
    """How many of the top layers, for top-k."""


@dataclass(frozen=True)
class BaseRecord:
    """The base that a package fits, and no other."""

    name: str
    fingerprint: str


@dataclass(frozen=True)
class DataRecord:
    """The labelled text that it was trained on."""

    rows: dict[str, int]
    """By split."""
    sha256: str


@dataclass(frozen=True)
class ParameterRecord:
    """How many parameters a task has of its own."""

    trained: int
    percent_of_base: float
    percent_without_embeddings: float


@dataclass(frozen=True)
class Manifest:
    """One version of one task."""

    task: str
    version: int
    created: str
    """UTC, to the second: 2026-01-31T12:00:00Z."""
    kind: Kind
    labels: tuple[str, ...]
    """In the order of the head's outputs."""
    pair: bool
    """Whether it reads pairs of texts."""
    metric: str
    """The score that selection went by."""
    dev: dict[str, float]
    """Scores, by metric."""
    method: MethodRecord
    adapter: AdapterConfig | None
    """The adapters, for the method of that name; else None."""
    pooling: Pooling
    max_length: int
    recipe: dict[str, object]
    data: DataRecord
    base: BaseRecord
    parameters: ParameterRecord
    test: dict[str, float] = field(default_factory=dict)
    """Empty where there was no test split."""
    positive: str = ""
    """The class whose F1 the scores hold; empty if none."""
    columns: dict[str, str] = field(default_factory=dict)
    """The data's columns: of "text", "pair" and "label"."""
    temperature: float = 1.0
    """Logits are divided by it before they become probabilities."""
    threshold: float | None = None
    """Of a span task: how much better than the best answer "no answer" must be."""
    probes: tuple[object, ...] = ()
    """Outputs for fixed token ids, replayed by verify."""
    statistics: dict[str, object] | None = None
    """Of the features, for telling which task a text belongs to."""
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    """Scores of simpler methods on the same data."""
    software: dict[str, str] = field(default_factory=dict)
    """Versions it was made with."""
    format: int = FORMAT
    weights_sha256: str = ""
    """Of weights.safetensors, as the next field: both are filled in by writing."""
    weights_bytes: int = 0

    def to_json(self) -> str:
        """The text of manifest.json: checked, in its one form."""
        values = asdict(_checked(_dump(asdict(self)).encode()))
        digest = hashlib.sha256(_dump(values).encode()).hexdigest()
        return _dump({**values, "manifest_sha256": digest})

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Read and check the text of a manifest.json."""
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        manifest = _checked(raw)
        if manifest.to_json().encode() != raw:
            raise PackageError("manifest.json was changed after it was written.", DAMAGED)
        return manifest


def _checked(raw: bytes) -> Manifest:
    """The manifest in a text of any form."""
    if len(raw) > MAX_BYTES:
        raise PackageError(f"The manifest is longer than it may be: {MAX_BYTES:,} bytes.")
    try:
        values = parse(raw)
        if not isinstance(values, dict):
            raise ValueError("it is not an object")
        _check_format(values)
        values.pop("manifest_sha256", None)
        manifest: Manifest = decode(Manifest, values, "manifest")
        _check(manifest)
    except PackageError:
        raise
    except (ValueError, RecursionError, AdapterBankError) as error:
        raise PackageError(f"The manifest is not in order: {error}.", DAMAGED) from error
    return manifest


def _dump(values: dict[str, object]) -> str:
    try:
        text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise PackageError(f"The manifest holds what JSON cannot: {error}.", DAMAGED) from error
    return text


def _check_format(values: dict[str, object]) -> None:
    found = values.get("format")
    if type(found) is int and found > FORMAT:
        raise PackageError(
            f"This package has format {found}, written by a newer AdapterBank; "
            f"this one reads up to {FORMAT}.",
            "Upgrade AdapterBank.",
        )


def _check(manifest: Manifest) -> None:
    """What types don't say."""
    check_name(manifest.task)
    labels, kind = manifest.labels, manifest.kind
    least = LEAST_LABELS.get(kind, 0)
    counts = (manifest.max_length, manifest.parameters.trained, manifest.method.top_k)
    for fine, problem in (
        (manifest.format == FORMAT, f"format is {manifest.format}, and must be {FORMAT}"),
        (manifest.version >= 1, f"version is {manifest.version}; versions count from 1"),
        (_is_time(manifest.created), "created is not a time like 2026-01-31T12:00:00Z"),
        (len(labels) <= MAX_LABELS, f"it has more than {MAX_LABELS:,} labels"),
        (
            all(0 < len(label) <= MAX_LABEL_CHARACTERS for label in labels),
            f"a label is empty or longer than {MAX_LABEL_CHARACTERS} characters",
        ),
        (len(set(labels)) == len(labels), "a label stands there twice"),
        (len(labels) >= least if least else not labels, f"{kind} with {len(labels)} labels"),
        (
            manifest.columns.keys() <= {"text", "pair", "label"},
            "columns has a name other than text, pair and label",
        ),
        (manifest.metric != "", "metric is empty"),
        (manifest.positive in ("", *labels), "positive is not one of the labels"),
        (
            (manifest.adapter is not None) == (manifest.method.name == "adapters"),
            "adapter must be there for the method of that name, and null for others",
        ),
        (min(counts) >= 1, "max_length, parameters.trained and method.top_k count from 1"),
        (min(manifest.data.rows.values(), default=0) >= 0, "data.rows has a negative number"),
        (manifest.temperature > 0, "temperature must be above 0"),
        (manifest.weights_bytes > 0, "weights_bytes must be above 0"),
        (
            all(
                re.fullmatch(r"[0-9a-f]{64}", digest)
                for digest in (
                    manifest.data.sha256,
                    manifest.base.fingerprint,
                    manifest.weights_sha256,
                )
            ),
            "data.sha256, base.fingerprint and weights_sha256 are 64 hexadecimal digits each",
        ),
    ):
        if not fine:
            raise ValueError(problem)


def _is_time(text: str) -> bool:
    form = "%Y-%m-%dT%H:%M:%SZ"
    try:
        return datetime.strptime(text, form).strftime(form) == text
    except ValueError:
        return False
