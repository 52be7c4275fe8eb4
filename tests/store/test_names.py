"""Names: what may become part of a path."""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapterbank.errors import ConfigError
from adapterbank.store.names import check_name

PART = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True).filter(lambda s: ".." not in s)


@given(PART, PART)
def test_names_of_the_pattern_are_taken_as_they_are(tenant: str, task: str) -> None:
    assert check_name(task) == task
    assert check_name(f"{tenant}/{task}") == f"{tenant}/{task}"


@given(st.text() | st.text("ab./\\:%\0-_ A\n", max_size=8))
def test_what_is_taken_stays_inside_its_folder(name: str) -> None:
    try:
        check_name(name)
    except ConfigError:
        return
    assert re.fullmatch(r"[a-z0-9._-]+(/[a-z0-9._-]+)?", name, re.ASCII)
    for path in (PurePosixPath(name), PureWindowsPath(name)):
        assert not path.is_absolute()
        assert not path.drive
        assert not [part for part in path.parts if set(part) == {"."}]


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../a", "a/..", "a..b", "a/../b", "/a", "//a", "a/", "a//b", "a/b/c",
        "a\0b", "a\\b", "a:b", "c:/a", "a%2e%2e", "%252e", "A", "é", "a b", "a\n", "-a", "_a", ".a",
        "a/.b", "a" * 65, "~a", "a\u2024b", "a/B", None, 3, b"a",
    ],
)  # fmt: skip
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(ConfigError, match="is not a task's name") as caught:
        check_name(name)
    assert len(str(caught.value)) < 300


def test_a_long_name_is_shown_short() -> None:
    with pytest.raises(ConfigError) as caught:
        check_name("x" * 5000)
    assert caught.value.message == "'" + "x" * 76 + "... is not a task's name."
