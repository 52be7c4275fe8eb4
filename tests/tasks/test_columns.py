"""Columns are found by name, by content, or as given; kinds by what the labels are."""

from __future__ import annotations

from typing import Any

import pytest

from adapterbank.errors import DataError
from adapterbank.tasks.cells import BadCell, Cell, read_cell, read_text, shown, split_known
from adapterbank.tasks.columns import Columns, find_columns, infer_kind
from adapterbank.tasks.sources import open_rows


def find(*names: str, cells: dict[str, object] | None = None, **options: Any) -> Columns:
    row = {name: f"cell {i}" for i, name in enumerate(names)} | (cells or {})
    return find_columns(open_rows([row]), **options)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("text label", ("text", "label", "")),
        ("id Message Category date", ("Message", "Category", "")),
        ("SENTENCE1 sentence_2 Label", ("SENTENCE1", "Label", "sentence_2")),
        ("premise hypothesis label", ("premise", "label", "hypothesis")),
        ("question1 question2 is_duplicate", ("question1", "is_duplicate", "question2")),
        ("question sentence label", ("question", "label", "sentence")),
        ("text-a text-b score", ("text-a", "score", "text-b")),
        ("question passage answer", ("question", "answer", "passage")),
        ("question answer label", ("question", "label", "answer")),
        ("question answer", ("question", "answer", "")),
        ("title text label", ("text", "label", "")),
        ("text labels score", ("text", "labels", "")),
        ("words intent", ("words", "intent", "")),
        ("review verdict", ("review", "verdict", "")),
    ],
)
def test_by_name(names: str, found: tuple[str, str, str]) -> None:
    assert find(*names.split()) == Columns(*found)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"text": "b"}, ("b", "label", "")),
        ({"text": "b", "pair": "a"}, ("b", "label", "a")),
        ({"text": "a", "label": "b"}, ("a", "b", "")),
        ({"text": "a", "labelled": False}, ("a", "", "")),
    ],
)
def test_as_given(options: dict[str, Any], found: tuple[str, str, str]) -> None:
    assert find("a", "b", "label", **options) == Columns(*found)


def test_naming_one_text_means_one_text() -> None:
    names = ("premise", "hypothesis", "label")
    assert find(*names, text="premise").pair == ""
    assert find(*names, text="premise", pairs=True).pair == "hypothesis"
    assert find(*names, pair="hypothesis").text == "premise"
    assert find(*names, "text", pairs=False) == Columns("text", "label")


def test_two_columns_without_known_names_are_told_apart_by_length() -> None:
    cells = {"x": "short", "z": "a much longer piece of writing"}
    columns = find("x", "z", cells=cells)
    assert columns == Columns("z", "x", guessed=True)
    assert columns.note() == "text from 'z', label from 'x': chosen by what they hold"


def test_notes() -> None:
    assert Columns("a", "b").note() == "text from 'a', label from 'b'"
    assert Columns("a", "b", "c").note() == "texts from 'a' and 'c', label from 'b'"
    assert Columns("a").note() == "text from 'a'"


def test_a_single_column_is_the_text_to_predict() -> None:
    assert find("whatever", labelled=False) == Columns("whatever")


ITS = "Its columns are"
UNCLEAR = {
    "nothing known": (
        ("aa", "bb", "cc"),
        {},
        "the rows given: it is not clear which column holds the text and which the label. "
        f"{ITS} 'aa', 'bb', 'cc'. Say so with --text-column and --label-column.",
    ),
    "no label": (
        ("text", "bb", "cc"),
        {},
        "the rows given: it is not clear which column holds the label. "
        f"{ITS} 'text', 'bb', 'cc'. Say so with --label-column.",
    ),
    "no text": (
        ("aa", "bb", "label"),
        {},
        "the rows given: it is not clear which column holds the text. "
        f"{ITS} 'aa', 'bb', 'label'. Say so with --text-column.",
    ),
    "text alone": (
        ("text",),
        {},
        "the rows given: it is not clear which column holds the label. "
        f"{ITS} 'text'. Say so with --label-column.",
    ),
    "misspelt": (
        ("message", "label"),
        {"text": "mesage"},
        f"the rows given: there is no column 'mesage'. {ITS} 'message', 'label'. "
        "Did you mean 'message'?",
    ),
    "not there": (
        ("message", "label"),
        {"label": "zzz"},
        f"the rows given: there is no column 'zzz'. {ITS} 'message', 'label'.",
    ),
    "one for two": (
        ("message", "label"),
        {"text": "label", "label": "label"},
        "The column 'label' is named for two things.",
    ),
    "no pair": (
        ("text", "label"),
        {"pairs": True},
        "the rows given: two texts are needed, and no second one is found among the columns "
        "'text', 'label'. Name both: --text-column and --pair-column.",
    ),
    "many": (
        tuple(f"c{i}" for i in range(30)),
        {},
        "the rows given: it is not clear which column holds the text and which the label. "
        f"{ITS} {', '.join(repr(f'c{i}') for i in range(20))} and 10 more. "
        "Say so with --text-column and --label-column.",
    ),
}


@pytest.mark.parametrize(("names", "options", "said"), UNCLEAR.values(), ids=UNCLEAR)
def test_unclear_columns(names: tuple[str, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as caught:
        find(*names, **options)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (("ham", "see you at eight"), ("ham", "on my way")),
        (("1", "a fine film"), ("0", "a dull film")),
        (("good", "this is a sentence that nobody would call a column"), ("bad", "no")),
    ],
)
def test_a_first_line_of_data(header: tuple[str, str], row: tuple[str, str]) -> None:
    rows = open_rows([dict(zip(header, row, strict=True))])
    with pytest.raises(DataError, match="seems to have no header: its first line is '") as caught:
        find_columns(rows)
    assert caught.value.hint == "Put a line above that names the columns, such as text and label."


@pytest.mark.parametrize(
    ("row", "said"),
    [(("fine", "good"), "a tuple, not a dict of columns"), ({}, "it has no columns")],
)
def test_rows_without_columns(row: object, said: str) -> None:
    with pytest.raises(DataError) as caught:
        find_columns(open_rows([row]))
    assert str(caught.value) == (
        f'the rows given, row 1: {said}. Give rows such as {{"text": "…", "label": "…"}}.'
    )


def test_a_known_text_column_is_a_header() -> None:
    assert find("text", "spam", cells={"spam": "spam"}) == Columns("text", "spam")


KINDS: dict[str, tuple[list[Cell], str, str]] = {
    "names": (["a", "b"], "label", "classification"),
    "few numbers": (["0", "1", "2"], "label", "classification"),
    "fifty numbers": ([str(i) for i in range(50)], "y", "classification"),
    "many numbers": ([str(i) for i in range(51)], "y", "regression"),
    "fractions": (["0.5", "1", "2"], "score", "regression"),
    "whole fractions": (["1.00", "2.00"], "score", "classification"),
    "one odd value": ([f"{i}.5" for i in range(30)] + ["n/a"], "score", "regression"),
    "half odd": (["0.5", "1.5", "low", "high"], "score", "classification"),
    "missing ones": ([None, "0.5", None], "score", "regression"),
    "nothing": ([None], "score", "classification"),
    "lists": ([("a",), ()], "label", "multi-label"),
    "JSON lists": (['["a", "b"]', "[]"], "label", "multi-label"),
    "lists as pandas writes them": (["['a', 'b']", "['c']"], "label", "multi-label"),
    "bars": (["a|b", "a"], "labels", "multi-label"),
    "semicolons": (["a; b", "a"], "Tags", "multi-label"),
    "commas that part the same names": (["a,b", "b", "a"], "labels", "multi-label"),
    "commas within names": (["yes, please", "no, thanks"], "labels", "classification"),
    "commas": (["a, b", "a"], "labels", "classification"),
    "bars in one label": (["a|b", "a"], "label", "classification"),
    "a bracket": (["[a", "b"], "labels", "classification"),
    "decimal commas": (["2,8", "4,6", "3,2", "5,0", "4"], "score", "regression"),
    "halves with commas": ([f"{i},5" for i in range(5)] + list("12345"), "stars", "regression"),
    "tenths with commas": ([f"0,{i}" for i in range(1, 10)] + ["0", "1"], "y", "regression"),
    "codes that come back in many lists": (
        ["0,1", "0,2", "0,3", "1,2", "1,3", "2", None],
        "label",
        "multi-label",
    ),
    "lists or fractions": (["0,2", "1,3", "2", "0,1"], "label", "regression"),
}


@pytest.mark.parametrize(("cells", "column", "kind"), KINDS.values(), ids=KINDS)
def test_kinds(cells: list[Cell], column: str, kind: str) -> None:
    assert infer_kind(cells, column) == kind


def test_label_cells() -> None:
    import numpy as np
    import pandas as pd

    cells = {
        "  a b ": "a b",
        "1.0": "1",
        "-3.0": "-3",
        "1.00": "1.00",
        "v1.0": "v1.0",
        "": None,
        "\t": None,
    }
    assert {raw: read_cell(raw) for raw in cells} == cells
    for raw, cell in [
        (1, "1"),
        (1.0, "1"),
        (0.25, "0.25"),
        (True, "true"),
        (np.int64(3), "3"),
        (np.float32(2.0), "2"),
        (np.bool_(False), "false"),
        (None, None),
        (float("nan"), None),
        (np.float32("nan"), None),
        (pd.NA, None),
        (pd.NaT, None),
        (["b", "a", "b"], ("b", "a")),
        ([], ()),
        (np.array(["a", "b"]), ("a", "b")),
        ([1, 2.0], ("1", "2")),
    ]:
        assert read_cell(raw) == cell


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"a": 1}, "the label is a dict: {'a': 1}"),
        (b"a", "the label is a bytes: b'a'"),
        ([["a"]], "the label is a list: ['a']"),
        ([0, 1, 0], "the list [0, 1, 0] has a number more than once"),
    ],
)
def test_odd_labels(raw: object, said: str) -> None:
    with pytest.raises(BadCell) as caught:
        read_cell(raw)
    assert str(caught.value) == said


def test_texts_keep_their_characters() -> None:
    for text in ("  a \n", "שלום", "👩🏽‍🚀", "\ufeffa", "x" * 1_000_000):
        assert read_text(text) == text
    assert read_text(12) == "12"
    assert read_text(2.5) == "2.5"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("", "the text is empty"),
        (" \n\u00a0", "the text is empty"),
        (None, "the text is empty"),
        (float("nan"), "the text is empty"),
        (["a"], "the text is a list: ['a']"),
        ("x" * 1_000_001, "the text has 1,000,001 characters; 1,000,000 at most are read"),
        ("broken \ud83d", "the text holds half a character: 'broken \\ud83d'"),
    ],
)
def test_bad_texts(raw: object, said: str) -> None:
    with pytest.raises(BadCell) as caught:
        read_text(raw)
    assert str(caught.value) == said


def test_known_labels_decide_how_a_cell_is_split() -> None:
    known = {"rock, hard", "pop", "folk"}
    assert split_known("rock, hard", known) == ("rock, hard",)
    assert split_known("rock, hard|pop", known) == ("rock, hard", "pop")
    assert split_known("pop, folk", known) == ("pop", "folk")
    assert split_known('["pop"]', known) == ("pop",)
    assert split_known("pop;jazz", known) == ("pop", "jazz")
    assert split_known(None, known) == ()


def test_values_are_shortened() -> None:
    assert shown("a" * 60) == repr("a" * 60)
    assert shown("a" * 61) == repr("a" * 60 + "…")
    assert len(shown(list(range(10_000)))) < 80
