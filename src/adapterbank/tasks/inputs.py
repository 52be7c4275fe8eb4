"""What may be asked of a task: a text, a pair of texts, or a question with its context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapterbank.errors import ConfigError, DataError
from adapterbank.tasks.cells import encodable
from adapterbank.tasks.task import Example, Kind

MAX_CHARACTERS = 1_000_000  # of one text
FORMS = {
    "text": "a string",
    "pair": 'an object {"text_a": …, "text_b": …}',
    "span": 'an object {"question": …, "context": …}',
}


def read_input(value: Any, kind: Kind, pair: bool) -> Example:
    """One input as an example without a label."""
    wanted = "span" if kind == "span" else "pair" if pair else "text"
    texts = _texts(value, wanted)
    if texts is None:
        raise DataError(
            f"The input {_short(value)} is not what this task reads.", f"Give {FORMS[wanted]}."
        )
    for text in texts:
        if not text.strip():
            raise DataError("The input has an empty text.", f"Give {FORMS[wanted]}.")
        _check_text(text, MAX_CHARACTERS)
    first, *second = texts
    return Example(first, pair=second[0] if second else None)


def check_several(inputs: object) -> None:
    """Refuse one input where a list of them is read: a text would be taken letter by letter."""
    if isinstance(inputs, str | bytes | Mapping):
        raise ConfigError("One input came, and a list of them is read.", "Give it as [input].")


def sendable(value: Any, most: int) -> Any:
    """One input for a task elsewhere, as JSON can carry it, if any task reads such; `most` is how
    many characters a text may have there. Which form the task reads is said there."""
    if isinstance(value, Mapping):
        # Cells that are no text are never read; their names tell an input from a text alone.
        value = {str(n): each if isinstance(each, str) else None for n, each in value.items()}
    elif not isinstance(value, str):
        raise DataError(
            f"The input {_short(value)} is not what a task reads.",
            f"Give {FORMS['text']}, {FORMS['pair']} or {FORMS['span']}, as the task reads.",
        )
    for text in [value] if isinstance(value, str) else (*value, *value.values()):
        _check_text(text or "", most)
    return value


def _check_text(text: str, most: int) -> None:
    if len(text) > most:
        raise DataError(
            f"The input has a text of {len(text):,} characters.", f"{most:,} at most are read."
        )
    if not encodable(text):
        raise DataError(
            f"The input {_short(text)} holds half a character.",
            "Was it written in another encoding? UTF-8 is read.",
        )


def _texts(value: Any, wanted: str) -> list[str] | None:
    if wanted == "text":
        if isinstance(value, Mapping) and set(value) == {"text"}:
            value = value["text"]
        return [value] if isinstance(value, str) else None
    names = ("question", "context") if wanted == "span" else ("text_a", "text_b")
    if not isinstance(value, Mapping) or not all(isinstance(value.get(n), str) for n in names):
        return None
    return [value[name] for name in names]


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
