"""Any source of labelled text as rows: files, lists of dicts, data frames, datasets, the hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from adapterbank.errors import DataError
from adapterbank.tasks.rows import Row, Rows
from adapterbank.tasks.textfiles import csv_rows, jsonl_rows

__all__ = ["Row", "Rows", "Source", "local_file", "open_rows"]

# A path, rows as dicts, a pandas DataFrame, a datasets.Dataset, or the name of a hub dataset.
Source = str | Path | Iterable[Mapping[str, Any]] | Any

GIVEN = "the rows given"
FORMS = ".csv, .tsv, .jsonl or .parquet"
BATCH = 1_000
PARQUET_BATCH = 64  # all of it is in memory at once, and a cell may be long
READERS = {".csv": csv_rows, ".tsv": csv_rows, ".jsonl": jsonl_rows, ".ndjson": jsonl_rows}
ADVICE = {
    ".xlsx": "Save it as CSV.",
    ".xls": "Save it as CSV.",
    ".ods": "Save it as CSV.",
    ".json": "One object a line is read as .jsonl; SQuAD's form is read for span tasks.",
    ".gz": "Unpack it first.",
    ".zip": "Unpack it first.",
    ".txt": "",
}
# How files begin that are not text of ours, what they are, and what to do.
SIGNS: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "a Parquet file", "Name it .parquet."),
    (b"PK\x03\x04", "an Excel file or a zip archive", "Save it as CSV, or unpack it."),
    (b"\xd0\xcf\x11\xe0", "an old Excel file", "Save it as CSV."),
    (b"\x1f\x8b", "gzip-compressed", "Unpack it first."),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "Unpack it first."),
    (b"%PDF", "a PDF", "Copy its texts into a CSV file."),
    (b"version https://git-lfs", "a Git LFS pointer, not the data", "Fetch it: git lfs pull."),
)
HTML = re.compile(rb"\s*(<!doctype html|<html)", re.IGNORECASE)
HUB = re.compile(r"hub:(?P<name>[\w.-]+(/[\w.-]+)?)(/(?P<config>[\w.-]+))?(:(?P<split>[\w.-]+))?")
HUB_FORM = (
    "A hub dataset is hub:OWNER/NAME, with a configuration and a split if need be: "
    "hub:OWNER/NAME/CONFIGURATION:SPLIT."
)


def open_rows(source: Source, encoding: str = "utf-8") -> Rows:
    """The rows of a source. Files are read as the rows are taken, not before."""
    hub = hub_name(source)
    if hub:
        return _hub_rows(hub)
    if isinstance(source, str | Path):
        return _file_rows(local_file(source), encoding)
    if _is_a(source, "pandas", "DataFrame"):
        return _frame_rows(source)
    if _is_a(source, "datasets", "Dataset"):
        return _dataset_rows(source, GIVEN)
    if isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        return Rows(GIVEN, _dict_rows(source))
    raise DataError(
        f"Rows cannot be read from an object of type {type(source).__name__}.",
        "Give a path, a list of dicts, a DataFrame or one split of a dataset.",
    )


def local_file(source: str | Path) -> Path:
    """The path, if it is a file."""
    path = Path(source)
    if path.is_file():
        return path
    if path.is_dir():
        raise DataError(f"{path.name or path} is a folder.", f"Name a {FORMS} file in it.")
    if path.exists():
        raise DataError(f"{path.name} is not a regular file.")
    raise DataError(f"There is no file {source}.", f"Check the path. {HUB_FORM}")


def hub_name(source: Source) -> str:
    """`hub:…` if the source means a dataset of the hub; empty if it doesn't.

    A bare `owner/name` does where nothing on this machine can be meant.
    """
    if not isinstance(source, str):
        return ""
    if source.startswith("hub:"):
        return source
    path = Path(source)
    local = path.exists() or path.parent.exists() or path.suffix.lower() in _SUFFIXES
    return "" if local or not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", source) else f"hub:{source}"


_SUFFIXES = {*READERS, ".parquet", *ADVICE}


def _file_rows(path: Path, encoding: str) -> Rows:
    suffix = path.suffix.lower()
    if suffix not in READERS and suffix != ".parquet":
        raise DataError(
            f"{path.name} is not a {FORMS} file.", ADVICE.get(suffix) or "Save it as one of these."
        )
    _refuse_other_forms(path, suffix, encoding)
    return _parquet_rows(path) if suffix == ".parquet" else READERS[suffix](path, encoding)


def _refuse_other_forms(path: Path, suffix: str, encoding: str) -> None:
    """A file that is not what its name says is told apart by its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}.") from None
    if not start:
        raise DataError(f"{path.name} is empty.")
    for sign, what, advice in SIGNS:
        if start.startswith(sign) and not (suffix == ".parquet" and sign == b"PAR1"):
            raise DataError(f"{path.name} seems to be {what}.", advice)
    if HTML.match(start):
        raise DataError(
            f"{path.name} seems to be a web page.", "Download the data itself, not the page."
        )
    if suffix == ".parquet" and not start.startswith(b"PAR1"):
        raise DataError(f"{path.name} is not a Parquet file.", f"Name it as what it is: {FORMS}.")
    utf16 = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    if utf16 and not encoding.lower().startswith(("utf-16", "utf16", "utf_16", "utf-32")):
        raise DataError(f"{path.name} seems to be UTF-16 text.", "Say so: --encoding utf-16.")


def _dict_rows(rows: Iterable[Any]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            _check_names(number, row)
            yield Row(number, None, row)
        else:
            yield Row(number, None, {}, f"a {type(row).__name__}, not a dict of columns")


def _check_names(number: int, row: Mapping[Any, Any]) -> None:
    for name in row:
        if not isinstance(name, str):
            raise DataError(
                f"{GIVEN}, row {number}: the name of a column is {name!r}, not a string.",
                'Give rows such as {"text": "…", "label": "…"}.',
            )


def _frame_rows(frame: Any) -> Rows:
    columns = [str(column) for column in frame.columns]
    values = frame.itertuples(index=False, name=None)
    return Rows(GIVEN, _zipped(columns, values), columns)


def _parquet_rows(path: Path) -> Rows:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from None
    columns = file.schema_arrow.names

    def values() -> Iterator[tuple[object, ...]]:
        try:
            for batch in file.iter_batches(PARQUET_BATCH):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, error) from None

    return Rows(path.name, _zipped(columns, values()), columns)


def _damaged(path: Path, error: Exception) -> Exception:
    if isinstance(error, MemoryError):  # Arrow counts it among its own
        return error
    reason = str(error).splitlines()[0].rstrip(".")
    return DataError(f"{path.name} is not a whole Parquet file: {reason}.", "Write it again.")


def _hub_rows(source: str) -> Rows:
    asked = HUB.fullmatch(source)
    if asked is None:
        raise DataError(f"{source!r} is not the name of a hub dataset.", HUB_FORM)
    from datasets import load_dataset

    split = asked["split"] or "train"
    try:
        dataset = load_dataset(asked["name"], asked["config"], split=split)
    except Exception as error:  # the hub client raises errors of a dozen packages
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"{source} could not be had from the hub: {reason[0].rstrip('.')}.",
            f"Check the name and the connection, or give a file. {HUB_FORM}",
        ) from error
    return _dataset_rows(dataset, source)


def _dataset_rows(dataset: Any, name: str) -> Rows:
    """Classes that the dataset keeps as numbers get the names it keeps beside them."""
    classes = {column: _class_names(kind) for column, kind in dataset.features.items()}

    def values() -> Iterator[tuple[object, ...]]:
        for batch in dataset.iter(BATCH):
            columns = (
                [_named(value, names) for value in batch[column]] if names else batch[column]
                for column, names in classes.items()
            )
            yield from zip(*columns, strict=True)

    return Rows(name, _zipped(list(classes), values()), classes)


def _class_names(feature: Any) -> list[str] | None:
    """Of a ClassLabel, or of a list of them."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _named(value: Any, names: list[str]) -> object:
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    return names[value] if value is not None and value >= 0 else None  # -1: not labelled


def _zipped(columns: list[str], values: Iterable[tuple[object, ...]]) -> Iterator[Row]:
    for number, cells in enumerate(values, 1):
        yield Row(number, None, dict(zip(columns, cells, strict=True)))


def _is_a(source: object, package: str, name: str) -> bool:
    """Whether it is of that class, without importing the package."""
    return any(
        each.__name__ == name and each.__module__.split(".")[0] == package
        for each in type(source).__mro__
    )
