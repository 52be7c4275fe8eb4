"""What may be asked: each kind its own form, and a clear word for the rest."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest

from adapterbank.errors import DataError
from adapterbank.tasks import inputs
from adapterbank.tasks.inputs import read_input, sendable
from adapterbank.tasks.task import Example


@pytest.mark.parametrize(
    ("value", "kind", "pair", "expected"),
    [
        ("hello", "classification", False, Example("hello")),
        ({"text": "hello"}, "regression", False, Example("hello")),
        ({"text_a": "one", "text_b": "two"}, "classification", True, Example("one", pair="two")),
        ({"question": "who?", "context": "Ada"}, "span", False, Example("who?", pair="Ada")),
    ],
)
def test_forms(value, kind, pair, expected) -> None:
    assert read_input(value, kind, pair) == expected


@pytest.mark.parametrize(
    ("value", "kind", "pair", "message"),
    [
        (3, "classification", False, r"The input 3 is not what this task reads\. Give a string\."),
        ({"text_a": "one"}, "classification", True, r"Give an object \{\"text_a\""),
        ("who?", "span", False, r"Give an object \{\"question\""),
        ("  ", "classification", False, "empty text"),
        ({"text_a": "one", "text_b": ""}, "classification", True, "empty text"),
        ({"x": "y" * 500}, "classification", False, r"The input .{80} is not"),
    ],
)
def test_what_is_refused(value, kind, pair, message) -> None:
    with pytest.raises(DataError, match=message):
        read_input(value, kind, pair)


def test_texts_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(inputs, "MAX_CHARACTERS", 10)
    with pytest.raises(DataError, match=r"a text of 11 characters\. 10 at most"):
        read_input("x" * 11, "classification", False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("hello", "hello"),
        ({"text_a": "one", "text_b": "two"}, {"text_a": "one", "text_b": "two"}),
        ({"text": "one", "score": float("nan"), 5: {1}}, {"text": "one", "score": None, "5": None}),
        (MappingProxyType({"question": "who?"}), {"question": "who?"}),
    ],
)
def test_what_can_be_sent(value, expected) -> None:
    found = sendable(value, 10)
    assert found == expected
    json.dumps(found, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"The input nan is not what a task reads\. Give a string, an object "),
        (["a"], "not what a task reads"),
        (None, "not what a task reads"),
        (b"text", "not what a task reads"),
        ("half \ud800", "half a character"),
        ({"text_a": "one", "text_b": "\udfff"}, "half a character"),
        ({"\ud800": "one"}, "half a character"),
        ("x" * 11, r"a text of 11 characters\. 10 at most"),
        ({"question": "who?", "context": "x" * 11}, "a text of 11 characters"),
    ],
)
def test_what_cannot_be_sent(value, message) -> None:
    with pytest.raises(DataError, match=message):
        sendable(value, 10)
