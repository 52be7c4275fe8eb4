"""Bytes that are not text stay in their line, on the way in and on the way out."""

from __future__ import annotations

import io
import json
import sys

import pytest

from adapterbank.cli.standard import forgive_output, input_lines
from adapterbank.errors import DataError


def given(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), "utf-8"))


def test_a_bad_byte_is_half_a_character_of_its_line(monkeypatch) -> None:
    given(monkeypatch, b"one\nna\xefve\nthree\n")
    assert list(input_lines()) == ["one", "na\udcefve", "three"]


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"", []),
        (b"\n", []),
        (b"a\r\nb", ["a", "b"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\n\n\n", ["a", ""]),
    ],
)
def test_blank_lines_count_but_for_the_last(monkeypatch, raw: bytes, lines: list[str]) -> None:
    given(monkeypatch, raw)
    assert list(input_lines()) == lines


def test_what_cannot_be_decoded_at_all_is_said(monkeypatch) -> None:
    given(monkeypatch, b"abc")
    with pytest.raises(DataError, match="Standard input is not utf-16"):
        list(input_lines("utf-16-le"))


def test_what_standard_output_lacks_is_escaped_as_json_is(monkeypatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    forgive_output()
    texts = ["na\udcefve", "café"]
    print(json.dumps(texts[:1], ensure_ascii=False))
    print(texts[1], flush=True)
    first, second = raw.getvalue().decode("ascii").splitlines()
    assert json.loads(first) == texts[:1]
    assert second == r"caf\xe9"
