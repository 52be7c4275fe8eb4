"""`adapterbank sweep`: a grid of settings, the best on validation into the bank."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.known import check_known
from adapterbank.cli.options import (
    BankOption,
    BaseOption,
    DataOptions,
    DeviceOption,
    OnOption,
    TaskName,
    ThroughOption,
)
from adapterbank.cli.output import JSON_HELP, counting, print_json, print_table
from adapterbank.compute.open import check_on
from adapterbank.compute.records import write_record
from adapterbank.errors import TaskNotFound

if TYPE_CHECKING:
    from adapterbank.store.store import Store
    from adapterbank.sweeps import Sweep
    from adapterbank.tasks.task import Task
    from adapterbank.training.sweep import Candidate


def sweep(
    task: TaskName,
    rows: DataOptions,
    grid: Annotated[
        str,
        typer.Option(
            metavar="NAME|F.toml", help="quick, methods, paper-glue, paper-extra, or a TOML file."
        ),
    ] = "quick",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each setting.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the splits.")] = 0,
    bank: BankOption = "bank",
    base: BaseOption = None,
    device: DeviceOption = "auto",
    on: OnOption = "local",
    through: ThroughOption = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Trials at once; the cores are shared out among them.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Try a grid of settings and publish the best, chosen on dev alone.

    Every trial leaves a record. A sweep that was stopped goes on when the same command is given
    again. A TOML grid has one list an axis: learning_rate = [3e-4, 1e-3].

    [bold]Examples[/bold]

      adapterbank sweep helpdesk --train messages.csv

      adapterbank sweep mrpc --grid paper-glue --seeds 5

      adapterbank sweep helpdesk --train messages.csv --grid methods --json
    """
    check_on(on)
    from adapterbank.training.sweep import read_grid, trials

    every = trials(read_grid(grid), seeds)
    data = rows.load(task, seed)
    if rows.train is None:
        check_known(data, bank)
    from adapterbank.bank import Bank
    from adapterbank.compute.open import open_compute
    from adapterbank.order import make_order
    from adapterbank.sweeps import Sweep

    home = Bank.open(bank, base, device=device)
    for trial in every:  # what cannot be is said before the first of them runs
        order = make_order(home.encoder.layers, **trial.settings, seed=trial.seed)
        order.recipe_for(data, home.encoder.units)
    store = home.store
    # Trials of one task share a folder: a larger grid finds the smaller one's done.
    about = [data.digest(), store.base.fingerprint, *_chosen_class(rows, data)]
    key = hashlib.sha256(json.dumps(about).encode()).hexdigest()
    place = store.runs(task) / f"sweep-{key[:12]}"
    swept = Sweep(place, base or store.base.name, device, every)
    swept.open(data)
    _follow(swept, open_compute(on, processes, through=through, bank=bank))
    candidates = swept.winner(data.metric)
    version = _publish(swept, candidates[0], store, task)
    report = {
        "task": task,
        "version": version,
        "metric": data.metric,
        "winner": asdict(candidates[0]),
        "candidates": [asdict(candidate) for candidate in candidates],
        "records": str(place / "trials"),
    }
    if as_json:
        print_json(report)
    else:
        _show(report, candidates)


def _chosen_class(rows: DataOptions, data: Task) -> list[str]:
    """The class whose F1 is told, if it was chosen; the digest has it where that is the metric."""
    usual = replace(data, metric="", positive="").positive
    chosen = rows.positive and data.metric != "f1" and data.positive != usual
    return [data.positive] if chosen else []


def _follow(swept: Sweep, compute: Any) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    done, every = len(swept.records()), len(swept.trials)
    if done:
        console.print(f"{done} of {every} trials are done already.")
    with counting("trials", console) as bar:
        line = bar.add_task("trials", total=every, completed=done, note="")
        for trial, event in swept.run(compute):
            if event.kind == "event" and "step" in event.payload:
                note = f"{trial}: step {event.payload['step']} of {event.payload['steps']}"
                bar.update(line, note=note)
            elif event.kind == "done":
                bar.advance(line)
                dev = ", ".join(f"{k} {v:.3f}" for k, v in event.payload["dev"].items())
                console.print(f"{trial}: dev {dev}", markup=False, soft_wrap=True)
            elif event.kind == "failed":
                told = f"{trial}: failed: {event.payload['message']}"
                console.print(told, markup=False, soft_wrap=True)


def _publish(swept: Sweep, winner: Candidate, store: Store, task: str) -> int:
    """Publish the winner, once: a finished sweep that is run again says what it published, as long
    as the bank has it."""
    from adapterbank.store.package import read_package

    mark = swept.folder / "published.json"
    if mark.is_file():
        before = json.loads(mark.read_text("utf-8"))
        if before["trial"] == winner.best_trial and _is_there(store, task, before):
            return int(before["version"])
    package = read_package(swept.package_of(winner.best_trial))
    version = store.publish(task, package.manifest, package.tensors).version
    noted = {"trial": winner.best_trial, "version": version.version, "package": version.package}
    write_record(mark, noted)
    return version.version


def _is_there(store: Store, task: str, noted: dict[str, Any]) -> bool:
    """Whether the bank still has the version that was noted, and not another of that number."""
    try:
        found = store.find(f"{task}@{noted['version']}")
    except TaskNotFound:
        return False
    return found.version.package == noted.get("package")


def _plus_minus(mean: float, error: float | None) -> str:
    return f"{mean:.4f}" if error is None else f"{mean:.4f} ± {error:.4f}"


def _show(report: dict[str, Any], candidates: list[Candidate]) -> None:
    from adapterbank.training.sweep import describe

    several = any(len(each.trials) > 1 for each in candidates)
    print_table(
        f"{report['task']}: {report['metric']}"
        + (", mean ± standard error over seeds" if several else ", one seed"),
        ("setting", "dev", "test", "runs"),
        [
            (
                describe(each.settings),
                _plus_minus(each.dev, each.dev_error),
                "" if each.test is None else _plus_minus(each.test, each.test_error),
                str(len(each.trials)),
            )
            for each in candidates
        ],
    )
    print(
        f"The first, best on dev, is {report['task']}@{report['version']}. "
        f"Its dev score was used to choose it; its test score was not.\n"
        f"Records of all trials: {report['records']}"
    )
