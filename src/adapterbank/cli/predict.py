"""`adapterbank predict`: texts in, labels out; a file is read and written as a stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from adapterbank.cli.answered import Row, print_answers, write_answers
from adapterbank.cli.options import (
    BankOption,
    BaseOption,
    DeviceOption,
    EncodingOption,
    PairColumn,
    TaskName,
    TextColumn,
)
from adapterbank.cli.remote import ServerOption, refuse_there
from adapterbank.cli.standard import input_lines
from adapterbank.errors import AdapterBankError, ConfigError, DataError

if TYPE_CHECKING:
    from adapterbank.cli.remote import Reads, RemoteTask
    from adapterbank.serving.engine import Using
    from adapterbank.store.manifest import Manifest
    from adapterbank.tasks.task import Example

AT_ONCE = 512  # rows; bounds memory, and is enough to sort by length
T = TypeVar("T")


def predict(
    context: typer.Context,
    task: TaskName,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]...", help="Of a pair or span task two a row. Else stdin."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="F", help="Rows to read: csv, tsv, jsonl, parquet, SQuAD."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="F", help="Where to write them with their answers: csv, tsv or jsonl."
        ),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="glue: a submission file for its server.")
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    encoding: EncodingOption = "utf-8",
    bank: BankOption = "bank",
    base: BaseOption = None,
    device: DeviceOption = "auto",
    server: ServerOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines, one an input, with all probabilities.")
    ] = False,
) -> None:
    """Answer with a task of the bank.

    A row that cannot be read, or an empty line, has an error in its place; others are answered.
    In JSON a column of the input that is called as an answer's field is kept with a mark: label_.

    [bold]Examples[/bold]

      adapterbank predict helpdesk "my card was charged twice"

      adapterbank predict helpdesk --file new.csv --out answered.csv

      cat lines.txt | adapterbank predict helpdesk --json

      adapterbank predict answers "Who wrote it?" "It was written by Ada in 1843."

      adapterbank predict mrpc --file test.tsv --format glue --out MRPC.tsv

      adapterbank predict helpdesk "where is it?" --server http://localhost:8000
    """
    if texts and file is not None:
        raise typer.BadParameter("TEXT and --file do not go together: give one of them.")
    if out is not None and file is None:
        raise typer.BadParameter("--out goes with --file: give it too, or redirect the output.")
    with ExitStack() as stack:
        predictor: Using | RemoteTask
        remote: RemoteTask | None = None
        if server is not None:
            from adapterbank.cli.remote import RemoteTask, client_of

            refuse_there(context)
            predictor = remote = RemoteTask(stack.enter_context(client_of(server)), task)
        else:
            from adapterbank.serving.open import open_bank_engine

            engine = open_bank_engine(bank, base, device)
            predictor = stack.enter_context(engine.using(task))
        manifest = predictor.manifest
        if form is not None:
            _glue(predictor, form, task, file, out)
        elif file is not None and file.suffix.lower() == ".json":
            _squad(predictor, file, out, as_json)
        elif file is not None:
            rows = _rows(file, manifest, text_column, pair_column, encoding)
            answers = _answer(predictor, rows)
            if out is None:
                print_answers(answers, manifest.kind, as_json)
            else:
                write_answers(answers, manifest.kind, out, lambda: _columns(file, encoding))
        else:
            inputs = _arguments(texts, manifest) if texts else _lines(manifest, encoding)
            print_answers(_answer(predictor, inputs), manifest.kind, as_json)
        if remote is not None:
            remote.check()


def _answer(predictor: Using | RemoteTask, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows with their answers, a few hundred at a time."""
    for some in chunks(rows, AT_ONCE):
        good = [row for row in some if not isinstance(row.example, AdapterBankError)]
        answers = predictor.predict([row.example for row in good])  # type: ignore[misc]
        for row, answer in zip(good, answers, strict=True):
            row.answer = answer.error or answer
        yield from some


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Consecutive lists of `size`."""
    rest = iter(values)
    while some := list(islice(rest, size)):
        yield some


def _arguments(texts: list[str], manifest: Manifest | Reads) -> Iterator[Row]:
    if manifest.kind != "span" and not manifest.pair:
        yield from (_row(text, manifest) for text in texts)
        return
    if len(texts) % 2:
        raise ConfigError(
            f"Task {manifest.task!r} reads two texts a row, and {len(texts)} came.",
            "Give them in twos: first and second, or question and context.",
        )
    names = ("question", "context") if manifest.kind == "span" else ("text_a", "text_b")
    for pair in chunks(texts, 2):
        yield _row(dict(zip(names, pair, strict=True)), manifest)


def _lines(manifest: Manifest | Reads, encoding: str) -> Iterator[Row]:
    """Standard input, a text or a JSON object a line."""
    for line in input_lines(encoding):
        yield _row(_json_object(line), manifest)


def _json_object(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _row(value: Any, manifest: Manifest | Reads) -> Row:
    from adapterbank.tasks.inputs import read_input

    values = value if isinstance(value, dict) else {"text": value}
    try:
        return Row(values, read_input(value, manifest.kind, manifest.pair))
    except DataError as error:
        return Row(values, error, list(values.values())[:2])


def _rows(
    file: Path,
    manifest: Manifest | Reads,
    text_column: str | None,
    pair_column: str | None,
    encoding: str,
) -> Iterator[Row]:
    """The rows of a table, with all their columns."""
    from adapterbank.tasks.cells import BadCell, read_text
    from adapterbank.tasks.columns import find_columns
    from adapterbank.tasks.labelled import if_there
    from adapterbank.tasks.sources import open_rows
    from adapterbank.tasks.task import Example

    rows = open_rows(file, encoding)
    known = manifest.columns
    columns = find_columns(
        rows,
        text=text_column or if_there(known.get("text"), rows.columns),
        pair=pair_column or if_there(known.get("pair"), rows.columns),
        labelled=False,
        pairs=manifest.pair or manifest.kind == "span",
    )
    for row in rows.with_unreadable():
        found: Example | AdapterBankError
        try:
            if row.problem:
                raise BadCell("unreadable", row.problem)
            second = (
                read_text(row.values.get(columns.pair), "second text") if columns.pair else None
            )
            found = Example(read_text(row.values.get(columns.text)), pair=second)
        except BadCell as problem:
            found = DataError(f"{rows.where(row)}: {problem}.", problem.hint)
        asked = [row.values.get(each) for each in (columns.text, columns.pair)]
        # The first row sets the columns of a file, so one that is unreadable has them too.
        yield Row(row.values or dict.fromkeys(rows.columns), found, asked)


def _columns(file: Path, encoding: str) -> list[str]:
    """The columns of a table; of JSON lines, which each have their own, those of all."""
    from adapterbank.tasks.sources import open_rows

    rows = open_rows(file, encoding)
    if file.suffix.lower() not in (".jsonl", ".ndjson"):
        return list(rows.columns)
    further = (name for row in rows.with_unreadable() for name in row.values)
    return list(dict.fromkeys([*rows.columns, *further]))


def _squad(predictor: Using | RemoteTask, file: Path, out: Path | None, as_json: bool) -> None:
    """Questions of a SQuAD file; answers in the official form, or as lines with `as_json`."""
    from adapterbank.tasks.squad import read_squad, write_predictions

    manifest = predictor.manifest
    if manifest.kind != "span":
        raise ConfigError(
            f"A .json file is SQuAD's form, and task {manifest.task!r} is of kind {manifest.kind}.",
            "Give its texts as csv, tsv, jsonl or parquet.",
        )
    rows = _answer(predictor, map(_question, read_squad(file)))
    if as_json and out is None:
        print_answers(rows, "span", as_json)
        return
    found, bad = {}, 0
    for row in rows:
        found[row.values["id"]] = row.fields().get("answer", "")
        bad += row.error is not None
    if out is None:
        print(json.dumps(found, ensure_ascii=False))
    else:
        write_predictions(out, found)
        print(f"{len(found):,} answers written to {out}.", file=sys.stderr)
    if bad:  # the official form has no place for errors
        print(f"{bad:,} of them could not be answered: their answer is empty.", file=sys.stderr)


def _question(example: Example) -> Row:
    values = {"id": example.id, "question": example.text, "context": example.pair}
    return Row(values, example)


def _glue(
    predictor: Using | RemoteTask, form: str, task: str, file: Path | None, out: Path | None
) -> None:
    """GLUE's own unlabelled test file in, the file that its server takes out."""
    from adapterbank.tasks.catalog import find
    from adapterbank.tasks.glue import read_glue_test, write_submission

    if form != "glue":
        raise ConfigError(f"--format is {form!r}. Choose from: glue.")
    if file is None or out is None:
        raise ConfigError("--format glue goes with --file and --out.", "Give both.")
    entry = find(task.partition("@")[0].rpartition("/")[2])
    examples = read_glue_test(entry, file)
    answers = [answer for some in chunks(examples, AT_ONCE) for answer in predictor.predict(some)]
    for answer in answers:
        if answer.error is not None:  # the server takes a file with every row, or none
            raise answer.error
    values = [answer.label if answer.value is None else answer.value for answer in answers]
    write_submission(out, entry.name, values)  # type: ignore[arg-type]
    print(f"{len(values):,} rows written to {out}.", file=sys.stderr)
