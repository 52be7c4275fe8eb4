"""`adapterbank study`: run the studies, and look at what they found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapterbank.cli.options import (
    EncodingOption,
    LabelColumn,
    OnOption,
    PairColumn,
    TextColumn,
    ThroughOption,
)
from adapterbank.cli.output import JSON_HELP, counting, print_json
from adapterbank.compute.open import check_on

if TYPE_CHECKING:
    from adapterbank.compute.protocol import Compute
    from adapterbank.studies.study import Study

study = typer.Typer(
    no_args_is_help=True,
    short_help="Studies: many runs, one question. `run`, `status`, `report`, `new`.",
)
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with a study.toml.")]


@study.callback()
def studies() -> None:
    """Studies: many runs, one question.

    [bold]Examples[/bold]

      adapterbank study new studies/messages --train messages.csv

      adapterbank study run studies/messages

      adapterbank study report studies/messages
    """


@study.command()
def run(
    folder: Folder,
    on: OnOption = "local",
    through: ThroughOption = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Runs at once; the cores are shared out among them.")
    ] = 1,
) -> None:
    """Run whatever the study still needs.

    Each run leaves a record in the folder `runs` beside the study's; studies share them. Stopped or
    killed, the same command goes on. Tasks are files of your own, named in study.toml, or tasks of
    the catalogue: ADAPTERBANK_DATA names the folder of their rows.

    [bold]Examples[/bold]

      adapterbank study run reproduction/quality

      adapterbank study run reproduction/quality --processes 2
    """
    check_on(on)
    from adapterbank.compute.open import open_compute
    from adapterbank.studies.stream import is_stream
    from adapterbank.studies.study_file import read_study

    if is_stream(folder):
        _run_stream(folder)
        return
    found = read_study(folder)
    _follow(found, open_compute(on, processes, through=through))
    _show(found)


@study.command()
def status(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False
) -> None:
    """What is done, and the scores so far.

    [bold]Examples[/bold]

      adapterbank study status reproduction/quality

      adapterbank study status reproduction/quality --json
    """
    from adapterbank.studies.answers import kind_of
    from adapterbank.studies.stream import is_stream
    from adapterbank.studies.study_file import read_study

    if is_stream(folder):
        _show_stream(folder, as_json)
        return
    found = read_study(folder)
    if as_json:
        print_json(kind_of(found).compute(found))
        return
    needed, missing = found.needed(), found.missing()
    typer.echo(f"{found.title}: {len(needed) - len(missing)} of {len(needed)} runs are done.\n")
    _show(found)


@study.command()
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A study, or a folder of studies.")
    ] = Path("reproduction"),
    markdown: Annotated[
        Path | None, typer.Option(metavar="F.md", help="All studies as one page in Markdown.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="F.html", help="… as one page in HTML; else report.html in FOLDER."),
    ] = None,
) -> None:
    """Write what was found: tables and pictures from the records of runs alone.

    Each study's README.md gets its table and its picture, and all studies become one page that
    needs nothing else. Once a study has its lock, neither rows nor base are read; what is not run
    yet is said.

    [bold]Examples[/bold]

      adapterbank study report

      adapterbank study report reproduction/quality

      adapterbank study report reproduction --markdown docs/reproduction.md
    """
    from importlib.util import find_spec

    from adapterbank.errors import ConfigError
    from adapterbank.studies.findings import MARK as FINDINGS
    from adapterbank.studies.findings import findings_of
    from adapterbank.studies.findings import markdown as of_findings
    from adapterbank.studies.report import as_html, as_markdown, study_folders, write_page

    for needed in ("matplotlib", "markdown_it"):
        if find_spec(needed) is None:
            raise ConfigError(
                "A report takes what draws its pictures and pages.",
                "pip install 'adapterbank[study]'",
            )
    pages = []
    for each in study_folders(folder):
        pages.append(write_page(each))
        typer.echo(f"{each}: {pages[-1].status}")
    head = folder / "README.md"
    title, introduction = "Studies", ""
    if len(pages) > 1 and head.is_file():
        first, _, introduction = head.read_text("utf-8").partition("\n")
        title = first.removeprefix("# ")
        if FINDINGS in introduction:  # the paper's statements: other studies have none
            found = of_findings(findings_of(folder))
            introduction = introduction.replace(FINDINGS, f"## Findings\n\n{found}")
    elif len(pages) == 1:
        title = pages[0].title
    target = html or folder / "report.html"
    _write(target, as_html(pages, title, introduction))
    if markdown is not None:
        _write(markdown, as_markdown(pages, title, introduction, markdown))


@study.command()
def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the study is to be.")],
    train: Annotated[
        Path, typer.Option("--train", metavar="F", help="Your labelled rows, as for train.")
    ],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The task's.", show_default="like the file's")
    ] = "",
    kind: Annotated[
        str | None, typer.Option(help="As for train, where it is not what would be found.")
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    encoding: EncodingOption = "utf-8",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad rows out.")] = False,
) -> None:
    """Begin a study of your own data: adapters of three sizes beside what they compete with.

    It reads the rows, writes a study.toml that can be changed, and runs nothing.

    [bold]Examples[/bold]

      adapterbank study new studies/messages --train messages.csv

      adapterbank study new studies/mail --train mail.csv --text-column body --label-column team

      adapterbank study run studies/messages
    """
    from adapterbank.studies.new import begin_study

    begun = begin_study(
        folder,
        train,
        name,
        kind=kind,
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
        encoding=encoding if encoding != "utf-8" else None,
        skip_bad=skip_bad,
    )
    typer.echo(f"Begun: {begun}. Next: adapterbank study run {folder}")


def _write(target: Path, page: str) -> None:
    from adapterbank.compute.records import write_whole

    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page)
    typer.echo(f"Report: {target}")


def _run_stream(folder: Path) -> None:
    """Learn the stream's tasks into a bank beside the studies, with the contrast."""
    from adapterbank.bank import Bank
    from adapterbank.cli.stream import follow
    from adapterbank.compute.records import write_record
    from adapterbank.streams.stream import Stream, open_source
    from adapterbank.studies.report import ANSWER
    from adapterbank.studies.stream import LIST, answer_of

    path = folder / LIST
    source = open_source(path, {})
    place = folder.resolve()
    home = Bank.open(place.parent / ".runs" / place.name)
    running = Stream(home, path, source, contrast=True)
    try:
        follow(running.run())
    finally:
        report = running.report()
        if report["tasks"]:
            write_record(folder / ANSWER, answer_of(report))
    if report["problems"]:
        typer.echo("Something that was learnt has changed: adapterbank study status says what.")
        raise typer.Exit(1)


def _show_stream(folder: Path, as_json: bool) -> None:
    from adapterbank.studies.report import ANSWER
    from adapterbank.studies.stream import markdown, read_answer

    answer = read_answer(folder / ANSWER)
    if as_json:
        print_json(answer or {"tasks": []})
    else:
        typer.echo("Nothing is learnt yet." if answer is None else markdown(answer))


def _show(found: Study) -> None:
    """What was found so far."""
    from adapterbank.studies.answers import kind_of

    kind = kind_of(found)
    answer = kind.compute(found)
    if answer["runs_done"]:
        typer.echo(kind.markdown(answer))


def _follow(found: Study, compute: Compute) -> None:
    from rich.console import Console

    from adapterbank.studies.run import describe, run_study

    console = Console(stderr=True, highlight=False)
    needed, missing = found.needed(), found.missing()
    done = len(needed) - len(missing)
    told = f"{found.title}: {done} of {len(needed)} runs are done."
    console.print(told, markup=False, soft_wrap=True)
    with counting("runs", console) as bar:
        line = bar.add_task("runs", total=len(needed), completed=done, note="")
        for config, event in run_study(found, compute):
            what = describe(config)
            if event.kind == "event" and "step" in event.payload:
                at = event.payload
                bar.update(line, note=f"{what}: step {at['step']} of {at['steps']}")
            elif event.kind == "done":
                bar.update(line, advance=1, total=len(found.needed()))
                score = event.payload["dev"][event.payload["metric"]]
                seconds = event.payload["seconds"]
                told = f"{what}: dev {score:.3f} ({seconds:.0f} s)"
                console.print(told, markup=False, soft_wrap=True)
            elif event.kind == "failed":
                told = f"{what}: failed: {event.payload['message']}"
                console.print(told, markup=False, soft_wrap=True)
