"""What verbs print: one JSON document on stdout, or tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from adapterbank.tasks.metrics import ClassRow

WIDTH = 160  # of tables that no terminal shows
JSON_HELP = "One JSON document on stdout, everything for people on stderr."


def print_json(document: Any) -> None:
    """The one document of a `--json` run."""
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1
) -> None:
    """A small table; the first column, or so many, are text, the others figures."""
    from rich.console import Console
    from rich.table import Table

    table = Table(header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < texts else "right", no_wrap=i == 0)
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width
        console.width = max(console.width, WIDTH)
    console.print(title, style="bold", markup=False, soft_wrap=True)
    console.print(table)


def print_facts(title: str, facts: Mapping[str, str]) -> None:
    """Names and what they stand for, one a line; empty ones are left out."""
    shown = {name: text for name, text in facts.items() if text}
    width = max(map(len, shown), default=0)
    print(title)
    for name, text in shown.items():
        print(f"  {name:<{width}}  {text}")


CLASSES_SHOWN = 30  # what fits a screen; `evaluate --json` has them all


def print_classes(title: str, classes: Sequence[ClassRow]) -> None:
    """How each class fares, the worst first; of very many, those that one would look at."""
    ordered = sorted(classes, key=lambda row: row.f1)
    print_table(
        title,
        ("class", "rows", "precision", "recall", "F1", "most confused with"),
        [
            (
                row.label,
                str(row.rows),
                f"{row.precision:.2f}",
                f"{row.recall:.2f}",
                f"{row.f1:.2f}",
                row.most_confused_with,
            )
            for row in ordered[:CLASSES_SHOWN]
        ],
    )
    if more := ordered[CLASSES_SHOWN:]:
        print(f"and {len(more)} more, with an F1 from {more[0].f1:.2f} to {more[-1].f1:.2f}")


def counting(what: str, console: Console) -> Progress:
    """A bar that counts things done of things to do; a line in it has a `note`. Silent where there
    is no terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


T = TypeVar("T")


def steps(items: Iterable[T], what: str) -> Iterator[T]:
    """The items, with a count on stderr while they come; silent where there is no terminal."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.completed} " + what)
    quiet = not console.is_terminal
    with Progress(columns, console=console, transient=True, disable=quiet) as bar:
        yield from bar.track(items, total=None)
