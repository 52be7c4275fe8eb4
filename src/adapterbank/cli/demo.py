"""`adapterbank demo`: one bundled task, learnt with adapters, with the head alone and in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.output import JSON_HELP, print_json, print_table

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder
    from adapterbank.model.methods import Method
    from adapterbank.tasks.task import Task

EPOCHS = 10
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
    print("Next: adapterbank train --help, or three lines of Python in the README.")


def run(encoder: Encoder, task: Task, method: Method, seed: int) -> dict[str, Any]:
    """Learn with one method and score it on test."""
    from adapterbank.cli.progress import follow
    from adapterbank.learn import Order, learn
    from adapterbank.serving.predictor import Predictor
    from adapterbank.store.package import Package
    from adapterbank.tasks.task import Example

    order = Order(method, settings={"seed": seed, "epochs": EPOCHS}, baselines=False)
    learnt = follow(learn(encoder, task, order), task.metric, str(method), quiet=True)
    manifest = learnt.manifest
    tries = {}
    if method.name == "adapters":
        with Predictor(encoder, Package(manifest, learnt.tensors)) as predictor:
            answers = predictor.predict([Example(text) for text in TRIES])
        tries = {text: answer.label for text, answer in zip(TRIES, answers, strict=True)}
    return {
        "method": str(method),
        "dev": manifest.dev,
        "test": manifest.test,
        "trained_parameters": manifest.parameters.trained,
        "percent_of_base": manifest.parameters.percent_of_base,
        "seconds": learnt.seconds,
        "predictions": tries,
    }


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
