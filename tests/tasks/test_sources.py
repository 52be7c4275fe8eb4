"""Every source gives the same rows; every file that cannot be read says why and what to do."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.errors import DataError
from adapterbank.tasks import textfiles
from adapterbank.tasks.rows import Row
from adapterbank.tasks.sources import hub_name, open_rows

TABLE = [
    {"text": "a first one", "label": "yes"},
    {"text": "two\nlines, “quoted”", "label": "no"},
    {"text": "שלום 👋🏽 مرحبا", "label": "yes"},
]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def values(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [dict(row.values) for row in rows]


def problem(path: object, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        list(open_rows(path, **options))
    return str(caught.value)


def test_every_source_gives_the_same_rows(tmp_path: Path) -> None:
    import datasets
    import pandas as pd

    frame = pd.DataFrame(TABLE)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_csv(tmp_path / "rows.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "rows.parquet")
    lines = "".join(json.dumps(row) + "\n\n" for row in TABLE)
    write(tmp_path, "rows.jsonl", lines)
    write(tmp_path, "rows.ndjson", lines)
    files = [tmp_path / f"rows.{each}" for each in ("csv", "tsv", "parquet", "jsonl", "ndjson")]
    sources = [TABLE, iter(TABLE), frame, datasets.Dataset.from_list(TABLE), *files]
    for source in [*sources, *map(str, files)]:
        rows = open_rows(source)
        assert rows.columns == ("text", "label")
        assert rows.name == (Path(source).name if isinstance(source, Path | str) else rows.name)
        found = list(rows)
        assert values(found) == TABLE
        assert [row.number for row in found] == [1, 2, 3]
        assert rows.notes == ()


def test_where_a_row_stands(tmp_path: Path) -> None:
    path = write(tmp_path, "rows.csv", 'text,label\r\n\r\n"one\r\ntwo",a\r\nthree,b\r\n')
    rows = open_rows(path)
    assert [rows.where(row) for row in rows] == [
        "rows.csv, row 1 (line 3)",
        "rows.csv, row 2 (line 5)",
    ]
    rows = open_rows(TABLE)
    assert rows.where(next(rows)) == "the rows given, row 1"


def test_rows_are_streamed(tmp_path: Path) -> None:
    """A broken row far below the ones that are taken is not seen."""
    path = write(tmp_path, "rows.csv", "text,label\n" + "some words,a\n" * 5_000 + "broken\n")
    rows = open_rows(path)
    assert len(list(itertools.islice(rows, 5_000))) == 5_000
    with pytest.raises(DataError, match=r"row 5001 \(line 5002\): 1 cell where the header has 2"):
        next(rows)


def test_unreadable_rows_can_be_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path, "rows.csv", "text,label\na,b,c\nd,e\nf\n")
    assert [(row.number, row.problem) for row in open_rows(path).with_unreadable()] == [
        (1, "3 cells where the header has 2 (texts with commas in them need quotes)"),
        (2, ""),
        (3, "1 cell where the header has 2"),
    ]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_endings_and_byte_order_mark(tmp_path: Path, ending: str, mark: bytes) -> None:
    content = ending.join(["text,label", "a,b", "c,d"]).encode()
    rows = open_rows(write(tmp_path, "rows.csv", mark + content))
    assert values(rows) == [{"text": "a", "label": "b"}, {"text": "c", "label": "d"}]


@pytest.mark.parametrize(
    ("name", "content", "notes"),
    [
        ("a.csv", "text;label\nx, y;z\n", ("a.csv: cells are parted by semicolons",)),
        ("a.csv", "text\tlabel\nx, y\tz\n", ("a.csv: cells are parted by tabs",)),
        ("a.csv", "text|label\nx, y|z\n", ("a.csv: cells are parted by bars",)),
        ("a.csv", "sep=;\ntext;label\nx, y;z\n", ("a.csv: cells are parted by semicolons",)),
        ("a.csv", '"sep=|"\r\ntext|label\r\nx, y|z\r\n', ("a.csv: cells are parted by bars",)),
        ("a.csv", 'text,label,,\n"x, y",z,,\n,,,\n,,\n', ()),
        ("a.tsv", 'text,label\n"x, y",z\n', ("a.tsv: cells are parted by commas",)),
        ("a.csv", ' text ,label \n"x, y",z\n', ()),
    ],
)
def test_delimiters(tmp_path: Path, name: str, content: str, notes: tuple[str, ...]) -> None:
    rows = open_rows(write(tmp_path, name, content))
    assert values(rows) == [{"text": "x, y", "label": "z"}]
    assert rows.notes == notes


def test_empty_rows_count_where_something_follows(tmp_path: Path) -> None:
    rows = list(open_rows(write(tmp_path, "a.csv", "text,label\na,b\n,\nc,d\n,\n,\n")))
    assert [(row.number, row.line, row.values["text"]) for row in rows] == [
        (1, 2, "a"), (2, 3, ""), (3, 4, "c"),
    ]  # fmt: skip
    lines = open_rows(write(tmp_path, "b.csv", "sep=;\n\ntext;label\na;b\n"))
    assert [(row.number, row.line) for row in lines] == [(1, 4)]
    assert problem(write(tmp_path, "c.csv", "text,label,\na,b,c\n")) == (
        "c.csv, row 1 (line 2): 'c' stands in column 3, which has no name in the header "
        "(texts with commas in them need quotes)."
    )
    assert problem(write(tmp_path, "d.csv", "text,label,,\na,b,,,c\n")) == (
        "d.csv, row 1 (line 2): 5 cells where the header has 4 "
        "(texts with commas in them need quotes)."
    )


@pytest.mark.parametrize("row", ["Hello, world,", "Hello,world,,"])
def test_a_row_longer_than_its_header_is_never_cut(tmp_path: Path, row: str) -> None:
    cells = row.count(",") + 1
    said = f"{cells} cells where the header has 2 (texts with commas in them need quotes)"
    for content in (f"text,label\nfine,a\n{row}\n", f"text,label\n{row}\n{row}\n"):
        found = list(open_rows(write(tmp_path, "a.csv", content)).with_unreadable())
        assert found[-1].problem == said
    below = open_rows(write(tmp_path, "b.csv", "text,label\nfine,a\n,,,\n,,\n"))
    assert values(below) == [{"text": "fine", "label": "a"}]


def test_quotes_in_tables_with_tabs(tmp_path: Path) -> None:
    """Where every line is a row, a lone quote must not swallow the rows up to the next."""
    plain = 'text\tlabel\n"so it goes\ta\nmiddle\tb\nthe end"\tc\n'
    for above in ("\n\n", "sep=\t\n", '"sep=\t"\n\n'):
        three = f"{above}id\t" + plain.replace("\n", "\n1\t").removesuffix("1\t")
        found = open_rows(write(tmp_path, "b.tsv", three))
        assert [row.values["text"] for row in found] == ['"so it goes', "middle", 'the end"']
    rows = open_rows(write(tmp_path, "plain.tsv", plain))
    assert [row.values["text"] for row in rows] == ['"so it goes', "middle", 'the end"']
    assert rows.notes == ("plain.tsv: quotes are part of the texts",)
    quoted = 'text\tlabel\n"he said ""no"""\ta\n"two\nlines"\tb\n'
    rows = open_rows(write(tmp_path, "quoted.tsv", quoted))
    assert [row.values["text"] for row in rows] == ['he said "no"', "two\nlines"]
    assert rows.notes == ()


def test_encodings(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "text,label\nok,a\ncafé “x”,b\n".encode("cp1252"))
    assert problem(path) == (
        "a.csv, line 3: byte 0xe9 is not utf-8. Save the file as UTF-8, or say its encoding: "
        "--encoding cp1252, or --encoding latin-1."
    )
    assert values(open_rows(path, encoding="cp1252"))[1]["text"] == "café “x”"
    assert problem(path, encoding="klingon") == (
        "There is no text encoding 'klingon'. Known are utf-8, cp1252, latin-1, …"
    )
    assert "no text encoding 'base64'" in problem(path, encoding="base64")
    late = write(tmp_path, "late.csv", b"text,label\n" + b"some words,a\n" * 20_000 + b"\xff,a\n")
    assert problem(late).startswith("late.csv, line 20002: byte 0xff is not utf-8.")
    ends = write(tmp_path, "ends.csv", b"text,label\na,b\nc,\xc3")
    assert problem(ends).startswith("ends.csv, line 3: byte 0xc3 is not utf-8.")
    wide = write(tmp_path, "wide.tsv", "text\tlabel\nça\tb\n".encode("utf-16"))
    assert problem(wide) == "wide.tsv seems to be UTF-16 text. Say so: --encoding utf-16."
    assert values(open_rows(wide, encoding="utf-16")) == [{"text": "ça", "label": "b"}]


JSON_EACH = 'Write one object a line: {"text": "…", "label": "…"}.'
QUOTE_HINT = 'Close the quote; inside a quoted text a quote is written twice ("").'
BAD_FILES = {
    "empty": ("a.csv", b"", "a.csv is empty."),
    "blank": ("a.jsonl", b"\n \n", "a.jsonl is empty."),
    "header only": (
        "a.csv",
        b"text,label\n",
        "a.csv: there are no rows. Give at least one, below the header.",
    ),
    "open quote": (
        "a.csv",
        b'text,label\nfine,a\n"open,b\nmore,c\n',
        f'a.csv, line 3: a quote (") opens in this row and is never closed. {QUOTE_HINT}',
    ),
    "open quote before another": (
        "a.csv",
        b'text,label\n"open,b\nmore,c\n"closed",d\n',
        'a.csv, line 2: a quote (") opens in this row, and on line 4 a quote is followed by '
        f"more text. {QUOTE_HINT}",
    ),
    "ragged": (
        "a.csv",
        b"text,label\nfine,a\nwell, then,b\n",
        "a.csv, row 2 (line 3): 3 cells where the header has 2 "
        "(texts with commas in them need quotes).",
    ),
    "twice": (
        "a.csv",
        b"text,text\na,b\n",
        "a.csv: two columns are named 'text'. Rename one of them.",
    ),
    "unnamed": (
        "a.csv",
        b",text\n0,b\n",
        "a.csv: column 1 has no name. Name it in the header, or write the file without it "
        "(pandas: to_csv(…, index=False)).",
    ),
    "NUL": (
        "a.csv",
        b"text,label\na\0b,c\n",
        "a.csv, line 2: a NUL character stands in the text. The file is damaged, or in another "
        "encoding (--encoding utf-16?).",
    ),
    "parquet as csv": ("a.csv", b"PAR1....", "a.csv seems to be a Parquet file. Name it .parquet."),
    "excel as csv": (
        "a.csv",
        b"PK\x03\x04....",
        "a.csv seems to be an Excel file or a zip archive. Save it as CSV, or unpack it.",
    ),
    "gzip as csv": (
        "a.csv",
        gzip.compress(b"text"),
        "a.csv seems to be gzip-compressed. Unpack it first.",
    ),
    "pdf": ("a.tsv", b"%PDF-1.7", "a.tsv seems to be a PDF. Copy its texts into a CSV file."),
    "pointer": (
        "a.jsonl",
        b"version https://git-lfs.github.com/spec/v1\n",
        "a.jsonl seems to be a Git LFS pointer, not the data. Fetch it: git lfs pull.",
    ),
    "web page": (
        "a.csv",
        b"\n<!DOCTYPE html><html>",
        "a.csv seems to be a web page. Download the data itself, not the page.",
    ),
    "json lines as csv": (
        "a.csv",
        b'{"text": "a", "label": "b"}\n',
        "a.csv seems to hold JSON lines, not cells. Name it .jsonl.",
    ),
    "csv as json lines": (
        "a.jsonl",
        b"text,label\na,b\n",
        "a.jsonl seems to hold cells with a header, not JSON lines. "
        "Name it .csv, or .tsv if tabs part the cells.",
    ),
    "prose as json lines": (
        "a.jsonl",
        b"once upon\n",
        f"a.jsonl does not hold JSON lines. {JSON_EACH}",
    ),
    "a JSON list": (
        "a.jsonl",
        b'[{"text": "a"}]',
        f"a.jsonl seems to be one JSON list. {JSON_EACH}",
    ),
    "a JSON document": (
        "a.jsonl",
        b'{\n "text": "a"\n}\n',
        f"a.jsonl seems to be one JSON document over many lines. {JSON_EACH}",
    ),
    "bad JSON": (
        "a.jsonl",
        b'{"text": "a"}\n\n{"text": "b",}\n',
        "a.jsonl, row 2 (line 3): not JSON: "
        "Expecting property name enclosed in double quotes at character 14.",
    ),
    "deep JSON": (
        "a.jsonl",
        b'{"text": "a"}\n' + b"[" * 200_000 + b"\n",
        "a.jsonl, row 2 (line 2): not JSON: lists or objects nested too deep.",
    ),
    "a JSON string": (
        "a.jsonl",
        b'{"text": "a"}\n"b"\n',
        "a.jsonl, row 2 (line 2): a str, not an object {…}.",
    ),
    "many fields": (
        "a.jsonl",
        b'{"text": "a"}\n' + json.dumps({str(i): i for i in range(1_001)}).encode(),
        "a.jsonl, row 2 (line 2): 1001 fields; 1000 at most are read.",
    ),
    "many columns": (
        "a.csv",
        ",".join(f"c{i}" for i in range(1_001)).encode() + b"\nx" + b"," * 1_000,
        "a.csv has 1001 columns; 1000 at most are read.",
    ),
    "long cell": (
        "a.csv",
        b"text,label\n" + b"x" * 1_000_001 + b",a\n",
        "a.csv, line 2: a cell is longer than 1,000,000 characters, or a quote is not closed. "
        + QUOTE_HINT,
    ),
    "not parquet": (
        "a.parquet",
        b"text,label\na,b\n",
        "a.parquet is not a Parquet file. Name it as what it is: .csv, .tsv, .jsonl or .parquet.",
    ),
    "excel": (
        "a.xlsx",
        b"PK",
        "a.xlsx is not a .csv, .tsv, .jsonl or .parquet file. Save it as CSV.",
    ),
    "old excel": (
        "a.XLS",
        b"x",
        "a.XLS is not a .csv, .tsv, .jsonl or .parquet file. Save it as CSV.",
    ),
    "compressed": (
        "a.csv.gz",
        b"x",
        "a.csv.gz is not a .csv, .tsv, .jsonl or .parquet file. Unpack it first.",
    ),
    "unknown": (
        "a.dat",
        b"x",
        "a.dat is not a .csv, .tsv, .jsonl or .parquet file. Save it as one of these.",
    ),
    "json": (
        "a.json",
        b"{}",
        "a.json is not a .csv, .tsv, .jsonl or .parquet file. "
        "One object a line is read as .jsonl; SQuAD's form is read for span tasks.",
    ),
}


@pytest.mark.parametrize(("name", "content", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    assert problem(write(tmp_path, name, content)) == said


def test_damaged_parquet(tmp_path: Path) -> None:
    path = write(tmp_path, "a.parquet", b"PAR1" + b"x" * 100)
    assert problem(path).startswith("a.parquet is not a whole Parquet file: ")
    assert problem(path).endswith(" Write it again.")


def test_long_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textfiles, "MAX_LINE", 50)
    path = write(tmp_path, "a.jsonl", '{"text": "a"}\n{"text": "' + "x" * 60 + '"}\n')
    assert problem(path) == "a.jsonl, line 2 is longer than 50 characters."


def test_a_wider_limit_of_the_csv_module_is_left_alone(tmp_path: Path) -> None:
    before = csv.field_size_limit(5_000_000)
    try:
        list(open_rows(write(tmp_path, "a.csv", "text,label\na,b\n")))
        assert csv.field_size_limit() == 5_000_000
    finally:
        csv.field_size_limit(before)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    missing = tmp_path / "none.csv"
    assert problem(missing).startswith(f"There is no file {missing}. Check the path.")
    assert problem(tmp_path) == (
        f"{tmp_path.name} is a folder. Name a .csv, .tsv, .jsonl or .parquet file in it."
    )
    assert problem("/dev/null") == "null is not a regular file."


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([], "the rows given: there are no rows. Give at least one, below the header."),
        (["a"], "the rows given, row 1: a str, not a dict of columns."),
        ([{"text": "a"}, ("b",)], "the rows given, row 2: a tuple, not a dict of columns."),
        (
            {"text": ["a"]},
            "Rows cannot be read from an object of type dict. "
            "Give a path, a list of dicts, a DataFrame or one split of a dataset.",
        ),
        (
            7,
            "Rows cannot be read from an object of type int. "
            "Give a path, a list of dicts, a DataFrame or one split of a dataset.",
        ),
    ],
)
def test_sources_that_are_none(source: object, said: str) -> None:
    assert problem(source) == said


def test_classes_of_a_dataset_get_their_names() -> None:
    from datasets import ClassLabel, Dataset, Features, Sequence, Value

    classes = ClassLabel(names=["bad", "good"])
    features = Features(text=Value("string"), label=classes, labels=Sequence(classes))
    rows = {"text": ["a", "b", "c"], "label": [1, -1, None], "labels": [[0, 1], [], [1]]}
    found = values(open_rows(Dataset.from_dict(rows, features=features)))
    assert [row["label"] for row in found] == ["good", None, None]
    assert [row["labels"] for row in found] == [["bad", "good"], [], ["good"]]


def test_fields_may_differ_from_line_to_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "a"}\n{"label": 1, "text": "b", "text": "c"}\n')
    rows = open_rows(path)
    assert rows.columns == ("text", "label")
    assert values(rows) == [{"text": "a"}, {"label": 1, "text": "c"}]


@pytest.mark.parametrize(
    ("source", "hub"),
    [
        ("hub:someone/things", "hub:someone/things"),
        ("someone/things", "hub:someone/things"),
        ("someone/things.csv", ""),
        ("someone/things.txt", ""),
        ("./things", ""),
        ("things", ""),
        ("a/b/c", ""),
        (Path("someone/things"), ""),
    ],
)
def test_what_means_the_hub(source: object, hub: str) -> None:
    assert hub_name(source) == hub


def test_a_folder_of_that_name_keeps_the_hub_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert hub_name("data/train") == ""
    assert problem("data/train").startswith("There is no file data/train. Check the path.")


def test_hub_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def load(name: str, config: str | None, split: str) -> datasets.Dataset:
        asked.append((name, config, split))
        return datasets.Dataset.from_list(TABLE)

    monkeypatch.setattr(datasets, "load_dataset", load)
    for source in ("hub:things", "hub:some-one/things:dev", "hub:some-one/things/small:test"):
        rows = open_rows(source)
        assert rows.name == source
        assert values(rows) == TABLE
    assert asked == [
        ("things", None, "train"),
        ("some-one/things", None, "dev"),
        ("some-one/things", "small", "test"),
    ]


FORM = (
    "A hub dataset is hub:OWNER/NAME, with a configuration and a split if need be: "
    "hub:OWNER/NAME/CONFIGURATION:SPLIT."
)


def test_hub_out_of_reach() -> None:
    """Tests are offline, so this is what a person without a connection sees."""
    said = problem("hub:nobody/nothing")
    assert said.startswith("hub:nobody/nothing could not be had from the hub: ")
    assert said.endswith(f" Check the name and the connection, or give a file. {FORM}")
    assert problem("hub:a b") == f"'hub:a b' is not the name of a hub dataset. {FORM}"


CELLS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=100, deadline=None)
@given(table=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_what_csv_writes_is_read(
    table: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([("text", "label"), *table])
    while table and not any(table[-1]):  # what a spreadsheet writes below its last row
        table.pop()
    if table:
        assert [tuple(row.values.values()) for row in open_rows(path)] == table
    else:
        assert problem(path) == "a.csv: there are no rows. Give at least one, below the header."
