"""`adapterbank stream`: tasks learnt one after the other, and the proof that none is forgotten."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.options import (
    BankOption,
    BaseOption,
    DeviceOption,
    OnOption,
    ThroughOption,
)
from adapterbank.cli.output import JSON_HELP, print_json, print_table
from adapterbank.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapterbank.streams.events import Arrived, Event
    from adapterbank.streams.stream import Stream


def stream(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE.toml|FOLDER",
            help="A list of tasks, or a folder of data files, each a task.",
            show_default=False,
        ),
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on as files come into the folder, until Ctrl-C.")
    ] = False,
    contrast: Annotated[
        bool,
        typer.Option(
            "--contrast", help="Beside the bank, fine-tune one encoder task after task: it forgets."
        ),
    ] = False,
    bank: BankOption = "bank",
    base: BaseOption = None,
    device: DeviceOption = "auto",
    epochs: Annotated[int | None, typer.Option(help="Passes over the data of each task.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Fit each task to this time.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Of the start, the order, dropout and splits.", show_default="0"),
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="m, the width of the adapters.", show_default="32")
    ] = None,
    score_rows: Annotated[
        int, typer.Option(min=1, help="Held-out rows of each task that are asked again.")
    ] = 500,
    report: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where the report goes; else beside the stream's state."),
    ] = None,
    on: OnOption = "local",
    through: ThroughOption = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    r"""Learn tasks one after the other, and show that no earlier one has changed.

    After each task a fresh process asks all of them again about rows that were held out: score,
    every bit of the answers, every byte of the packages. Exits with 1 if anything differs. A task
    that cannot be learnt is set aside with the reason (in a folder: moved to rejected/), and the
    stream goes on. Stopped or killed, the same command goes on from there.

    A list names tasks and their settings; those on the command line go before it:

      \[defaults]
      epochs = 5

      [\[task]]
      name = "support"            (a bundled sample, or a task of the catalogue)

      [\[task]]
      name = "spam"
      train = "sms.csv"           (from the list's folder; dev, test, text_column, size … too)

    In a folder spam.csv is the task spam, with spam.dev.csv and spam.test.csv its splits.

    [bold]Examples[/bold]

      adapterbank stream tasks.toml

      adapterbank stream tasks.toml --contrast --report report

      adapterbank stream inbox --watch --minutes 5

      adapterbank stream inbox --json
    """
    from adapterbank.compute.open import check_on, open_compute
    from adapterbank.streams.stream import open_source

    check_on(on)
    path = Path(source)
    given = {"epochs": epochs, "minutes": minutes, "seed": seed, "size": size}
    found = open_source(path, given)
    if watch and isinstance(found, list):
        raise ConfigError(f"{path.name} is a list of tasks.", "--watch looks after a folder.")
    target = _report_folder(report)
    print("Loading the base …", file=sys.stderr)
    from adapterbank.bank import Bank
    from adapterbank.streams.stream import Stream

    home = Bank.open(bank, base, device=device)
    learn_on = None if on == "local" else open_compute(on, through=through, bank=bank)
    running = Stream(home, path, found, score_rows, contrast, base, learn_on=learn_on)
    stopped = False
    try:
        follow(running.run(watch=watch))
    except KeyboardInterrupt:
        stopped = True
        print("Stopped. The same command goes on from here.", file=sys.stderr)
    document = _finish(running, target or running.state.folder, as_json)
    if not document["packages_identical"] or not document["predictions_identical"]:
        raise typer.Exit(1)
    if stopped and not watch:
        raise typer.Exit(130)
    if document["set_aside"] and not document["tasks"]:
        raise typer.Exit(1)


def _report_folder(report: str | None) -> Path | None:
    if report is None:
        return None
    try:
        Path(report).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"There can be no report in {report}: {error.strerror}.") from error
    return Path(report)


def follow(events: Iterable[Event]) -> None:
    """Show what happens, on stderr."""
    from contextlib import ExitStack

    from rich.console import Console

    from adapterbank.cli.progress import Follower
    from adapterbank.streams import events as of

    console = Console(stderr=True, highlight=False)

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    with ExitStack() as training:
        follower: Follower | None = None
        for event in events:
            match event:
                case of.Arrived():
                    say(_arrived(event))
                case of.Begun():
                    training.close()
                    follower = training.enter_context(Follower(event.metric, event.title))
                case of.Kept(record):
                    training.close()
                    say(f"Kept as {record['name']}@{record['version']}.")
                case of.SetAside():
                    training.close()
                    moved = f" It is in {event.place} now." if event.place else ""
                    say(f"Set aside {event.name}: {event.reason}{moved}")
                case of.Checking():
                    tasks = "the task" if event.tasks == 1 else f"all {event.tasks} tasks"
                    say(f"Asking {tasks} again in a fresh process …")
                case of.Checked():
                    for problem in event.problems:
                        say(f"NOT the same: {problem}")
                case of.Contrasted(record):
                    training.close()
                    if record["problem"]:
                        say(f"The shared encoder did not learn it: {record['problem']}")
                case _:
                    if follower is not None:
                        follower.see(event)


def _arrived(event: Arrived) -> str:
    place = f"{event.number} of {event.of}" if event.of else str(event.number)
    return f"{place}: {event.name} {'is known already.' if event.known else '…'}"


def _finish(running: Stream, target: Path, as_json: bool) -> dict[str, Any]:
    """Write the report, and print it."""
    from adapterbank.streams.folder import Folder
    from adapterbank.streams.report import markdown
    from adapterbank.streams.state import as_json as encode
    from adapterbank.streams.state import write_whole

    document = running.report()
    write_whole(target / "stream.json", encode(document))
    drawn = "stream.svg" if _draw(document, target) else ""
    write_whole(target / "stream.md", markdown(document, drawn).encode())
    if isinstance(running.source, Folder) and (waiting := running.source.waiting()):
        print(f"Splits without their task: {', '.join(waiting)}.", file=sys.stderr)
    if as_json:
        print_json(document)
    else:
        _show(document)
    print(f"Report: {target}", file=sys.stderr if as_json else sys.stdout)
    return document


def _draw(document: dict[str, Any], target: Path) -> bool:
    if not document["tasks"]:
        return False
    try:
        from adapterbank.figures.stream import draw_stream

        for name in ("stream.svg", "stream.png"):
            draw_stream(document, target / name)
    except ImportError:
        print(
            "No picture: it takes matplotlib (pip install 'adapterbank[study]').", file=sys.stderr
        )
        return False
    return True


def _show(document: dict[str, Any]) -> None:
    from adapterbank.streams.report import columns, heading, rows, sentences

    if document["tasks"]:
        print_table(heading(document), columns(document), rows(document))
    for sentence in sentences(document):
        print(sentence)
    for each in document["set_aside"]:
        print(f"Set aside: {each['from']}: {each['reason']}")
