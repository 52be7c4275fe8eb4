"""`adapterbank demo`: three bundled tasks arrive one after the other, and none of them forgets."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.output import JSON_HELP, print_json, print_table

if TYPE_CHECKING:
    from adapterbank.bank import Bank
    from adapterbank.store.entry import TaskInfo
    from adapterbank.tasks.predictions import Prediction
    from adapterbank.tasks.task import Task

EPOCHS = 8
MIXED = (
    ("questions", "I wonder which city hosts the oldest film festival"),
    ("support", "the second invoice has our old address on it again"),
    ("reviews", "The soup was cold but the waiter saved the evening."),
    ("questions", "what made the soufflé collapse?"),
    (None, "a text for the bare encoder"),
    ("support", "does the blue one come in a smaller size?"),
)


def demo(
    bank: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Keep the bank there, to go on with it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another start, another order of the rows.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Learn the three bundled tasks on the frozen embedded base, and show that each stays as it is.

    [bold]Examples[/bold]

      adapterbank demo

      adapterbank demo --bank demo-bank --seed 1
    """
    from rich.console import Console

    notes = Console(stderr=True, highlight=False)
    notes.print("Loading the embedded base …")
    from adapterbank.bank import Bank
    from adapterbank.tasks.samples import SAMPLES, load_sample

    with ExitStack() as stack:
        home = Bank.open(bank or stack.enter_context(tempfile.TemporaryDirectory()))
        before: dict[str, list[Prediction]] = {}
        results = []
        for number, name in enumerate(SAMPLES, start=1):
            task = load_sample(name)
            notes.print(f"Task {number} of {len(SAMPLES)} arrives: {name}, {len(task.train)} rows.")
            results.append(_learn(home, task, seed))
            before[name] = home.predict(name, [example.text for example in task.test])
        report = {
            "tasks": results,
            "unchanged": _unchanged(home, before),
            "verified": all(verdict.ok for verdict in home.verify()),
            "mixed": _ask(home),
            "parameters": _account(home),
        }
    if as_json:
        print_json(report)
    else:
        _show(report, bank)
    if not (report["verified"] and report["unchanged"]):
        raise typer.Exit(1)


def _learn(home: Bank, task: Task, seed: int) -> dict[str, Any]:
    """Learn a task and publish it."""
    from adapterbank.cli.progress import follow

    began = time.perf_counter()
    events = home.learning(task.name, task, epochs=EPOCHS, seed=seed)
    learnt = follow(events, task.metric, task.name, quiet=True)
    entry = home.publish(task.name, learnt)
    next(events, None)  # it is kept: the run may remove its state
    manifest = learnt.manifest
    return {
        "task": task.name,
        "version": entry.version.version,
        "labels": list(task.labels),
        "dev": manifest.dev,
        "test": manifest.test,
        "baselines": manifest.baselines,
        "trained_parameters": manifest.parameters.trained,
        "percent_of_base": manifest.parameters.percent_of_base,
        "bytes": entry.version.bytes,
        "seconds": time.perf_counter() - began,
    }


def _unchanged(home: Bank, before: dict[str, list[Prediction]]) -> bool:
    """Whether every task, asked again at the end, answers what it did when it was learnt."""
    from adapterbank.tasks.samples import load_sample

    return all(
        home.predict(name, [example.text for example in load_sample(name).test]) == answers
        for name, answers in before.items()
    )


def _ask(home: Bank) -> list[dict[str, Any]]:
    """Inputs of all tasks in one go."""
    answers = home.predict_mixed(MIXED)
    found = []
    for (task, text), answer in zip(MIXED, answers, strict=True):
        vector = answer.embedding
        said = answer.label if vector is None else f"{len(vector)} numbers: {vector[0]:.3f} …"
        found.append({"task": task, "text": text, "answer": said})
    return found


def _account(home: Bank) -> dict[str, Any]:
    """Parameters of the bank, and of one whole model a task."""
    tasks: list[TaskInfo] = home.tasks()
    base = home.encoder.model.num_parameters()
    trained = sum(info.manifest.parameters.trained for info in tasks)
    return {
        "base": base,
        "tasks": trained,
        "bank": base + trained,
        "one_model_a_task": len(tasks) * base,
        "times_one_model": (base + trained) / base,
    }


def _show(report: dict[str, Any], bank: str | None) -> None:
    print_table(
        "Three tasks on one frozen encoder: accuracy on test, 90 rows that nothing saw before",
        ("task", "adapters 32", "n-grams", "frozen features", "own parameters", "MB", "seconds"),
        [
            (
                result["task"],
                f"{result['test']['accuracy']:.3f}",
                *(f"{found['accuracy']:.3f}" for found in result["baselines"].values()),
                f"{result['trained_parameters']:,} ({result['percent_of_base']:.2f} %)",
                f"{result['bytes'] / 1e6:.1f}",
                f"{result['seconds']:.0f}",
            )
            for result in report["tasks"]
        ],
    )
    print_table(
        "Inputs of all tasks in one go",
        ("text", "task", "answer"),
        [(each["text"], each["task"] or "–", str(each["answer"])) for each in report["mixed"]],
        texts=3,
    )
    print(
        "Each task still answers what it did when it was learnt, to the last bit."
        if report["unchanged"]
        else "Some task answers something else than when it was learnt."
    )
    print(
        "Verified: every digest, the base, and every task's probes."
        if report["verified"]
        else "Verification FAILED."
    )
    count = report["parameters"]
    print(
        f"Parameters: {count['bank']:,} in the bank ({count['times_one_model']:.2f} times the "
        f"base); one model a task would be {count['one_model_a_task']:,}."
    )
    where = f" --bank {bank}" if bank else ""
    print(f"Next: adapterbank train --help{f', or adapterbank tasks{where}' if bank else ''}")
