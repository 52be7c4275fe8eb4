"""From a source to a task: columns, kind and labels are decided on train and hold for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from adapterbank.errors import ConfigError, DataError
from adapterbank.tasks.cells import Cell, counted, find_separator, listing
from adapterbank.tasks.columns import Columns, code_lists, find_columns, infer_kind, need_column
from adapterbank.tasks.drafts import BadRows, finish, read_draft
from adapterbank.tasks.labels import LabelNames, label_reader, label_space, names_by_code
from adapterbank.tasks.room import Room
from adapterbank.tasks.rows import Rows
from adapterbank.tasks.sources import GIVEN, Source, local_file, open_rows
from adapterbank.tasks.splits import cut_rows
from adapterbank.tasks.task import KINDS, Example, Kind, Task

# Classification with two texts is a kind of its own to people.
PAIR_KIND = "pair-classification"


def load_task(
    name: str,
    train: Source,
    *,
    dev: Source | None = None,
    test: Source | None = None,
    kind: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    label_names: LabelNames | None = None,
    encoding: str = "utf-8",
    seed: int = 0,
    metric: str = "",
    positive: str = "",
    skip_bad: bool = False,
    bad: BadRows | None = None,
    room: Room | None = None,
) -> Task:
    """Read a task. What is not given is found, and what was found is in the task's notes.

    Without `dev`, rows are cut from train for it, and for `test` unless that is given.
    A bad row is an error that names the first and counts the others, or left out by `skip_bad`.
    The bad rows of train are in `bad` then. Rows past `room` are an error as soon as one is read.
    """
    if kind is not None and kind not in (*KINDS, PAIR_KIND):
        raise ConfigError(f"kind is {kind!r}. Choose from: {', '.join((*KINDS, PAIR_KIND))}.")
    if kind == "span" or _is_json(train):
        if kind not in (None, "span"):
            raise DataError(
                f"{_title(train)} is read as a span task, not as {kind}.",
                "Give rows as .csv, .tsv, .jsonl or .parquet.",
            )
        if _is_json(train):
            _refuse_for_spans(
                text_column=text_column,
                pair_column=pair_column,
                label_column=label_column,
                label_names=label_names,
                positive=positive,
                skip_bad=skip_bad,
            )
        return _load_span(name, train, dev, test, seed, metric)

    rows = open_rows(train, encoding)
    columns = find_columns(
        rows,
        text=text_column,
        pair=pair_column,
        label=label_column,
        pairs=True if kind == PAIR_KIND else None,
    )
    draft = read_draft(rows, columns, bad, room)
    known = infer_kind(draft.cells, columns.label)
    if kind:
        known = "classification" if kind == PAIR_KIND else cast(Kind, kind)
    elif known == "regression" and label_names:
        known = "classification"
    names = names_by_code(label_names, known)
    separator = find_separator(draft.cells) if known == "multi-label" else ""
    train_rows, skipped = finish(draft, label_reader(known, names, separator=separator), skip_bad)
    labels = label_space(train_rows, known, rows.name, columns.label)
    if positive and positive not in labels:
        raise ConfigError(
            f"positive is {positive!r}, and the labels are: {listing(labels) or 'none'}.",
            "It names the class whose f1 is reported.",
        )
    notes = [*rows.notes, columns.note(), *_unread(rows, columns), *skipped]
    notes.append(_kind_note(known, labels, separator))
    if not kind:
        notes += _other_reading(known, draft.cells, columns.label)

    splits: dict[str, list[Example]] = {}
    for split, source in (("dev", dev), ("test", test)):
        if source is None:
            continue
        rows = open_rows(source, encoding)
        _need_columns(rows, columns)
        reader = label_reader(known, names, labels=labels)
        splits[split], skipped = finish(read_draft(rows, columns, None, room), reader, skip_bad)
        notes += [*rows.notes, *skipped]
        if not splits[split]:
            raise DataError(f"{rows.name}: no row is left.", "Mend some of them.")
    task = Task(name, labels, train_rows, (), (), known, metric, positive, columns=columns.roles())
    return _with_splits(task, splits, seed, notes)


def _kind_note(kind: Kind, labels: tuple[str, ...], separator: str) -> str:
    if not labels:
        return kind
    parted = f", parted by {separator!r}" if separator else ""
    return f"{kind}, {counted(len(labels), 'label')}{parted}"


def _other_reading(kind: Kind, cells: Iterable[Cell], column: str) -> list[str]:
    """What a comma may mean where it cannot be told."""
    either = code_lists(cells)
    if not either or kind not in ("regression", "multi-label"):
        return []
    cell = min(either)
    number, classes = f"the number {cell.replace(',', '.')}", f"the classes {cell[0]} and {cell[2]}"
    if kind == "regression":
        taken, other, asked = number, classes, "multi-label"
    else:
        taken, other, asked = classes, number, "regression"
    return [f"{cell!r} in {column!r} is read as {taken}; if it is {other}, say --kind {asked}"]


def _need_columns(rows: Rows, columns: Columns) -> None:
    roles = ((columns.text, "text"), (columns.pair, "second text"), (columns.label, "label"))
    for column, role in roles:
        if column:
            need_column(rows, column, f", the {role} column of train")


def _unread(rows: Rows, columns: Columns) -> list[str]:
    read = (columns.text, columns.pair, columns.label)
    unread = [repr(each) for each in rows.columns if each not in read]
    return [f"not read: {listing(unread, 5)}"] if unread else []


def _with_splits(
    task: Task, given: Mapping[str, Sequence[Example]], seed: int, notes: Sequence[str]
) -> Task:
    """The task with dev and test as given, or cut from train."""
    parts = dict(given)
    train = task.train
    cut = [] if "dev" in given else [part for part in ("dev", "test") if part not in given]
    if cut:
        stay, *taken = cut_rows(train, task.kind, len(cut), seed)
        if not all(taken):
            raise DataError(
                f"The {len(train)} rows of train are too few to cut {' and '.join(cut)} from.",
                "Give more rows (three different texts of a class at least), or give dev.",
            )
        parts |= {part: [train[i] for i in rows] for part, rows in zip(cut, taken, strict=True)}
        train = [train[i] for i in stay]
    return replace(
        task,
        train=train,
        dev=parts["dev"],
        test=parts.get("test", ()),
        notes=(*notes, *_split_notes(parts, cut, task.kind, seed)),
    )


def _split_notes(
    parts: Mapping[str, Sequence[Example]], cut: Sequence[str], kind: Kind, seed: int
) -> Iterator[str]:
    sizes = [
        f"{part}: {counted(len(parts[part]), 'row')}{' cut from train' if part in cut else ''}"
        for part in ("dev", "test")
        if part in parts
    ]
    how = "by context" if kind == "span" else "stratified"
    yield ", ".join(sizes) + (f" ({how}, seed {seed})" if cut else "")
    if "test" not in parts:
        yield "no test rows: the dev score is one that selection has seen"


def _refuse_for_spans(**given: object) -> None:
    """What says how a table is read has no meaning for SQuAD's form."""
    if named := [name for name, value in given.items() if value]:
        raise ConfigError(
            f"{', '.join(named)}: a span task is read from SQuAD's form, which has its own names.",
            "Leave it out; a question that cannot be read is to be mended in the file.",
        )


def _load_span(
    name: str, train: Source, dev: Source | None, test: Source | None, seed: int, metric: str
) -> Task:
    notes: list[str] = []
    given = {"dev": dev, "test": test}
    examples = _squad(train, notes)
    splits = {part: _squad(source, notes) for part, source in given.items() if source is not None}
    notes.append("span")
    task = Task(name, (), examples, (), kind="span", metric=metric)
    return _with_splits(task, splits, seed, notes)


def _squad(source: Source, notes: list[str] | None = None) -> Sequence[Example]:
    from adapterbank.tasks.squad import read_squad_file

    if not isinstance(source, str | Path) or not _is_json(source):
        raise _span_needs_json(source)
    found = read_squad_file(local_file(source))
    if notes is not None:
        notes += found.notes
    return found.examples


def _is_json(source: Source) -> bool:
    return isinstance(source, str | Path) and Path(source).suffix.lower() == ".json"


def _span_needs_json(source: Source) -> DataError:
    return DataError(f"{_title(source)}: not a span task.", "Give SQuAD's form in a .json file.")


def _title(source: Source) -> str:
    return Path(source).name if isinstance(source, str | Path) else GIVEN
