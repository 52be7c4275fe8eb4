"""One cell at a time: what stands in it as a text, a class, several classes or a number."""

from __future__ import annotations

import ast
import json
import math
import re
import reprlib
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

MAX_CELL = 1_000_000  # characters
MAX_LABEL = 256  # characters
MAX_LIST = 10_000  # characters of a list written out in a cell
SEPARATORS = "|;,"

# A label before the kind is known: nothing, one name, or a list of names.
Cell = str | tuple[str, ...] | None

_WHOLE = re.compile(r"-?\d+\.0")
_COMMA = re.compile(r"[+-]?\d+,\d+")  # 0,55
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,250 is 1250 to some and 1.25 to others


class BadCell(Exception):
    """Why a row can't be used. `sort` is the same for rows that are bad in the same way."""

    def __init__(self, sort: str, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.sort = sort
        self.hint = hint


def shown(value: object, width: int = 60) -> str:
    """A value for a message, shortened."""
    if isinstance(value, str):
        return repr(value if len(value) <= width else f"{value[:width]}…")
    return reprlib.repr(value)


def read_text(value: object, what: str = "text") -> str:
    """A text with its characters as they are. Whitespace alone is no text."""
    if not isinstance(value, str):
        value = _plain(value)
        if _missing(value):
            raise BadCell(f"no {what}", f"the {what} is empty")
        if not isinstance(value, int | float | Decimal):
            raise BadCell(f"odd {what}", f"the {what} is a {_type(value)}: {shown(value)}")
        return _name(value)
    if not value or value.isspace():
        raise BadCell(f"no {what}", f"the {what} is empty")
    if len(value) > MAX_CELL:
        raise BadCell(
            f"long {what}",
            f"the {what} has {len(value):,} characters; {MAX_CELL:,} at most are read",
        )
    if not encodable(value):
        raise BadCell(f"odd {what}", f"the {what} holds half a character: {shown(value)}")
    return value


def read_cell(value: object) -> Cell:
    """What a label cell holds, before it is known what kind of label it is."""
    if isinstance(value, str):
        return _label(value)
    value = _plain(value)
    if _missing(value):
        return None
    if not isinstance(value, list | tuple | set | frozenset):
        return _label(_name(value))
    names = [_label(_name(each)) for each in map(_plain, value)]
    if len(set(names)) < len(names) and not all(isinstance(each, str) for each in value):
        raise BadCell(
            "twice",
            f"the list {shown(value)} has a number more than once",
            "List the classes that hold, by name or number, not zeros and ones.",
        )
    return tuple(dict.fromkeys(name for name in names if name))


def read_number(cell: Cell) -> float:
    """The number of a regression."""
    if cell is None:
        raise missing_label()
    text = cell if isinstance(cell, str) and "_" not in cell else ""
    if _THOUSANDS.fullmatch(text):
        raise BadCell(
            "no number",
            f"the label {shown(cell)} may be two numbers",
            f"Write {text.replace(',', '')} or {text.replace(',', '.')}.",
        )
    try:
        number = float(text.replace(",", ".") if _COMMA.fullmatch(text) else text)
    except ValueError:
        raise BadCell(
            "no number",
            f"the label {shown(cell)} is not a number",
            "For classes, say --kind classification.",
        ) from None
    if not math.isfinite(number):
        raise BadCell("no number", f"the label {shown(cell)} is not a finite number")
    return number


def missing_label() -> BadCell:
    """A label that is None, empty or NaN."""
    return BadCell("no label", "the label is missing (empty, null or NaN)")


def find_separator(cells: Iterable[Cell]) -> str:
    """What parts the names in a column: the first of | ; , that occurs; empty if none does."""
    plain = {cell for cell in cells if isinstance(cell, str) and not cell.startswith("[")}
    seen = {mark for cell in plain for mark in SEPARATORS if mark in cell}
    return next((mark for mark in SEPARATORS if mark in seen), "")


def split_names(cell: Cell, separator: str) -> tuple[str, ...]:
    """The names in a multi-label cell; an empty one has none."""
    if cell is None:
        return ()
    if isinstance(cell, tuple):
        return cell
    listed = read_list(cell)
    if listed is not None:
        return listed
    parts = cell.split(separator) if separator else [cell]
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def split_known(cell: Cell, known: Collection[str]) -> tuple[str, ...]:
    """The names in a multi-label cell, by whichever separator gives known ones."""
    whole = split_names(cell, "")
    if not isinstance(cell, str) or all(name in known for name in whole):
        return whole
    ways = [split_names(cell, mark) for mark in SEPARATORS if mark in cell]
    fitting = (names for names in ways if all(name in known for name in names))
    return next(fitting, ways[0] if ways else whole)


def read_list(cell: str) -> tuple[str, ...] | None:
    """The names in a JSON list, or in a list as Python (and so pandas) prints it; else None."""
    if not (cell.startswith("[") and cell.endswith("]")) or len(cell) > MAX_LIST:
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            found = read_cell(parse(cell))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        return found if isinstance(found, tuple) else None
    return None


def class_name(label: str, names: Mapping[str, str]) -> str:
    """The name of a class; `names` has those that the data give by number or code."""
    if len(label) > MAX_LABEL:
        raise BadCell(
            "long label",
            f"the label has {len(label):,} characters; {MAX_LABEL} at most are read",
            "Say which column holds the label: --label-column.",
        )
    if not encodable(label):
        raise BadCell("odd label", f"the label holds half a character: {shown(label)}")
    if not names or label in names.values():
        return label
    if label not in names:
        raise BadCell(
            "unnamed", f"the label {shown(label)} is not in label_names ({listing(names)})"
        )
    return names[label]


def listing(names: Iterable[str], most: int = 10) -> str:
    """A list for a message, shortened."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def counted(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _label(text: str) -> str | None:
    """A class name: stripped, and without the `.0` that whole numbers get among missing ones."""
    text = text.strip()
    if text.endswith(".0") and _WHOLE.fullmatch(text):
        text = text[:-2]
    return text or None


def _name(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str | int | float | Decimal):
        return str(value)
    raise BadCell("odd label", f"the label is a {_type(value)}: {shown(value)}")


def _plain(value: object) -> object:
    """NumPy's numbers and arrays as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _missing(value: object) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _type(value: object) -> str:
    return type(value).__name__


def encodable(text: str) -> bool:
    """Whether it is made of whole characters, as UTF-8 can write them."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
