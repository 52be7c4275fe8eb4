"""Options that several verbs share, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
        metavar="URL",
        help="Where tasks are kept: a folder, or a URL that fsspec knows.",
    ),
]
BaseOption = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="NAME",
        help="The bank's base where it is now: minilm, a folder or a hub id. "
        "A new bank is on minilm if none is given.",
    ),
]
TextColumn = Annotated[str | None, typer.Option(metavar="C", help="The column with the text.")]
PairColumn = Annotated[str | None, typer.Option(metavar="C", help="… with the second text.")]
LabelColumn = Annotated[str | None, typer.Option(metavar="C", help="… with the label.")]
LabelNames = Annotated[
    str | None,
    typer.Option(metavar="A,B,…", help="Names of the integer labels 0, 1, … in order."),
]
EncodingOption = Annotated[
    str, typer.Option(metavar="NAME", help="Of what is read, where it is not UTF-8.")
]
OnOption = Annotated[
    str, typer.Option("--on", help="Where it runs: local, ray, or ray://HOST:PORT of a cluster.")
]
ThroughOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="With Ray: what files travel through where machines share no folders; a bank at a URL "
        "will do.",
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Where a service keeps jobs and uploads on this machine.",
        show_default="<bank>/.service",
    ),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda …")]


@dataclass(frozen=True)
class DataOptions:
    """Where the labelled rows of a task are, and how they are read."""

    train: Annotated[
        str | None,
        typer.Option(
            metavar="F",
            help="Labelled rows: csv, tsv, jsonl, parquet, SQuAD's json, or hub:NAME. "
            "Without it TASK names a task of the catalogue or a bundled sample.",
        ),
    ] = None
    dev: Annotated[
        str | None, typer.Option(metavar="F", help="Rows to select by; else cut from train.")
    ] = None
    test: Annotated[
        str | None,
        typer.Option(metavar="F", help="Rows that only the last score sees; else cut."),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(
            help="classification, pair-classification, multi-label, regression or span; else found."
        ),
    ] = None
    text_column: TextColumn = None
    pair_column: PairColumn = None
    label_column: LabelColumn = None
    label_names: LabelNames = None
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The score to select by; else the kind's usual."),
    ] = None
    positive: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="The class whose f1 is told; else the last of two."),
    ] = None
    encoding: EncodingOption = "utf-8"
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad rows out, and count them.")
    ] = False
    max_rows: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="At most so many rows of each split, at random."),
    ] = None
    folder: Annotated[
        str | None,
        typer.Option(
            metavar="F",
            help="Where the catalogue's data is: GLUE's own folders, or 'hub'; "
            "else $ADAPTERBANK_DATA.",
        ),
    ] = None

    def load(self, name: str, seed: int) -> Task:
        """The task that they describe."""
        from adapterbank.store.names import check_name
        from adapterbank.tasks.known import known_task
        from adapterbank.tasks.limit import limited
        from adapterbank.tasks.load import load_task

        most = self.max_rows or 0
        name = check_name(name)
        reading = self.options()
        del reading["max_rows"]
        if self.train is None:
            del reading["metric"]
            self._refuse_for_known(name, reading)
            known = known_task(name, self.folder, seed).named(name)
            known = replace(known, metric=self.metric) if self.metric else known
            return limited(known, most, most, most, seed)
        if self.folder is not None:
            raise typer.BadParameter("--folder is where the catalogue's rows are, without --train.")
        reading |= {"metric": self.metric or "", "positive": self.positive or ""}
        return limited(load_task(name, self.train, seed=seed, **reading), most, most, most, seed)

    def _refuse_for_known(self, name: str, reading: dict[str, Any]) -> None:
        """Say which options have no effect on rows that are known by the task's name."""
        usual = {"encoding": DataOptions.encoding}
        given = [
            f"--{option.replace('_', '-')}"
            for option, value in reading.items()
            if value and value != usual.get(option)
        ]
        if given:
            raise typer.BadParameter(
                f"{', '.join(given)}: without --train the rows are those that are known as "
                f"{name!r}. Name your own with --train F."
            )

    def options(self) -> dict[str, Any]:
        """Everything but where the rows to train on are, by name."""
        names = self.label_names
        return {
            "dev": self.dev,
            "test": self.test,
            "kind": self.kind,
            "text_column": self.text_column,
            "pair_column": self.pair_column,
            "label_column": self.label_column,
            "label_names": [each.strip() for each in names.split(",")] if names else None,
            "metric": self.metric,
            "positive": self.positive,
            "encoding": self.encoding,
            "skip_bad": self.skip_bad,
            "max_rows": self.max_rows,
        }
