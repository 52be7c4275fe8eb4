"""Rows that are sent as a file are learnt from as they are here."""

from __future__ import annotations

import errno
from collections import UserDict
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import patch

import numpy as np
import pytest

from adapterbank.errors import DataError
from adapterbank.tasks import as_file as as_file_module
from adapterbank.tasks.as_file import as_file
from adapterbank.tasks.load import load_task
from adapterbank.tasks.sources import Source
from adapterbank.tasks.task import Task

LABELS: dict[str, list[Any]] = {
    "names": ["yes", "no"],
    "numbers": [0, 1],
    "numpy": [np.int64(0), np.int64(1)],
    "truth": [True, np.bool_(False)],
    "decimals": [Decimal("1.0"), Decimal("2")],
    "fractions": [0.1, np.float32(1.5)],
    "lists": [["a", "b"], ("b",)],
    "arrays": [np.array(["a", "b"]), {"b"}],
    "no text": ["half \ud800", "whole"],
    "a date": [date(2024, 1, 1), date(2024, 1, 2)],
    "missing": [None, float("nan")],
}


def rows(labels: list[Any]) -> list[dict[str, Any]]:
    return [{"text": f"שלום {i}", "label": labels[i % 2], "day": date.today()} for i in range(60)]


def sent(source: Source, folder: Path, *, skip_bad: bool = False) -> Path:
    """The file that arrives."""
    with as_file(source, skip_bad=skip_bad) as (name, file):
        path = folder / name
        path.write_bytes(file.read())
    return path


def learnt(source: Source, **reading: Any) -> Task | str:
    """What a task is made of; else what is wrong, without where that stands."""
    try:
        task = load_task("t", source, **reading)
    except DataError as error:
        return error.message.partition(": ")[2].partition(":")[0]
    return task


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_rows_are_what_they_are_here(labels, tmp_path) -> None:
    here, there = learnt(rows(labels)), learnt(sent(rows(labels), tmp_path))
    if isinstance(here, str):
        assert isinstance(there, str)
        assert here.replace("date", "dict") == there
    else:
        assert isinstance(there, Task)
        assert (here.kind, here.labels, here.train) == (there.kind, there.labels, there.train)


def test_every_source_is_sent(tmp_path) -> None:
    import datasets
    import pandas as pd

    plain = [{"text": f"t {i}", "label": ("yes", "no")[i % 2], "n": None} for i in range(60)]
    frame = pd.DataFrame(plain)
    frame.loc[3, "n"] = 1.5
    frame["when"] = pd.to_datetime("2024-01-01")
    named = datasets.Dataset.from_list(plain).cast_column(
        "label", datasets.ClassLabel(names=["no", "yes"])
    )
    sources: list[Iterable[Any]] = [plain, iter(plain), [UserDict(r) for r in plain], frame, named]
    found = [learnt(sent(each, tmp_path)) for each in sources]
    assert [each.train for each in found] == [learnt(plain).train] * len(found)


def test_a_file_is_sent_as_it_is(tmp_path) -> None:
    file = tmp_path / "rows.CSV"
    file.write_bytes(b"text,label\na,b\n")
    for source in (file, str(file)):
        with as_file(source) as (name, opened):
            assert (name, opened.read()) == ("rows.CSV", file.read_bytes())
    with pytest.raises(DataError, match="There is no file"), as_file(tmp_path / "missing.csv"):
        pass


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-32", "cp1252", "cp037"])
def test_rows_are_read_in_the_encoding_of_the_files_beside_them(encoding, tmp_path) -> None:
    with as_file(rows(["yes", "no"]), encoding=encoding) as (name, file):
        (tmp_path / name).write_bytes(file.read())
    there = learnt(tmp_path / name, encoding=encoding)
    assert there.train == learnt(rows(["yes", "no"])).train


@pytest.mark.parametrize("encoding", ["klingon", "base64"])
def test_an_encoding_that_there_is_none_of(encoding) -> None:
    with pytest.raises(DataError, match=f"no text encoding '{encoding}'"):
        as_file(rows(["yes", "no"]), encoding=encoding).__enter__()


def test_a_file_that_may_not_be_read_is_said(tmp_path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    file = tmp_path / "rows.csv"
    file.write_text("text,label\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"rows\.csv cannot be read: Permission denied\."):
        as_file(file).__enter__()


def test_a_full_disk_is_said() -> None:
    def full() -> BinaryIO:
        return open("/dev/full", "w+b")  # noqa: PTH123

    for count in (1, 1_000):  # what fills no buffer shows when the file is closed
        with (
            patch.object(as_file_module, "TemporaryFile", full),
            pytest.raises(DataError, match=r"the rows given .* file to send: No space .*Free"),
        ):
            as_file(rows(["yes", "no"]) * count).__enter__()


def test_what_is_no_row(tmp_path) -> None:
    some = [*rows(["yes", "no"]), "no row"]
    with pytest.raises(DataError, match="the rows given, row 61: a str, not a dict"):
        sent(some, tmp_path)
    here = learnt(some, skip_bad=True)
    there = learnt(sent(some, tmp_path, skip_bad=True), skip_bad=True)
    assert here.train == there.train
    for task in (here, there):
        assert "left out 1 bad row: " in " ".join(task.notes)


def test_what_cannot_be_sent(tmp_path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (endless, {(1, 2): "x"}):
        with pytest.raises(DataError, match=r"row 1 cannot be sent: .* Give texts, numbers"):
            sent([{"text": "a", "label": value}], tmp_path)
    with pytest.raises(DataError, match="object of type int"):
        sent(5, tmp_path)
