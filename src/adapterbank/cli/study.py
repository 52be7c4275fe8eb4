"""`adapterbank study`: run the studies, and look at what they found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapterbank.cli.output import counting
from adapterbank.errors import ConfigError

if TYPE_CHECKING:
    from adapterbank.compute.protocol import Compute
    from adapterbank.studies.study import Study

study = typer.Typer(no_args_is_help=True, help="Studies: many runs, one question. `run`, `status`.")
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with a study.toml.")]


@study.command()
def run(
    folder: Folder,
    on: Annotated[str, typer.Option("--on", help="Where runs take place: local.")] = "local",
    processes: Annotated[
        int, typer.Option(min=1, help="Runs at once; the cores are shared out among them.")
    ] = 1,
) -> None:
    """Run whatever the study still needs.

    Each run leaves a record in the folder `runs` beside the study's; studies share them. Stopped or
    killed, the same command goes on. Tasks are those of the catalogue: ADAPTERBANK_DATA names the
    folder of their rows.

    [bold]Examples[/bold]

      adapterbank study run reproduction/quality

      adapterbank study run reproduction/quality --processes 2
    """
    if on != "local":
        raise ConfigError(f"--on is {on!r}. Choose from: local.")
    from adapterbank.compute.local import LocalCompute
    from adapterbank.studies.study import read_study

    found = read_study(folder)
    _follow(found, LocalCompute(processes))
    _show(found)


@study.command()
def status(folder: Folder) -> None:
    """What is done, and the scores so far.

    [bold]Examples[/bold]

      adapterbank study status reproduction/quality
    """
    from adapterbank.studies.study import read_study

    found = read_study(folder)
    needed, missing = found.needed(), found.missing()
    typer.echo(f"{found.title}: {len(needed) - len(missing)} of {len(needed)} runs are done.\n")
    _show(found)


def _show(found: Study) -> None:
    from adapterbank.studies.table import markdown, table_of

    if found.choose:
        typer.echo(markdown(table_of(found)))


def _follow(found: Study, compute: Compute) -> None:
    from rich.console import Console

    from adapterbank.studies.run import describe, run_study

    console = Console(stderr=True, highlight=False)
    needed, missing = found.needed(), found.missing()
    console.print(f"{found.title}: {len(needed) - len(missing)} of {len(needed)} runs are done.")
    with counting("runs", console) as bar:
        done = len(needed) - len(missing)
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
                console.print(f"{what}: dev {score:.3f} ({seconds:.0f} s)", markup=False)
            elif event.kind == "failed":
                console.print(f"{what}: failed: {event.payload['message']}", markup=False)
