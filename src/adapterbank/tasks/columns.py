"""Which columns hold the text, the second text and the label, and what kind of label it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from adapterbank.errors import DataError
from adapterbank.tasks.cells import (
    BadCell,
    Cell,
    find_separator,
    listing,
    read_list,
    read_number,
    shown,
    split_names,
)
from adapterbank.tasks.rows import Rows
from adapterbank.tasks.task import Kind

# Names are compared without case, spaces, hyphens and underscores; the first found is taken.
# fmt: off
PAIRS = (
    ("texta", "textb"), ("text1", "text2"), ("sentence1", "sentence2"),
    ("sentencea", "sentenceb"), ("premise", "hypothesis"), ("question1", "question2"),
    ("question", "context"), ("question", "sentence"), ("question", "passage"),
    ("query", "document"), ("query", "passage"), ("claim", "evidence"), ("question", "answer"),
)
TEXTS = (
    "text", "texts", "sentence", "content", "message", "tweet", "review", "body", "comment",
    "query", "utterance", "question", "document", "post", "description", "input", "sms",
    "reviewtext", "article", "abstract", "passage", "headline", "title",
)
LABELS = (
    "label", "labels", "class", "category", "target", "intent", "sentiment", "tag", "tags",
    "topic", "topics", "score", "rating", "stars", "y", "emotion", "polarity", "stance",
    "similarity", "goldlabel", "isduplicate", "categories", "classes", "genre", "answer",
)
# fmt: on
MANY = {"labels", "tags", "topics", "categories", "classes"}
MAX_CLASSES_OF_NUMBERS = 50
LONG_NAME = 40
_TWO_CODES = re.compile("[0-9],[0-9]")


@dataclass(frozen=True)
class Columns:
    """The columns that are read; `label` is empty where none is wanted."""

    text: str
    label: str = ""
    pair: str = ""
    guessed: bool = False
    """Whether what the columns hold had to decide, for want of names."""

    def roles(self) -> dict[str, str]:
        """The columns by what they hold."""
        found = {"text": self.text, "pair": self.pair, "label": self.label}
        return {role: column for role, column in found.items() if column}

    def note(self) -> str:
        """For people."""
        found = f"text from {self.text!r}"
        if self.pair:
            found = f"texts from {self.text!r} and {self.pair!r}"
        if self.label:
            found = f"{found}, label from {self.label!r}"
        return f"{found}: chosen by what they hold" if self.guessed else found


def find_columns(
    rows: Rows,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    labelled: bool = True,
    pairs: bool | None = None,
) -> Columns:
    """Columns as given, else by their names, else by what they hold if there are just two.

    `pairs`: two texts (True), one (False), or two where the names of two are found (None).
    """
    if not rows.columns:
        first = rows.head[0]
        raise DataError(
            f"{rows.where(first)}: {first.problem or 'it has no columns'}.",
            'Give rows such as {"text": "…", "label": "…"}.',
        )
    given = [column for column in (text, pair, label) if column]
    for column in given:
        need_column(rows, column)
        if given.count(column) > 1:
            raise DataError(f"The column {column!r} is named for two things.")
    if not labelled:
        label = ""
    elif not label:
        label = _named(rows, LABELS, without=(text, pair))
    if pairs or (pairs is None and not text):
        text, pair = _find_pair(rows, text, pair, label)
    if pairs and not pair:
        raise DataError(
            f"{rows.name}: two texts are needed, and no second one is found among the columns "
            f"{_columns(rows)}.",
            "Name both: --text-column and --pair-column.",
        )
    text = text or _named(rows, TEXTS, without=(pair, label))
    return _guess_rest(rows, text, pair or "", label, labelled)


def need_column(rows: Rows, column: str, role: str = "") -> None:
    """An error that lists the columns if this one is not there."""
    if column in rows.columns:
        return
    near = get_close_matches(column, rows.columns, 1)
    hint = f"Did you mean {near[0]!r}?" if near else ""
    raise DataError(
        f"{rows.name}: there is no column {column!r}{role}. Its columns are {_columns(rows)}.", hint
    )


def infer_kind(cells: Iterable[Cell], column: str) -> Kind:
    """What kind of label a column holds: several names, numbers, or one name each."""
    found = set(cells) - {None}
    names = {cell for cell in found if isinstance(cell, str)}
    if len(names) < len(found):
        return "multi-label"
    if names and all(_is_list(name) for name in names):
        return "multi-label"
    if _key(column) in MANY and _are_lists(names):
        return "multi-label"
    numbers = [number for number in map(_number, names) if number is not None]
    # One odd value among many numbers is a mistake to be told, not a class.
    if not numbers or len(numbers) < 0.95 * len(names):
        return "classification"
    fractions = any(not number.is_integer() for number in numbers)
    many = len(set(numbers)) > MAX_CLASSES_OF_NUMBERS
    if not fractions and not many:
        return "classification"
    lists = code_lists(names)
    codes = {code for name in names for code in name.split(",")}
    # The same few codes in many lists; fractions with as few digits seldom all rise.
    return "multi-label" if lists and len(codes) <= len(lists) else "regression"


def code_lists(cells: Iterable[Cell]) -> set[str]:
    """Cells such as 0,2 where all that have a comma may be fractions as well as lists of classes:
    two digits, the second of them the larger."""
    commas = {cell for cell in cells if isinstance(cell, str) and "," in cell}
    rising = all(_TWO_CODES.fullmatch(cell) and cell[0] < cell[2] for cell in commas)
    return commas if rising else set()


def _are_lists(names: set[str]) -> bool:
    """Whether cells hold names with something between them. A comma may belong to a name, so it
    counts only where the same few names come back in many lists."""
    mark = find_separator(names)
    if mark != ",":
        return bool(mark)
    return len({part for name in names for part in split_names(name, mark)}) < len(names)


def _find_pair(
    rows: Rows, text: str | None, pair: str | None, label: str
) -> tuple[str | None, str | None]:
    """The first pair of known names that agrees with what is given."""
    if text and pair:
        return text, pair
    names = _by_key(rows.columns)
    for first, second in PAIRS:
        if first not in names or second not in names:
            continue
        found = names[first], names[second]
        if label not in found and text in (None, found[0]) and pair in (None, found[1]):
            return found
    return text, pair


def _guess_rest(rows: Rows, text: str, pair: str, label: str, labelled: bool) -> Columns:
    """With one column left for one part, or two columns for text and label, no name is needed."""
    left = [each for each in rows.columns if each not in (text, pair, label)]
    wanted = int(not text) + int(labelled and not label)
    if not text and not label and _header_is_data(rows):
        raise _no_header(rows)
    if wanted and len(left) != wanted:
        raise _unknown(rows, text, label, labelled)
    if wanted == 2:
        text, label = sorted(left, key=lambda each: -_mean_length(rows, each))
    elif not text:
        text = left[0]
    elif wanted:
        label = left[0]
    return Columns(text, label, pair, guessed=wanted == 2)


def _unknown(rows: Rows, text: str, label: str, labelled: bool) -> DataError:
    parts = ([] if text else ["text"]) + ([] if label or not labelled else ["label"])
    flags = " and ".join(f"--{part}-column" for part in parts)
    return DataError(
        f"{rows.name}: it is not clear which column holds the {' and which the '.join(parts)}. "
        f"Its columns are {_columns(rows)}.",
        f"Say so with {flags}.",
    )


def _no_header(rows: Rows) -> DataError:
    first = ", ".join(shown(each, 30) for each in rows.columns[:3])
    return DataError(
        f"{rows.name} seems to have no header: its first line is {first}.",
        "Put a line above that names the columns, such as text and label.",
    )


def _header_is_data(rows: Rows) -> bool:
    """Whether a column's name is long, a number, or one of its own cells."""
    return any(
        len(column) > LONG_NAME
        or _number(column) is not None
        or any(row.values.get(column) == column for row in rows.head)
        for column in rows.columns
    )


def _mean_length(rows: Rows, column: str) -> float:
    return sum(len(str(row.values.get(column, ""))) for row in rows.head) / len(rows.head)


def _named(rows: Rows, known: Sequence[str], without: tuple[str | None, ...]) -> str:
    names = _by_key(each for each in rows.columns if each not in without)
    return next((names[key] for key in known if key in names), "")


def _by_key(columns: Iterable[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for column in columns:
        names.setdefault(_key(column), column)
    return names


def _key(column: str) -> str:
    return re.sub(r"[\s_-]+", "", column).casefold()


def _columns(rows: Rows) -> str:
    return listing((repr(each) for each in rows.columns), 20)


def _number(text: str) -> float | None:
    try:
        return read_number(text)
    except BadCell:
        return None


def _is_list(cell: str) -> bool:
    try:
        return read_list(cell) is not None
    except BadCell:
        return True
