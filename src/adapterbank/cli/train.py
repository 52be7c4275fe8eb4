"""`adapterbank train`: labelled text in, a task in the bank out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.options import (
    BankOption,
    BaseOption,
    DevFile,
    DeviceOption,
    EncodingOption,
    FolderOption,
    KindOption,
    LabelColumn,
    LabelNames,
    MetricOption,
    PairColumn,
    SkipBad,
    TaskName,
    TestFile,
    TextColumn,
    TrainFile,
    bank_folder,
    load_data,
)
from adapterbank.cli.output import JSON_HELP, print_classes, print_json, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from adapterbank.learn import Event, Learnt
    from adapterbank.store.manifest import Manifest
    from adapterbank.tasks.task import Task


def train(
    task: TaskName,
    train: TrainFile = None,
    dev: DevFile = None,
    test: TestFile = None,
    kind: KindOption = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    label_names: LabelNames = None,
    metric: MetricOption = None,
    encoding: EncodingOption = "utf-8",
    skip_bad: SkipBad = False,
    folder: FolderOption = None,
    bank: BankOption = "bank",
    base: BaseOption = "minilm",
    method: Annotated[
        str, typer.Option(help="adapters, full, top-k, layer-norm or head.")
    ] = "adapters",
    size: Annotated[int, typer.Option(help="m, the width of the adapters.")] = 32,
    top_k: Annotated[int, typer.Option(help="Layers that top-k trains.")] = 1,
    first_layer: Annotated[
        int, typer.Option(help="The lowest layer with adapters; those below stay as they are.")
    ] = 0,
    recipe: Annotated[
        str, typer.Option(help="default, or paper: section 3.1 to the letter.")
    ] = "default",
    lr: Annotated[float | None, typer.Option(help="The highest learning rate.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows a step.")] = None,
    accumulate: Annotated[
        int | None, typer.Option(help="Pieces that a batch is computed in: less memory.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens a text; more are cut.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without a better dev score.")
    ] = None,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Recompute activations: less memory, slower.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the start, the order, dropout and splits.")] = 0,
    device: DeviceOption = "auto",
    minutes: Annotated[float | None, typer.Option(help="Fit the run to this time.")] = None,
    baselines: Annotated[
        bool, typer.Option(help="Measure what simpler methods reach on the same rows.")
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the same run where it was stopped.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report the data, the time and the size; stop there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Learn a task from labelled text and put it into the bank.

    Columns, kind, splits and every setting are found if they are not given, and said. The score at
    the end is of rows that nothing before it has seen.

    [bold]Examples[/bold]

      adapterbank train support --train messages.csv

      adapterbank train spam --train sms.tsv --text-column body --label-column kind --minutes 2

      adapterbank train paraphrase --train pairs.jsonl --dev dev.jsonl --method full

      adapterbank train answers --train squad.json --epochs 2

      adapterbank train mrpc --recipe paper --size 64     (a task of the catalogue)
    """
    data = load_data(
        task,
        train,
        dev,
        test,
        folder=folder,
        label_names=label_names,
        metric=metric,
        kind=kind,
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
        encoding=encoding,
        skip_bad=skip_bad,
        seed=seed,
    )
    print(f"Read {len(data.train):,} rows to train on. Loading the base {base} …", file=sys.stderr)
    from adapterbank.cli.progress import follow
    from adapterbank.learn import Order, learn
    from adapterbank.model.encoder import load_encoder
    from adapterbank.model.methods import make_method
    from adapterbank.store.names import check_name
    from adapterbank.store.store import RUNS, publish

    data = data.named(check_name(task))
    home = bank_folder(bank)
    encoder = load_encoder(base, device=device)
    how = make_method(
        method,  # type: ignore[arg-type]
        layers=encoder.layers,
        size=size,
        top_k=top_k,
        first_layer=first_layer,
    )
    settings = {
        "learning_rate": lr,
        "epochs": epochs,
        "batch_size": batch_size,
        "accumulate": accumulate,
        "max_length": max_length,
        "patience": patience,
        "checkpointing": checkpointing or None,
        "seed": seed,
    }
    order = Order(how, recipe, settings, minutes, baselines)  # type: ignore[arg-type]
    if dry_run:
        _look(learn(encoder, data, order), data, as_json)
        return
    events = learn(encoder, data, order, runs=home / RUNS / task, resume=resume)
    try:
        learnt = follow(events, data.metric, str(how))
    except KeyboardInterrupt:
        print("Stopped. The same command with --resume goes on from here.", file=sys.stderr)
        raise
    manifest = publish(home, learnt.manifest, learnt.tensors)
    next(events, None)  # the result is kept: the run may remove its state
    if as_json:
        print_json(result(manifest, learnt))
    else:
        show(manifest, learnt, data, home)


def _look(events: Iterator[Event], task: Task, as_json: bool) -> None:
    """A dry run: everything up to the plan."""
    from adapterbank.cli.progress import Follower
    from adapterbank.learn import Plan
    from adapterbank.tasks.report import DataReport

    found: dict[str, Any] = {"task": task.name}
    with Follower(task.metric, task.name) as follower:
        for event in events:
            follower.see(event)
            if isinstance(event, DataReport):
                found["data"] = event.as_dict()
            elif isinstance(event, Plan):
                found |= asdict(event)
                break
    if as_json:
        print_json(found)


def result(manifest: Manifest, learnt: Learnt) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "task": manifest.task,
        "version": manifest.version,
        "kind": manifest.kind,
        "labels": list(manifest.labels),
        "metric": manifest.metric,
        "dev": manifest.dev,
        "test": manifest.test,
        "baselines": manifest.baselines,
        "method": manifest.method.name,
        "trained_parameters": manifest.parameters.trained,
        "percent_of_base": manifest.parameters.percent_of_base,
        "percent_without_embeddings": manifest.parameters.percent_without_embeddings,
        "temperature": manifest.temperature,
        "rows": manifest.data.rows,
        "seconds": learnt.seconds,
        "examples_per_second": learnt.examples_per_second,
    }


def show(manifest: Manifest, learnt: Learnt, task: Task, home: Path) -> None:
    """The result for people."""
    from adapterbank.cli.progress import clock
    from adapterbank.tasks.metrics import per_class

    split = "test" if manifest.test else "dev"
    seen = "rows that nothing saw before" if manifest.test else "rows that selection has seen"
    scores = manifest.test or manifest.dev
    title = f"{manifest.task}: {split}, {len(learnt.examples)} {seen}"
    rows = [(_method_name(manifest), scores), *manifest.baselines.items()]
    print_table(
        title,
        ("method", *scores),
        [(name, *(f"{found[metric]:.3f}" for metric in scores)) for name, found in rows],
    )
    if manifest.kind == "classification":
        classes = per_class(
            [str(example.label) for example in learnt.examples],
            [str(prediction.label) for prediction in learnt.predictions],
            manifest.labels,
        )
        print_classes(f"by class ({split})", classes)
    print(_verdict(manifest, len(learnt.examples)))
    share = manifest.parameters
    print(
        f"{share.trained:,} parameters trained: {share.percent_of_base:.2f} % of the base, "
        f"{share.percent_without_embeddings:.2f} % outside its embeddings. "
        f"{clock(learnt.seconds)} in all, {learnt.examples_per_second:.0f} rows/s in training."
    )
    print(f"Kept as {manifest.task}@{manifest.version} in {home}. Next:")
    print(f"  adapterbank predict {manifest.task} {_example_input(task)}")


def _method_name(manifest: Manifest) -> str:
    size = f" {manifest.adapter.size}" if manifest.adapter else ""
    return manifest.method.name + size


def _verdict(manifest: Manifest, rows: int) -> str:
    """Whether the encoder was needed, with the noise of so few rows in view."""
    from adapterbank.tasks.metrics import LOWER_IS_BETTER, accuracy_error

    scores, metric = manifest.test or manifest.dev, manifest.metric
    if not manifest.baselines or metric in LOWER_IS_BETTER:
        return ""
    name, best = max(manifest.baselines.items(), key=lambda item: item[1][metric])
    gap = scores[metric] - best[metric]
    noise = accuracy_error(min(max(scores[metric], 0.0), 1.0), rows)
    if gap > 2 * noise:
        return f"{100 * gap:.1f} points above {name}: training on the encoder pays here."
    if gap > -2 * noise:
        return (
            f"No clear lead over {name} ({100 * gap:+.1f} points; {rows} rows are sure to "
            f"±{100 * noise:.1f}): for this data that may be enough."
        )
    return f"{-100 * gap:.1f} points below {name}: prefer that here, or give more rows."


def _example_input(task: Task) -> str:
    import shlex

    example = task.dev[0]
    texts = [text for text in (example.text, example.pair) if text is not None]
    return " ".join(shlex.quote(text if len(text) < 70 else text[:67] + "…") for text in texts)
