"""The manifest: what a package says of itself, as strict JSON.

The annotations are the schema. Every field is always there, and a field that comes, goes or
changes its meaning is a new format number. docs/package-format.md explains each.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Literal

from adapterbank.errors import ConfigError, PackageError
from adapterbank.model.config import AdapterConfig
from adapterbank.store.names import check_name
from adapterbank.store.schema import decode
from adapterbank.store.sealed import seal, unseal
from adapterbank.tasks.task import Kind

FORMAT = 1
MAX_BYTES = 4 * 2**20
MAX_LABELS = 10_000
MAX_LABEL_CHARACTERS = 512
MAX_NOTE_CHARACTERS = 10_000
TEMPERATURES = (1e-6, 1e6)  # logits divided by less are no numbers any more
# A value costs far more in memory than in the file, and services keep manifests by the thousand.
MAX_VALUES = 50_000  # of the whole manifest: labels, their balance, probes
MAX_FREE_VALUES = 1_000  # of each field that may hold anything; ours have dozens
MAX_FREE_DEPTH = 4
LEAST_LABELS: dict[Kind, int] = {"classification": 2, "multi-label": 1}
DAMAGED = "Get the package again from where it came, or train the task again."

# As in `model`, spelled out so that a manifest can be read without loading that room's libraries.
MethodName = Literal["adapters", "full", "top-k", "layer-norm", "head"]
Pooling = Literal["pooler", "mean", "first"]
Precision = Literal["fp32", "fp16"]


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
    """Empty where it is not known: of a task that was brought in."""
    balance: dict[str, int] = field(default_factory=dict)
    """Rows of train by label; empty where there are no labels."""


@dataclass(frozen=True)
class ParameterRecord:
    """How many parameters a task has of its own."""

    trained: int
    percent_of_base: float
    percent_without_embeddings: float


@dataclass(frozen=True)
class Probe:
    """A fixed row of token ids, and the logits that the task gave for it."""

    tokens: tuple[int, ...]
    outputs: tuple[float, ...]
    """The first of them: enough to compare within a tolerance."""
    sha256: str
    """Of all of them, as little-endian 32-bit floats."""


@dataclass(frozen=True)
class Confusion:
    """How many rows of one label were given a label."""

    label: str
    predicted: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a task is and where it comes from. Its version is the bank's affair."""

    format: int = FORMAT
    task: str
    """Its name where it was learnt; a bank may know it by another."""
    note: str = ""
    """What its owner has to say of it."""
    created: str
    """UTC, to the second: 2026-01-31T12:00:00Z."""
    origin: str = ""
    """What it went on from (spam@2) or was brought in from; empty if it started from the base."""
    kind: Kind
    labels: tuple[str, ...]
    """In the order of the head's outputs."""
    pair: bool
    """Whether it reads pairs of texts."""
    max_length: int
    """Tokens a text; more are cut."""
    temperature: float = 1.0
    """Logits are divided by it before they become probabilities."""
    threshold: float | None = None
    """Of a span task: how much better than the best answer "no answer" must be."""
    base: BaseRecord
    pooling: Pooling
    method: MethodRecord
    adapter: AdapterConfig | None
    """The adapters, for the method of that name; else None."""
    parameters: ParameterRecord
    precision: Precision = "fp32"
    """Of the numbers in the weights file."""
    metric: str
    """The score that selection went by."""
    positive: str = ""
    """The class whose F1 the scores hold; empty if none."""
    dev: dict[str, float]
    """Scores, by metric: selection has seen these rows."""
    test: dict[str, float] = field(default_factory=dict)
    """Scores on rows that nothing saw before; empty where there were none."""
    confusion: tuple[Confusion, ...] = ()
    """Of a classification, on test (else dev): the largest counts, as many as a card can show."""
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    """Scores of simpler methods on the same rows."""
    data: DataRecord
    columns: dict[str, str] = field(default_factory=dict)
    """The data's columns: of "text", "pair" and "label"."""
    recipe: dict[str, object]
    software: dict[str, str] = field(default_factory=dict)
    """Versions it was made with, and the processor's instruction set."""
    probes: tuple[Probe, ...] = ()
    """Replayed by verify."""
    statistics: dict[str, object] | None = None
    """Of the features, for telling which task a text belongs to."""
    weights_sha256: str = ""
    """Of weights.safetensors, as the next field: both are filled in by writing."""
    weights_bytes: int = 0

    def to_json(self) -> bytes:
        """The bytes of manifest.json: checked, in their one form."""
        try:
            values = asdict(_checked(unseal(seal(asdict(self)))))
            raw = seal(values)
        except (ValueError, RecursionError) as error:
            raise _not_in_order(error) from error
        if len(raw) > MAX_BYTES:
            raise _not_in_order(f"it is longer than {MAX_BYTES:,} bytes")
        return raw

    @classmethod
    def from_json(cls, raw: bytes, *, known: bool = False) -> Manifest:
        """Read and check the bytes of a manifest.json; `known` if their digest was compared."""
        if len(raw) > MAX_BYTES:
            raise _not_in_order(f"it is longer than {MAX_BYTES:,} bytes")
        try:
            return _checked(unseal(raw, known=known))
        except (ValueError, RecursionError) as error:
            raise _not_in_order(error) from error


def _not_in_order(problem: object) -> PackageError:
    return PackageError(f"The manifest is not in order: {problem}.", DAMAGED)


def _checked(values: dict[str, object]) -> Manifest:
    _check_format(values)
    _check_size(values)
    try:
        manifest: Manifest = decode(Manifest, values, "manifest")
        _check(manifest)
    except ConfigError as error:  # of an adapter's settings
        raise ValueError(error.message.rstrip(".")) from error
    return manifest


def _check_format(values: dict[str, object]) -> None:
    found = values.get("format")
    if type(found) is int and found > FORMAT:
        raise PackageError(
            f"This package has format {found}, written by a newer AdapterBank; "
            f"this one reads up to {FORMAT}.",
            "Upgrade AdapterBank.",
        )


def _check_size(values: dict[str, object]) -> None:
    """Before anything is made of them."""
    for name in ("recipe", "software", "statistics"):
        count, depth = _count(values.get(name))
        if count > MAX_FREE_VALUES or depth > MAX_FREE_DEPTH:
            raise ValueError(
                f"{name} holds more than {MAX_FREE_VALUES:,} values, or nests them deeper than "
                f"{MAX_FREE_DEPTH}"
            )
    if _count(values)[0] > MAX_VALUES:
        raise ValueError(f"it holds more than {MAX_VALUES:,} values")


def _count(value: object) -> tuple[int, int]:
    """How many values there are in one, itself included, and how deeply they are nested."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return 1, 0
    found = [_count(each) for each in value]
    return 1 + sum(count for count, _ in found), 1 + max((depth for _, depth in found), default=0)


def _check(manifest: Manifest) -> None:
    """What types don't say."""
    check_name(manifest.task)
    labels, kind = manifest.labels, manifest.kind
    least = LEAST_LABELS.get(kind, 0)
    counts = (manifest.max_length, manifest.parameters.trained, manifest.method.top_k)
    for fine, problem in (
        (manifest.format == FORMAT, f"format is {manifest.format}, and must be {FORMAT}"),
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
        (
            len(manifest.note) <= MAX_NOTE_CHARACTERS,
            f"note is longer than {MAX_NOTE_CHARACTERS:,} characters",
        ),
        (manifest.positive in ("", *labels), "positive is not one of the labels"),
        (
            (manifest.adapter is not None) == (manifest.method.name == "adapters"),
            "adapter must be there for the method of that name, and null for others",
        ),
        (min(counts) >= 1, "max_length, parameters.trained and method.top_k count from 1"),
        (
            min((*manifest.data.rows.values(), *manifest.data.balance.values()), default=0) >= 0
            and min((each.rows for each in manifest.confusion), default=1) >= 1,
            "data has a negative number of rows, or confusion one below 1",
        ),
        (
            len({(each.label, each.predicted) for each in manifest.confusion})
            == len(manifest.confusion),
            "confusion has a pair twice",
        ),
        (
            manifest.data.balance.keys() <= set(labels)
            and {name for each in manifest.confusion for name in (each.label, each.predicted)}
            <= set(labels),
            "data.balance or confusion names what is not one of the labels",
        ),
        (
            TEMPERATURES[0] <= manifest.temperature <= TEMPERATURES[1],
            f"temperature is {manifest.temperature:g}, and must be from {TEMPERATURES[0]:g} "
            f"to {TEMPERATURES[1]:g}",
        ),
        (manifest.weights_bytes > 0, "weights_bytes must be above 0"),
        (
            all(
                re.fullmatch(r"[0-9a-f]{64}", digest)
                for digest in (
                    *filter(None, [manifest.data.sha256]),
                    manifest.base.fingerprint,
                    manifest.weights_sha256,
                    *(probe.sha256 for probe in manifest.probes),
                )
            ),
            "a digest is not 64 hexadecimal digits",
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
