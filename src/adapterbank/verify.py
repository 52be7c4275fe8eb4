"""The proof that nothing has changed: digests, the base's fingerprint, probes replayed."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from adapterbank.errors import AdapterBankError, PackageError
from adapterbank.model.encoder import Encoder, fingerprint
from adapterbank.model.heads import head_outputs
from adapterbank.model.probes import TOLERANCE, probe_logits, probe_rows, processor
from adapterbank.model.task_model import TaskModel
from adapterbank.store.entry import Entry
from adapterbank.store.manifest import DAMAGED, BaseRecord, Manifest, Probe
from adapterbank.store.mount import mount
from adapterbank.store.names import split_reference
from adapterbank.store.package import Package
from adapterbank.store.store import Store

KEPT = 64  # logits of a probe that are kept as numbers
# Where all of these are the same, so is every bit of a probe's outputs.
DECIDES = ("adapterbank", "torch", "transformers", "processor")


@dataclass(frozen=True)
class Verdict:
    """What became of one version."""

    task: str
    version: int
    ok: bool
    problem: str = ""
    exact: bool = False
    """Whether its probes gave the very same bits; else they are within the tolerance."""


def verify(store: Store, encoder: Encoder, references: Iterable[str] = ()) -> Iterator[Verdict]:
    """Check versions one by one: those named, or every one that is kept. One that is purged
    meanwhile is passed over."""
    store = store.fresh()
    found = fingerprint(encoder.model, encoder.stored)
    store.check_base(BaseRecord(encoder.name, found))
    named = list(references)
    for reference in named:
        _check_known(store, reference)
    for reference in named or store.tasks():
        yield from _task(store, encoder, reference)


def _check_known(store: Store, reference: str) -> None:
    """Refuse what the bank doesn't have. A removed task's versions are kept, and checked."""
    name, wanted = split_reference(reference)
    with suppress(PackageError):  # a damaged record: told in its verdict
        if wanted or not store.record(name).versions:
            store.find(reference)


def _task(store: Store, encoder: Encoder, reference: str) -> Iterator[Verdict]:
    name, wanted = split_reference(reference)
    try:
        record = store.record(name)
    except PackageError as error:
        yield Verdict(name, 0, False, error.message)
        return
    for version in record.versions:
        if wanted not in (None, version.version):
            continue
        entry = Entry(name, version)
        try:
            exact = check_probes(encoder, store.load(entry))
        except AdapterBankError as error:
            if _is_kept(store, entry):
                yield Verdict(name, version.version, False, error.message)
        else:
            yield Verdict(name, version.version, True, exact=exact)


def _is_kept(store: Store, entry: Entry) -> bool:
    try:
        return entry.version in store.record(entry.task).versions
    except PackageError:
        return True


def check_probes(encoder: Encoder, package: Package) -> bool:
    """Replay a package's probes; whether every bit is the same. A difference is an error."""
    manifest = package.manifest
    _check_reading(encoder, manifest)
    _check_lengths(encoder, manifest)
    rows = [probe.tokens for probe in manifest.probes] or probe_rows(encoder)
    with mount(encoder, package) as model:
        logits = probe_logits(model, rows)
    if not all(np.isfinite(found).all() for found in logits):
        raise PackageError("It answers with numbers that are not finite.", DAMAGED)
    if not manifest.probes:  # of a task that was brought in: nothing to compare with
        return True
    exact = True
    for probe, found in zip(manifest.probes, logits, strict=True):
        if _digest(found) == probe.sha256:
            continue
        exact = False
        off = float(np.abs(found[:KEPT] - np.array(probe.outputs)).max())
        if _same_software(encoder, manifest):
            raise PackageError(
                f"Its probe of {len(probe.tokens)} tokens gives other bits than when it was "
                f"published, off by {off:.2g}.",
            )
        if not off <= TOLERANCE:
            raise PackageError(
                f"Its probe of {len(probe.tokens)} tokens is off by {off:.2g}; "
                f"{TOLERANCE:g} at most is rounding."
            )
    return exact


def _check_reading(encoder: Encoder, manifest: Manifest) -> None:
    """Probes are tokens, and cannot tell whether texts become the same ones."""
    if manifest.software.get("reading", encoder.reading) != encoder.reading:
        raise PackageError(
            f"The tokenizer of {encoder.name} reads texts otherwise than when it was learnt.",
            "Put the tokenizer's files back as they were, or train the task again.",
        )


def _check_lengths(encoder: Encoder, manifest: Manifest) -> None:
    """Refuse what the base cannot read: what would be left of a text, and the probes' rows."""
    span = manifest.kind == "span"
    if manifest.max_length <= encoder.tokenizer.num_special_tokens_to_add(manifest.pair or span):
        raise PackageError(
            f"Its max_length is {manifest.max_length}: that leaves no room for a text.", DAMAGED
        )
    vocabulary = int(encoder.model.config.vocab_size)
    outputs = head_outputs(manifest.kind, max(1, len(manifest.labels)))
    for probe in manifest.probes:
        length = len(probe.tokens)
        if not 0 < length <= encoder.max_length:
            raise PackageError(
                f"It has a probe of {length} tokens; the base reads 1 to {encoder.max_length}.",
                DAMAGED,
            )
        if not 0 <= min(probe.tokens) <= max(probe.tokens) < vocabulary:
            raise PackageError("It has a probe with a token that the base doesn't know.", DAMAGED)
        wanted = min(KEPT, outputs * (length if span else 1))
        if len(probe.outputs) != wanted:
            raise PackageError(
                f"It has a probe with {len(probe.outputs)} outputs, and there must be {wanted}.",
                DAMAGED,
            )


def _same_software(encoder: Encoder, manifest: Manifest) -> bool:
    now = software(encoder)
    return all(manifest.software.get(name) == now[name] for name in DECIDES)


def take_probes(encoder: Encoder, model: TaskModel) -> tuple[Probe, ...]:
    """What a task gives for the base's probes, to be kept in its manifest."""
    rows = probe_rows(encoder)
    return tuple(
        Probe(tuple(row), tuple(float(each) for each in logits[:KEPT]), _digest(logits))
        for row, logits in zip(rows, probe_logits(model, rows), strict=True)
    )


def _digest(logits: NDArray[np.float32]) -> str:
    return hashlib.sha256(logits.astype("<f4").tobytes()).hexdigest()


def software(encoder: Encoder) -> dict[str, str]:
    """What a package is made with here."""
    names = ("adapterbank", "torch", "transformers", "tokenizers")
    return {name: metadata.version(name) for name in names} | {
        "python": platform.python_version(),
        "processor": processor(encoder.model.device),
        "reading": encoder.reading,
    }
