"""From cells to labels: classes by name, several of them, or numbers; and the label space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import cast

from adapterbank.errors import ConfigError, DataError
from adapterbank.tasks.cells import (
    BadCell,
    Cell,
    class_name,
    listing,
    missing_label,
    read_cell,
    read_number,
    shown,
    split_known,
    split_names,
)
from adapterbank.tasks.task import Example, Kind, Label

MAX_LABELS = 10_000

# Names of classes that the data give by number or code.
LabelNames = Mapping[int | str, str] | Sequence[str]


def label_reader(
    kind: Kind,
    names: Mapping[str, str],
    *,
    labels: tuple[str, ...] | None = None,
    separator: str = "",
) -> Callable[[Cell], Label]:
    """How a cell becomes a label: free while train is read, among `labels` from then on."""
    if kind == "regression":
        return read_number
    known = None if labels is None else set(labels) | {k for k, v in names.items() if v in labels}
    found: dict[Cell, Label] = {}  # rows with the same label share one string

    def one(cell: str) -> str:
        label = class_name(cell, names)
        if labels is not None and label not in labels:
            raise BadCell(
                "unknown label",
                f"the label {shown(label)} is not one of the task's: {listing(labels)}",
                _nearest(label, labels),
            )
        return label

    def read(cell: Cell) -> Label:
        if kind == "multi-label":
            parts = split_names(cell, separator) if known is None else split_known(cell, known)
            return tuple(one(part) for part in parts)
        if cell is None:
            raise missing_label()
        if isinstance(cell, tuple):
            raise BadCell(
                "list", f"the label is a list: {shown(list(cell))}", "Say --kind multi-label."
            )
        return one(cell)

    def remembered(cell: Cell) -> Label:
        if cell not in found:
            found[cell] = read(cell)
        return found[cell]

    return remembered


def _nearest(label: str, labels: tuple[str, ...]) -> str:
    """What may be meant by a label that the task has not."""
    if near := get_close_matches(label, labels, 1):
        return f"Did you mean {shown(near[0])}?"
    return "Is it the right column (--label-column)? Codes are named by --label-names A,B,…"


def names_by_code(given: LabelNames | None, kind: Kind) -> dict[str, str]:
    """Names by what stands in the data; a sequence names 0, 1, 2, …"""
    if not given:
        return {}
    if kind in ("regression", "span"):
        raise ConfigError(f"label_names are for classes; the task is of kind {kind}.")
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    return {str(read_cell(code)): str(name).strip() for code, name in pairs}


def label_space(
    examples: Sequence[Example], kind: Kind, source: str, column: str
) -> tuple[str, ...]:
    """The labels in order, once it is sure that there is something to learn."""
    if not examples:
        raise DataError(f"{source}: no row is left.", "Mend some of them.")
    found: set[Label] = {example.label for example in examples}
    if kind == "multi-label":
        sets = {frozenset(cast(tuple[str, ...], each)) for each in found}
        labels = {name for each in sets for name in each}
        if not labels:
            raise DataError(f"{source}: no row has a label in {column!r}.")
        if len(sets) == 1:
            same = listing(sort_labels(labels))
            raise DataError(
                f"{source}: every row has the same labels in {column!r}: {same}.",
                "There is nothing to learn from that. List the classes that hold, by name or "
                "number, not zeros and ones.",
            )
    elif len(found) == 1:
        raise DataError(
            f"{source}: every row has the label {shown(found.pop())} in {column!r}.",
            "There is nothing to learn from one value. Give rows with others too.",
        )
    else:
        labels = {label for label in found if isinstance(label, str)}
    if len(labels) > MAX_LABELS:
        raise DataError(
            f"{source}: {column!r} holds {len(labels):,} different labels; "
            f"{MAX_LABELS:,} at most can be learnt.",
            "Is it the right column? Say which: --label-column.",
        )
    return sort_labels(labels)


def sort_labels(labels: set[str]) -> tuple[str, ...]:
    """By number if all are whole numbers, by their characters otherwise."""
    try:
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    except ValueError:
        return tuple(sorted(labels))
