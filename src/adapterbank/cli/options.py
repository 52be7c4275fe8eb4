"""Options that several verbs share, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.errors import ConfigError, DataError

if TYPE_CHECKING:
    from adapterbank.tasks.task import Task

TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's name.", show_default=False)
]
BankOption = Annotated[
    str,
    typer.Option(
        "--bank",
        envvar="ADAPTERBANK_BANK",
        metavar="FOLDER",
        help="Where tasks are kept.",
    ),
]
BaseOption = Annotated[
    str, typer.Option("--base", metavar="NAME", help="A base: minilm, a folder or a hub id.")
]
TrainFile = Annotated[
    str | None,
    typer.Option(
        "--train",
        metavar="F",
        help="Labelled rows: csv, tsv, jsonl, parquet, SQuAD's json, or hub:NAME. "
        "Without it TASK names a task of the catalogue or a bundled sample.",
    ),
]
DevFile = Annotated[
    str | None, typer.Option("--dev", metavar="F", help="Rows to select by; else cut from train.")
]
TestFile = Annotated[
    str | None,
    typer.Option("--test", metavar="F", help="Rows that only the last score sees; else cut."),
]
KindOption = Annotated[
    str | None,
    typer.Option(
        help="classification, pair-classification, multi-label, regression or span; else found."
    ),
]
TextColumn = Annotated[str | None, typer.Option(metavar="C", help="The column with the text.")]
PairColumn = Annotated[str | None, typer.Option(metavar="C", help="… with the second text.")]
LabelColumn = Annotated[str | None, typer.Option(metavar="C", help="… with the label.")]
LabelNames = Annotated[
    str | None,
    typer.Option(metavar="A,B,…", help="Names of the integer labels 0, 1, … in order."),
]
MetricOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The score to select by; else the kind's usual.")
]
EncodingOption = Annotated[
    str, typer.Option(metavar="NAME", help="Of the files, where they are not UTF-8.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave bad rows out, and count them.")]
FolderOption = Annotated[
    str | None,
    typer.Option(
        "--folder",
        metavar="F",
        help="Where the catalogue's data is: GLUE's own folders, or 'hub'; else $ADAPTERBANK_DATA.",
    ),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda …")]


def load_data(
    name: str,
    train: str | None,
    dev: str | None,
    test: str | None,
    *,
    folder: str | None = None,
    label_names: str | None = None,
    metric: str | None = None,
    **options: Any,
) -> Task:
    """The task that the options describe."""
    from adapterbank.tasks.load import load_task

    if train is not None:
        names = [each.strip() for each in label_names.split(",")] if label_names else None
        return load_task(
            name, train, dev=dev, test=test, label_names=names, metric=metric or "", **options
        )
    return _known_task(name, folder, options["seed"])


def _known_task(name: str, folder: str | None, seed: int) -> Task:
    """A bundled sample or a task of the catalogue."""
    from adapterbank.tasks.catalog import catalog_names, load_catalog_task
    from adapterbank.tasks.samples import SAMPLES, load_sample

    short = name.rpartition("/")[2]
    if short in SAMPLES:
        return load_sample(short)
    if short in catalog_names():
        return load_catalog_task(short, folder=folder, seed=seed)
    raise DataError(
        f"Where are the rows of {name!r}?",
        f"Give --train FILE, or the name of a sample ({', '.join(SAMPLES)}) or of a task of the "
        "catalogue (mrpc, sst2, sms_spam …).",
    )


def bank_folder(bank: str) -> Path:
    """The folder of a bank."""
    if "://" in bank:
        raise ConfigError(f"--bank is {bank!r}; a bank is a folder.", "Give a path.")
    return Path(bank).expanduser()
