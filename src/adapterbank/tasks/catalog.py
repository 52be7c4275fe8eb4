"""The paper's tasks by name: GLUE, the seventeen further ones, SQuAD, and a few more.

    load_catalog_task("rte")                        from the folder that ADAPTERBANK_DATA names
    load_catalog_task("rte", folder="glue_data")    from GLUE's own folders, or JSON lines
    load_catalog_task("rte", folder="hub")          downloaded; nothing else uses the network

Selection never sees the rows that are reported. Where a labelled test set is published, dev and
test are the official ones. Where none is, the official dev set is `test`, and dev is taken from
train. A task's notes say which it was.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from adapterbank.errors import ConfigError, DataError
from adapterbank.tasks.catalog_files import Found, Split, locate
from adapterbank.tasks.cells import listing, shown
from adapterbank.tasks.entries import ENTRIES, Entry
from adapterbank.tasks.splits import cut_rows
from adapterbank.tasks.task import Example, Task

__all__ = ["Entry", "catalog_names", "find", "load_catalog_task", "load_split"]


def catalog_names() -> tuple[str, ...]:
    """Every task of the catalogue: GLUE, the further tasks in the paper's order, more, SQuAD."""
    return tuple(ENTRIES)


def find(name: str) -> Entry:
    """What is known of a task before its rows are read."""
    if name in ENTRIES:
        return ENTRIES[name]
    near = difflib.get_close_matches(name.lower(), ENTRIES, n=3, cutoff=0.5)
    raise DataError(
        f"There is no task {shown(name)} in the catalogue.",
        f"Near it: {', '.join(near)}." if near else f"It has {listing(ENTRIES, len(ENTRIES))}.",
    )


def load_catalog_task(
    name: str, *, folder: str | Path | None = None, seed: int = 0, cap: int | None = None
) -> Task:
    """A task with the splits it is trained, selected and reported by.

    seed: draws the dev rows where they are cut from train, and the sample that `cap` keeps.
    cap: at most so many train rows. Dev and test stay as they are.
    """
    entry = find(name)
    if cap is not None and cap < 1:
        raise ConfigError(f"cap is {cap}.", "Choose 1 or more.")
    found = locate(entry, folder)
    train, dev, test, notes = _splits(found, seed)
    labels = entry.labels
    if entry.kind == "classification" and not labels:
        labels = tuple(sorted({str(example.label) for example in train}))
        for split, examples in (("dev", dev), ("test", test)):
            _check_labels(name, split, examples, labels)
    if cap is not None and cap < len(train):
        notes += (f"train: {cap} of {len(train)} rows, drawn with seed {seed}",)
        rows = random.Random(seed).sample(range(len(train)), cap)
        train = tuple(train[row] for row in sorted(rows))
    return Task(
        name,
        labels,
        train,
        dev,
        test,
        kind=entry.kind,
        metric=entry.metric,
        positive=entry.positive,
        columns=_columns(found),
        notes=(
            f"{entry.title}, read from {found.form.folder}",
            *notes,
            *([entry.note] if entry.note else []),
        ),
    )


def load_split(name: str, split: str, *, folder: str | Path | None = None) -> tuple[Example, ...]:
    """One split as it is kept, such as "mismatched" of mnli or "out_of_scope" of clinc150."""
    entry = find(name)
    splits = dict.fromkeys(split for form in entry.forms for split in form.files)
    if split not in splits:
        raise DataError(f"{name} has no split {shown(split)}.", f"It has {', '.join(splits)}.")
    return locate(entry, folder, split).read(split).examples


class _Splits(NamedTuple):
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    test: tuple[Example, ...]
    notes: tuple[str, ...]


def _splits(found: Found, seed: int) -> _Splits:
    """The splits to train, select and report by, and in words where they come from."""
    if found.has("test"):
        kept, reported = "dev", "test"
        told = "test: its own test set"
    else:
        kept, reported = "selection", "dev"
        told = "test: the official dev set, since the official test set has no public labels"
    train, test = found.read("train"), found.read(reported)
    if found.entry.answered:
        train = _answered(train)
    if found.has(kept):
        dev = found.read(kept)
        of_dev = "its own dev set" if kept == "dev" else "rows kept apart from train"
    else:
        train, dev = _cut(found.entry, train, seed)
        of_dev = f"{len(dev.examples)} rows cut from train with seed {seed}"
    return _Splits(
        train.examples,
        dev.examples,
        test.examples,
        (told, f"dev: {of_dev}", *train.notes, *dev.notes, *test.notes),
    )


def _cut(entry: Entry, train: Split, seed: int) -> tuple[Split, Split]:
    """Dev out of train: by class, or whole contexts; equal texts stay on one side."""
    examples = train.examples
    # Parts of a train set may hold the same context once raw and once tokenised.
    seen = [_letters_only(each) for each in examples] if entry.kind == "span" else examples
    kept, cut = cut_rows(seen, entry.kind, 1, seed)
    if not cut:
        raise DataError(
            f"{entry.name}: {len(examples)} train rows are too few to cut dev rows from them.",
            "Give three different texts or more of each class.",
        )
    return (
        Split(tuple(examples[row] for row in kept), train.notes),
        Split(tuple(examples[row] for row in cut)),
    )


def _answered(split: Split) -> Split:
    kept = tuple(example for example in split.examples if example.answers)
    lost = len(split.examples) - len(kept)
    told = (f"train: {lost} questions without an answer left out",) if lost else ()
    return Split(kept, split.notes + told)


def _letters_only(example: Example) -> Example:
    context = (example.pair or "").casefold()
    return example._replace(pair="".join(filter(str.isalnum, context)))


def _columns(found: Found) -> dict[str, str]:
    if found.entry.kind == "span":
        return {}
    texts = dict(zip(("text", "pair"), found.form.texts, strict=False))
    return texts | {"label": found.form.label}


def _check_labels(
    name: str, split: str, examples: Sequence[Example], labels: Sequence[str]
) -> None:
    for row, example in enumerate(examples, 1):
        if example.label not in labels:
            raise DataError(
                f"{name}, {split}, row {row}: the label {shown(example.label)} is not in train.",
                f"Labels of train: {listing(labels)}.",
            )
