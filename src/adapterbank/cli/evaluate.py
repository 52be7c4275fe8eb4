"""`adapterbank evaluate`: the scores of a task on labelled rows, and a look at its mistakes."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer

from adapterbank.cli.labelled import labelled_rows
from adapterbank.cli.options import (
    BankOption,
    BaseOption,
    DeviceOption,
    EncodingOption,
    LabelColumn,
    LabelNames,
    PairColumn,
    TaskName,
    TextColumn,
)
from adapterbank.cli.output import JSON_HELP, print_classes, print_json, print_table
from adapterbank.cli.predict import AT_ONCE, chunks


def evaluate(
    task: TaskName,
    data: Annotated[
        str, typer.Option("--data", metavar="F", help="Labelled rows, as for training.")
    ],
    errors: Annotated[
        int, typer.Option("--errors", min=0, help="Show so many of the worst rows.")
    ] = 0,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    label_names: LabelNames = None,
    encoding: EncodingOption = "utf-8",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad rows out, and count them.")
    ] = False,
    bank: BankOption = "bank",
    base: BaseOption = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Score a task of the bank on labelled rows.

    Columns are the task's own where the file has them, else found as for training.

    [bold]Examples[/bold]

      adapterbank evaluate helpdesk --data checked.csv

      adapterbank evaluate helpdesk --data checked.csv --errors 20

      adapterbank evaluate answers --data squad-dev.json --json
    """
    from adapterbank.bank import Bank
    from adapterbank.serving.predictor import Predictor
    from adapterbank.tasks.cells import counted
    from adapterbank.tasks.metrics import metric_name
    from adapterbank.tasks.task import Task
    from adapterbank.training.evaluate import classes_of, scores_of
    from adapterbank.training.mistakes import mistakes

    home = Bank.open(bank, base, device=device, create=False)
    entry = home.store.find(task)
    package = home.store.load(entry)
    manifest = package.manifest
    rows = labelled_rows(
        manifest,
        data,
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
        label_names=label_names,
        encoding=encoding,
        skip_bad=skip_bad,
    )
    examples = rows.examples
    with Predictor(home.encoder, package) as predictor:
        predictions = [
            answer for some in chunks(examples, AT_ONCE) for answer in predictor.predict(some)
        ]
    about = Task(
        entry.task,
        manifest.labels,
        (),
        examples,
        (),
        manifest.kind,
        manifest.metric,
        manifest.positive,
    )
    scores = scores_of(about, examples, predictions)
    classes = classes_of(about, examples, predictions)
    worst = [
        replace(mistake, row=rows.numbers[mistake.row - 1])
        for mistake in mistakes(about, examples, predictions, errors)
    ]
    if as_json:
        print_json(
            {
                "task": entry.task,
                "version": entry.version.version,
                "rows": len(examples),
                "left_out": rows.left_out,
                "metric": manifest.metric,
                "positive": manifest.positive,
                "scores": scores,
                "classes": [asdict(row) for row in classes],
                "errors": [asdict(mistake) for mistake in worst],
            }
        )
        return
    without = f", {counted(rows.left_out, 'bad row')} left out" if rows.left_out else ""
    print_table(
        f"{entry} on {len(examples):,} rows{without}",
        ("metric", "score"),
        [(metric_name(m, manifest.positive), f"{value:.4f}") for m, value in scores.items()],
    )
    if classes:
        print_classes("by class", classes)
    for mistake in worst:
        mark = "  (the label itself is likely wrong)" if mistake.likely_wrong_label else ""
        print(f"row {mistake.row}: {mistake.label!r}, predicted {mistake.predicted!r}{mark}")
        print(f"    {mistake.text[:200]}")
