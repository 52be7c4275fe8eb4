"""Files of rows that appear when they are whole."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from adapterbank.errors import DataError


@contextmanager
def table_writer(out: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes a row to .csv, .tsv or .jsonl; the first one sets the columns."""
    suffix = out.suffix.lower()
    if suffix not in (".csv", ".tsv", ".jsonl"):
        raise DataError(f"{out.name} cannot be written.", "Give a .csv, .tsv or .jsonl file.")
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            yield _lines(file) if suffix == ".jsonl" else _cells(file, suffix)
        partial.replace(out)
    except OSError as error:
        raise DataError(f"{out} cannot be written: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)


def _lines(file: IO[str]) -> Callable[[dict[str, Any]], None]:
    return lambda row: print(json.dumps(row, ensure_ascii=False, default=str), file=file)


def _cells(file: IO[str], suffix: str) -> Callable[[dict[str, Any]], None]:
    writers: list[csv.DictWriter[str]] = []

    def write(row: dict[str, Any]) -> None:
        if not writers:
            delimiter = "\t" if suffix == ".tsv" else ","
            writers.append(csv.DictWriter(file, list(row), delimiter=delimiter))
            writers[0].writeheader()
        writers[0].writerow(row)

    return write
