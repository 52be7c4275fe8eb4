"""Questions on a context in SQuAD's JSON form (v1.1 and v2.0), predictions in its form, flat rows.

An empty answer means "no answer" wherever it stands: in a flat row, and in a SQuAD file.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapterbank.errors import DataError
from adapterbank.tasks.task import Answer, Example

ROWS = 'Rows are read from a .jsonl file, one object a line: {"text": "…", "label": "…"}.'
FORM = (
    'A SQuAD file is {"data": [{"title", "paragraphs": [{"context", "qas": '
    '[{"id", "question", "answers": [{"text", "answer_start"}]}]}]}]}.'
)
_shortening = reprlib.Repr()
_shortening.maxstring = 60
_short = _shortening.repr


@dataclass(frozen=True)
class SquadFile:
    """What a file holds, and what had to be mended to read it."""

    examples: tuple[Example, ...]
    notes: tuple[str, ...]


@dataclass
class _Mended:
    """Where answers stand that could not be taken as they are, one entry an answer."""

    moved: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    def notes(self) -> tuple[str, ...]:
        told = (
            (self.moved, "not at their answer_start: taken from the nearest place"),
            (self.lost, "not in their context: left out, the question keeps its other answers"),
            (self.empty, "empty: read as no answer"),
        )
        return tuple(
            f"answers {what} ({len(places)}; the first: {places[0]})"
            for places, what in told
            if places
        )


def read_squad(path: str | Path) -> tuple[Example, ...]:
    """The questions of a SQuAD file, in its order."""
    return read_squad_file(path).examples


def read_squad_file(path: str | Path) -> SquadFile:
    """The questions of a SQuAD file with notes on what was mended."""
    mended = _Mended()
    examples: dict[str, Example] = {}
    for where, example in _examples(Path(path), mended):
        if example.id in examples:
            raise DataError(f"{where}: the id comes twice.", "Give every question its own id.")
        examples[example.id] = example
    if not examples:
        raise DataError(f"{path} holds no questions.", FORM)
    return SquadFile(tuple(examples.values()), mended.notes())


def span_example(
    question: str, context: str, answer: str, start: int | None = None, id: str = ""
) -> Example:
    """A flat row; an empty answer: unanswerable. Without `start` the first occurrence is meant."""
    if not answer.strip():
        return Example(question, pair=context, id=id)
    place = _nearest(answer, context, start or 0)
    if place < 0:
        raise _not_in_context(f"Question {_short(id or question)}", answer)
    return Example(question, pair=context, id=id, answers=(Answer(answer, place),))


def has_unanswerable(examples: Iterable[Example]) -> bool:
    """Whether some question has no answer, as in SQuAD v2.0."""
    return any(not example.answers for example in examples)


def write_predictions(path: str | Path, predictions: Mapping[str, str]) -> None:
    """Answers by question id as the official scorers read them. The file appears whole or not."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_text(json.dumps(dict(predictions), indent=0), "utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        with suppress(OSError):  # it is not there, all being well
            unfinished.unlink()


def _examples(path: Path, mended: _Mended) -> Iterator[tuple[str, Example]]:
    """Every question with the words that say where it stands."""
    for number, article in enumerate(_list(_load(path), "data", str(path)), 1):
        where = f"{path}, article {number}"
        if isinstance(article, dict) and article.get("title"):
            where = f"{path}, article {_short(article['title'])}"
        for paragraph in _list(article, "paragraphs", where):
            context = _text(paragraph, "context", where)
            for question in _list(paragraph, "qas", where):
                id = _text(question, "id", f"{where}, a question")
                at = f"{where}, question {_short(id)}"
                text = _text(question, "question", at)
                answers = _answers(question, context, at, mended)
                yield at, Example(text, pair=context, id=id, answers=answers)


def _answers(
    question: dict[str, Any], context: str, where: str, mended: _Mended
) -> tuple[Answer, ...]:
    impossible = question.get("is_impossible")
    if impossible not in (None, True, False):
        raise _wrong(impossible, "is_impossible", where, "true or false")
    if impossible:
        return ()
    given = [_answer(each, where) for each in _list(question, "answers", where)]
    if not given and impossible is False:
        raise DataError(
            f"{where}: is_impossible is false, but there is no answer.",
            'Set "is_impossible" to true, or leave it out, for a question without an answer.',
        )
    full = [answer for answer in given if answer.text.strip()]
    placed = [Answer(text, _nearest(text, context, start)) for text, start in full]
    kept = tuple(answer for answer in placed if answer.start >= 0)
    if placed and not kept:
        raise _not_in_context(where, placed[0].text)
    mended.empty += [where] * (len(given) - len(full))
    mended.lost += [where] * (len(placed) - len(kept))
    mended.moved += [
        where for old, new in zip(full, placed, strict=True) if old != new and new.start >= 0
    ]
    return kept


def _answer(found: Any, where: str) -> Answer:
    text = _text(found, "text", f"{where}, an answer")
    start = found.get("answer_start")
    if not isinstance(start, int):
        raise _wrong(start, "answer_start", f"{where}, an answer", "a whole number")
    return Answer(text, start)


def _nearest(text: str, context: str, start: int) -> int:
    """Where the text stands in the context, as near to `start` as it can be; -1: nowhere."""
    start = max(start, 0)
    after = context.find(text, start)
    before = context.rfind(text, 0, start + len(text))
    if after < 0 or before < 0:
        return max(after, before)
    return after if after - start < start - before else before


def _load(path: Path) -> Any:
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        lines = isinstance(error, json.JSONDecodeError) and error.msg == "Extra data"
        raise DataError(f"{path} is not JSON: {error}.", ROWS if lines else FORM) from error
    if isinstance(found, list):
        raise DataError(f"{path} holds a list, and .json is read as SQuAD's form.", ROWS)
    return found


def _list(found: Any, key: str, where: str) -> list[Any]:
    value = found.get(key) if isinstance(found, dict) else None
    if not isinstance(value, list):
        raise _wrong(value, key, where, "a list")
    return value


def _text(found: Any, key: str, where: str) -> str:
    value = found.get(key) if isinstance(found, dict) else None
    if not isinstance(value, str):
        raise _wrong(value, key, where, "a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: {key!r} holds half a character at place {error.start}: {_short(value)}.",
            "Write the file again as UTF-8.",
        ) from error
    return value


def _not_in_context(where: str, answer: str) -> DataError:
    return DataError(
        f"{where}: the answer {_short(answer)} does not stand in its context.",
        "An answer is a piece of its context, letter by letter.",
    )


def _wrong(value: Any, key: str, where: str, accepted: str) -> DataError:
    what = "missing" if value is None else f"{_short(value)}, not {accepted}"
    return DataError(f"{where}: {key!r} is {what}.", FORM)
