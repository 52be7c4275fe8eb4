"""`adapterbank demo`: one bundled task, learnt with adapters, with the head alone and in full."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.output import JSON_HELP, print_json, print_table

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder
    from adapterbank.model.methods import Method
    from adapterbank.tasks.task import Task

TRIES = ["I wonder which city hosts the oldest film festival", "what made the soufflé collapse?"]


def demo(
    seed: Annotated[int, typer.Option(help="Another start, another order of the rows.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Learn one of the bundled tasks on the frozen embedded base, and two baselines beside it.

    [bold]Examples[/bold]

      adapterbank demo

      adapterbank demo --seed 1 --json
    """
    from rich.console import Console

    notes = Console(stderr=True)
    notes.print("Loading the embedded base …")
    from adapterbank.model.adapter import AdapterConfig
    from adapterbank.model.encoder import load_encoder
    from adapterbank.model.methods import Method
    from adapterbank.tasks.samples import SAMPLES, load_sample

    encoder = load_encoder()
    task = load_sample(SAMPLES[0])
    notes.print(
        f"Task [bold]{task.name}[/bold]: {len(task.train)} rows to train, {len(task.dev)} for dev, "
        f"{len(task.test)} for test, labels {', '.join(task.labels)}."
    )
    before = encoder.fingerprint
    methods = [Method("adapters", AdapterConfig(size=32)), Method("head"), Method("full")]
    results = [run(encoder, task, method, seed) for method in methods]
    unchanged = _fingerprint_now(encoder) == before
    if as_json:
        print_json({"task": task.name, "base_unchanged": unchanged, "methods": results})
        return
    _show(task, results)
    print("The base is unchanged, bit for bit." if unchanged else "The base has CHANGED.")
    print("Next: adapterbank params --help, or three lines of Python in the README.")


def run(encoder: Encoder, task: Task, method: Method, seed: int) -> dict[str, Any]:
    """Train one method and score it on test."""
    import torch

    from adapterbank.model.count import total
    from adapterbank.tasks.batches import encode
    from adapterbank.training.evaluate import accuracy
    from adapterbank.training.loop import seeded_model, train
    from adapterbank.training.recipe import LEARNING_RATES, Recipe

    recipe = Recipe(LEARNING_RATES[method.name], seed=seed)
    model = seeded_model(encoder, task, method, recipe)
    began = time.perf_counter()
    dev = _follow(str(method), train(model, encoder, task, recipe))
    seconds = time.perf_counter() - began
    rows = encode(encoder.tokenizer, task.test, recipe.max_length)
    test = accuracy(model, rows, torch.tensor(task.label_ids(task.test)))
    groups = model.groups()
    tries = _predictions(encoder, task, model) if method.name == "adapters" else {}
    model.release()
    trained = total(parameter for group in groups.values() for parameter in group)
    return {
        "method": str(method),
        "dev": {"accuracy": dev},
        "test": {"accuracy": test},
        "trained_parameters": trained,
        "percent_of_base": 100 * trained / total(encoder.model.parameters()),
        "seconds": seconds,
        "predictions": tries,
    }


def _follow(title: str, events: Any) -> float:
    """Draw the events as a progress bar and return the best dev score."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from adapterbank.training.loop import Epoch

    best = 0.0
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<14}"), BarColumn(), TextColumn("{task.fields[note]}"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        line = bar.add_task(title, total=None, note="")
        for event in events:
            if isinstance(event, Epoch):
                best = max(best, event.dev_accuracy)
            else:
                note = (
                    f"loss {event.loss:.2f}  dev {best:.3f}  {event.examples_per_second:.0f} ex/s"
                )
                bar.update(line, total=event.steps, completed=event.step, note=note)
    if not console.is_terminal:
        console.print(f"{title}: best dev accuracy {best:.3f}")
    return best


def _predictions(encoder: Encoder, task: Task, model: Any) -> dict[str, str]:
    from adapterbank.tasks.batches import encode
    from adapterbank.tasks.task import Example
    from adapterbank.training.evaluate import logits_of

    rows = encode(encoder.tokenizer, [Example(text, "") for text in TRIES], encoder.max_length)
    best = logits_of(model, rows).argmax(-1).tolist()
    return {text: task.labels[i] for text, i in zip(TRIES, best, strict=True)}


def _fingerprint_now(encoder: Encoder) -> str:
    from adapterbank.model.encoder import fingerprint

    return fingerprint(encoder.model, encoder.stored)


def _show(task: Task, results: list[dict[str, Any]]) -> None:
    print_table(
        f"{task.name}: {len(task.test)} test rows",
        ("method", "test accuracy", "dev accuracy", "trained", "% of base", "seconds"),
        [
            (
                str(result["method"]),
                f"{result['test']['accuracy']:.3f}",
                f"{result['dev']['accuracy']:.3f}",
                f"{result['trained_parameters']:,}",
                f"{result['percent_of_base']:.2f}",
                f"{result['seconds']:.1f}",
            )
            for result in results
        ],
    )
    for text, label in results[0]["predictions"].items():
        print(f"  {text!r} → {label}")
