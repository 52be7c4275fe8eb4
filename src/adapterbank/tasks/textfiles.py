"""CSV, TSV and JSON lines: bounded, strict, with the line in every error."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from adapterbank.errors import DataError
from adapterbank.tasks.cells import MAX_CELL, counted, shown
from adapterbank.tasks.rows import MAX_COLUMNS, Row, Rows

MAX_LINE = 10_000_000  # characters
MOST_EMPTY = 10_000  # rows that are held until it is known whether one with something follows
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_EXCEL = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # a first line that Excel writes and reads


def csv_rows(path: Path, encoding: str) -> Rows:
    """A table with a header line; cells parted by tabs in `.tsv`, by commas otherwise.

    A header without that delimiter but with another one decides for the other one.
    """
    name = path.name
    lines = read_lines(path, encoding)
    before, header = _first_line(lines, name)
    if header.lstrip().startswith("{") and isinstance(_json(header), dict):
        raise DataError(f"{name} seems to hold JSON lines, not cells.", "Name it .jsonl.")
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    said = _EXCEL.fullmatch(header)
    if said and said[1] in DELIMITERS:
        more, header = _first_line(lines, name)
        before = [*before, "\n", *more]  # lines keep their numbers
    likely = (said[1],) if said else ()
    delimiter = next((each for each in (*likely, usual, *DELIMITERS) if each in header), usual)
    notes = []
    if delimiter != usual:
        notes.append(f"{name}: cells are parted by {DELIMITERS[delimiter]}")
    if csv.field_size_limit() < MAX_CELL:
        csv.field_size_limit(MAX_CELL)
    table = islice(read_lines(path, encoding), len(before), None)
    plain = delimiter == "\t" and _quotes_are_plain(table)
    if plain:
        notes.append(f"{name}: quotes are part of the texts")

    records = _records(chain(before, [header], lines), name, delimiter, plain)
    _, names = next(records)
    columns = [each.strip() for each in names]
    while len(columns) > 1 and not columns[-1]:  # spreadsheets write empty columns behind the last
        columns.pop()
    rows = _csv_rows(records, columns, len(names), DELIMITERS[delimiter])
    return Rows(name, rows, columns, tuple(notes))


def jsonl_rows(path: Path, encoding: str) -> Rows:
    """One JSON object a line; blank lines are passed over."""
    lines = read_lines(path, encoding)
    before, first = _first_line(lines, path.name)
    _refuse_other_than_jsonl(first.strip(), path.name)
    return Rows(path.name, _jsonl_rows(chain(before, [first], lines)))


def read_lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a text file with their ends; a byte order mark is left out."""
    number = 0
    try:
        if codecs.lookup(encoding).name == "utf-8":
            encoding = "utf-8-sig"
        with path.open(encoding=encoding, newline="") as file:
            while line := file.readline(MAX_LINE):
                number += 1
                if "\0" in line:
                    raise DataError(
                        f"{path.name}, line {number}: a NUL character stands in the text.",
                        "The file is damaged, or in another encoding (--encoding utf-16?).",
                    )
                if len(line) == MAX_LINE:
                    raise DataError(
                        f"{path.name}, line {number} is longer than {MAX_LINE:,} characters."
                    )
                yield line
    except (LookupError, ValueError) as error:
        if isinstance(error, UnicodeError):
            raise _undecodable(path, encoding) from None
        raise DataError(
            f"There is no text encoding {encoding!r}.", "Known are utf-8, cp1252, latin-1, …"
        ) from None
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}.") from None


def _undecodable(path: Path, encoding: str) -> DataError:
    """Finds the first byte that is not of the encoding. The reader itself knows no line."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, byte = 1, ""
    with path.open("rb") as file:
        while not byte:
            piece = file.read(1 << 16)
            try:
                line += decoder.decode(piece, final=not piece).count("\n")
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                byte = f"byte 0x{error.object[error.start]:02x}"
            except UnicodeError:
                byte = "the text"
            if not piece:
                byte = byte or "the text"
    encoding = encoding.removesuffix("-sig")
    return DataError(
        f"{path.name}, line {line}: {byte} is not {encoding}.",
        "Save the file as UTF-8, or say its encoding: --encoding cp1252, or --encoding latin-1.",
    )


def _first_line(lines: Iterator[str], name: str) -> tuple[list[str], str]:
    """The blank lines at the top, and the first line with something on it."""
    blank: list[str] = []
    for line in lines:
        if line.strip():
            return blank, line
        blank.append(line)
    raise DataError(f"{name} is empty.")


def _records(
    lines: Iterable[str], name: str, delimiter: str, plain: bool
) -> Iterator[tuple[int, list[str]]]:
    """Every record with the line it starts on."""
    reader = csv.reader(
        lines,
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL,
        strict=True,
    )
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise _csv_error(str(error), f"{name}, line {line}", reader.line_num) from None


def _csv_error(reason: str, where: str, last: int) -> DataError:
    hint = 'Close the quote; inside a quoted text a quote is written twice ("").'
    if "unexpected end" in reason:
        return DataError(f'{where}: a quote (") opens in this row and is never closed.', hint)
    if "expected after" in reason:
        return DataError(
            f'{where}: a quote (") opens in this row, and on line {last} a quote '
            "is followed by more text.",
            hint,
        )
    if "field limit" in reason:
        return DataError(
            f"{where}: a cell is longer than {MAX_CELL:,} characters, or a quote is not closed.",
            hint,
        )
    return DataError(f"{where}: {reason}.")


def _csv_rows(
    records: Iterator[tuple[int, list[str]]], columns: list[str], headed: int, delimiter: str
) -> Iterator[Row]:
    """Rows of nothing but empty cells are rows, unless nothing follows: spreadsheets write them.
    The header has `headed` cells; those behind the columns are empty."""
    empty: list[Row] = []
    for number, (line, cells) in enumerate(records, 1):
        row = _csv_row(Row(number, line, {}), cells, columns, headed, delimiter)
        empty.append(row)
        if any(cells) or len(empty) == MOST_EMPTY:
            yield from empty
            empty = []


def _csv_row(row: Row, cells: list[str], columns: list[str], headed: int, delimiter: str) -> Row:
    width = len(columns)
    if width < len(cells) <= headed and not any(cells[width:]):
        cells = cells[:width]
    if len(cells) == width:
        return row._replace(values=dict(zip(columns, cells, strict=True)))
    if width < len(cells) <= headed:
        number, cell = next(each for each in enumerate(cells, 1) if each[0] > width and each[1])
        problem = f"{shown(cell)} stands in column {number}, which has no name in the header"
    else:
        problem = f"{counted(len(cells), 'cell')} where the header has {headed}"
    if len(cells) > width:
        problem += f" (texts with {delimiter} in them need quotes)"
    return row._replace(problem=problem)


def _quotes_are_plain(lines: Iterable[str]) -> bool:
    """Whether a table with tabs was written without quoting, as many are.

    Then nearly every line is a row by itself, and some have quotes that CSV would not take:
    one that opens a cell and is not closed would swallow the rows up to the next.
    """
    width, count, ragged, quoted = -1, 0, 0, True
    for line in lines:
        tabs = line.count("\t")
        width = tabs if width < 0 else width
        count += 1
        ragged += tabs != width and bool(line.strip())
        if quoted and '"' in line:
            try:
                next(csv.reader([line], delimiter="\t", strict=True))
            except csv.Error:
                quoted = False
    return not quoted and ragged <= count // 100


def _jsonl_rows(lines: Iterable[str]) -> Iterator[Row]:
    number = 0
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        number += 1
        found = _json(line)
        if isinstance(found, ValueError):
            yield Row(number, place, {}, f"not JSON: {found}")
        elif not isinstance(found, dict):
            yield Row(number, place, {}, f"a {type(found).__name__}, not an object {{…}}")
        elif len(found) > MAX_COLUMNS:
            yield Row(number, place, {}, f"{len(found)} fields; {MAX_COLUMNS} at most are read")
        else:
            yield Row(number, place, found)


def _json(text: str) -> object:
    """What the text holds, or the error that says why it is not JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return ValueError(f"{error.msg} at character {error.pos + 1}")
    except ValueError as error:  # a number with thousands of digits
        return error
    except RecursionError:
        return ValueError("lists or objects nested too deep")


def _refuse_other_than_jsonl(first: str, name: str) -> None:
    each = 'Write one object a line: {"text": "…", "label": "…"}.'
    if first == "{":
        raise DataError(f"{name} seems to be one JSON document over many lines.", each)
    if first.startswith("["):
        raise DataError(f"{name} seems to be one JSON list.", each)
    if not first.startswith("{") and isinstance(_json(first), ValueError):
        if any(delimiter in first for delimiter in DELIMITERS):
            raise DataError(
                f"{name} seems to hold cells with a header, not JSON lines.",
                "Name it .csv, or .tsv if tabs part the cells.",
            )
        raise DataError(f"{name} does not hold JSON lines.", each)
