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
LARGEST_NUMBER = 1e30  # models compute in single precision, which ends at 3e38 …
LEAST_SPREAD = 1e-4  # … and tells a number from one that is larger by 1e-7 of it

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
            if (same := _same_truth(label, labels)) is not None:
                return same
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


def _same_truth(label: str, labels: tuple[str, ...]) -> str | None:
    """A truth value by the name that the task has for it: files write True, JSON true."""
    if label.casefold() not in ("true", "false"):
        return None
    return next((each for each in labels if each.casefold() == label.casefold()), None)


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
    elif kind == "regression" and (problem := _beyond_single(found)):
        raise DataError(f"{source}: {problem[0]} in {column!r}.", problem[1])
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


def _beyond_single(found: set[Label]) -> tuple[str, str] | None:
    """What single precision cannot tell of numbers, and what to do."""
    numbers = [float(cast(float, each)) for each in found]
    largest, low, high = max(map(abs, numbers)), min(numbers), max(numbers)
    if largest > LARGEST_NUMBER:
        return f"{shown(largest)} is too large a number to learn", "Give it in a larger unit."
    if low < high and high - low < LEAST_SPREAD * largest:
        return (
            f"the numbers from {low:g} to {high:g} are nearly one, as a model sees them,",
            f"Subtract what they have in common, such as {low:g}.",
        )
    return None


def sort_labels(labels: set[str]) -> tuple[str, ...]:
    """By number if all are whole numbers, by their characters otherwise."""
    try:
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    except ValueError:
        return tuple(sorted(labels))
