"""`adapterbank evaluate`: the scores of a task on labelled rows, and a look at its mistakes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.options import (
    BankOption,
    DeviceOption,
    EncodingOption,
    LabelColumn,
    LabelNames,
    PairColumn,
    TaskName,
    TextColumn,
    bank_folder,
)
from adapterbank.cli.output import JSON_HELP, print_json, print_table
from adapterbank.cli.predict import AT_ONCE, chunks

if TYPE_CHECKING:
    pass


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
    bank: BankOption = "bank",
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Score a task of the bank on labelled rows.

    [bold]Examples[/bold]

      adapterbank evaluate support --data checked.csv

      adapterbank evaluate support --data checked.csv --errors 20

      adapterbank evaluate answers --data squad-dev.json --json
    """
    from adapterbank.model.encoder import load_encoder
    from adapterbank.serving.predictor import Predictor
    from adapterbank.store.package import read_package
    from adapterbank.store.store import find
    from adapterbank.tasks.load import read_examples
    from adapterbank.tasks.metrics import per_class
    from adapterbank.tasks.task import Task
    from adapterbank.training.evaluate import scores_of
    from adapterbank.training.mistakes import mistakes

    package = read_package(find(bank_folder(bank), task))
    manifest = package.manifest
    known = manifest.columns if not data.endswith(".json") else {}
    examples = list(
        read_examples(
            data,
            manifest.kind,
            manifest.labels,
            pairs=manifest.pair,
            text_column=text_column or known.get("text"),
            pair_column=pair_column or known.get("pair"),
            label_column=label_column or known.get("label"),
            label_names=label_names.split(",") if label_names else None,
            encoding=encoding,
        )
    )
    encoder = load_encoder(manifest.base.name, device=device, pooling=manifest.pooling)
    with Predictor(encoder, package) as predictor:
        predictions = [
            answer for some in chunks(examples, AT_ONCE) for answer in predictor.predict(some)
        ]
    about = Task(
        manifest.task,
        manifest.labels,
        (),
        examples,
        (),
        manifest.kind,
        manifest.metric,
        manifest.positive,
    )
    report: dict[str, Any] = {
        "task": manifest.task,
        "version": manifest.version,
        "rows": len(examples),
        "metric": manifest.metric,
        "scores": scores_of(about, examples, predictions),
    }
    if manifest.kind == "classification":
        gold = [str(example.label) for example in examples]
        found = [str(prediction.label) for prediction in predictions]
        report["classes"] = [asdict(row) for row in per_class(gold, found, manifest.labels)]
    if errors:
        report["errors"] = [asdict(m) for m in mistakes(about, examples, predictions, errors)]
    if as_json:
        print_json(report)
    else:
        _show(report)


def _show(report: dict[str, Any]) -> None:
    print_table(
        f"{report['task']}@{report['version']} on {report['rows']:,} rows",
        ("metric", "score"),
        [(name, f"{value:.4f}") for name, value in report["scores"].items()],
    )
    if "classes" in report:
        print_table(
            "by class",
            ("class", "rows", "precision", "recall", "F1", "most confused with"),
            [
                (
                    row["label"],
                    str(row["rows"]),
                    f"{row['precision']:.2f}",
                    f"{row['recall']:.2f}",
                    f"{row['f1']:.2f}",
                    row["most_confused_with"],
                )
                for row in report["classes"]
            ],
        )
    for row in report.get("errors", ()):
        mark = "  (the label itself is likely wrong)" if row["likely_wrong_label"] else ""
        print(f"row {row['row']}: {row['label']!r}, predicted {row['predicted']!r}{mark}")
        print(f"    {row['text'][:200]}")
