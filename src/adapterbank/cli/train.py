"""`adapterbank train`: labelled text in, a task in the bank out."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.cli.known import check_known
from adapterbank.cli.options import BankOption, BaseOption, DataOptions, DeviceOption, TaskName
from adapterbank.cli.output import JSON_HELP, print_classes, print_json, print_table
from adapterbank.cli.remote import ServerOption, refuse_there

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapterbank.events import Event, Learnt
    from adapterbank.model.encoder import Encoder
    from adapterbank.order import Order
    from adapterbank.store.entry import Entry
    from adapterbank.store.manifest import Manifest
    from adapterbank.tasks.task import Task


def train(
    context: typer.Context,
    task: TaskName,
    rows: DataOptions,
    bank: BankOption = "bank",
    base: BaseOption = None,
    method: Annotated[
        str | None,
        typer.Option(help="adapters, full, top-k, layer-norm or head.", show_default="adapters"),
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="m, the width of the adapters.", show_default="32")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Layers that top-k trains.", show_default="1")
    ] = None,
    first_layer: Annotated[
        int | None,
        typer.Option(
            help="The lowest layer with adapters; those below stay as they are.", show_default="0"
        ),
    ] = None,
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
    products: Annotated[
        str | None,
        typer.Option(
            help="How the encoder multiplies: fp32, bf16, or auto: bf16 where it is fast."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the start, the order, dropout and splits.")] = 0,
    device: DeviceOption = "auto",
    minutes: Annotated[float | None, typer.Option(help="Fit the run to this time.")] = None,
    baselines: Annotated[
        bool, typer.Option(help="Measure what simpler methods reach on the same rows.")
    ] = True,
    store: Annotated[
        str, typer.Option("--store", help="fp32, or fp16: half the size, if dev's answers hold.")
    ] = "fp32",
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="A word on the task, kept with it and on its card.")
    ] = "",
    from_version: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TASK@V",
            help="Go on from this version, with more rows or new labels. It is published only if "
            "it is no worse on the same dev rows. Where rows come back, give --dev and --test.",
        ),
    ] = None,
    even_if_worse: Annotated[
        bool, typer.Option("--even-if-worse", help="With --from: publish whatever came of it.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the same run where it was stopped.")
    ] = False,
    server: ServerOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report the data, the time and the size; stop there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Learn a task from labelled text and put it into the bank.

    Columns, kind, splits and every setting are found if they are not given, and said. The score at
    the end is of rows that nothing before it has seen; after --from, rows that this run has not.

    [bold]Examples[/bold]

      adapterbank train helpdesk --train messages.csv

      adapterbank train spam --train sms.tsv --text-column body --label-column kind --minutes 2

      adapterbank train paraphrase --train pairs.jsonl --dev dev.jsonl --method full

      adapterbank train answers --train squad.json --epochs 2

      adapterbank train mrpc --recipe paper --size 64     (a task of the catalogue)

      adapterbank train helpdesk --train july.csv --from helpdesk@1

      adapterbank train helpdesk --train messages.csv --server http://localhost:8000
    """
    settings: dict[str, Any] = {
        "method": method,
        "size": size,
        "top_k": top_k,
        "first_layer": first_layer,
        "recipe": recipe,
        "learning_rate": lr,
        "epochs": epochs,
        "batch_size": batch_size,
        "accumulate": accumulate,
        "max_length": max_length,
        "patience": patience,
        "checkpointing": checkpointing or None,
        "products": products,
        "seed": seed,
        "minutes": minutes,
        "baselines": baselines,
        "precision": store,
        "note": note,
        "from_version": from_version,
    }
    _check_together(method, size, first_layer, top_k, from_version, even_if_worse, rows)
    if server is not None:
        refuse_there(context, "dry_run", "resume", "folder")
        settings |= {"even_if_worse": even_if_worse, **rows.options()}
        _train_there(server, task, rows, settings, as_json)
        return
    data = rows.load(task, seed)
    if rows.train is None:
        check_known(data, bank)
    print(f"Read {len(data.train):,} rows to train on. Loading the base …", file=sys.stderr)
    from adapterbank.bank import Bank
    from adapterbank.cli.progress import follow
    from adapterbank.errors import BankNotFound
    from adapterbank.learn import going_on
    from adapterbank.model.encoder import load_encoder
    from adapterbank.order import make_order
    from adapterbank.training.team import team

    home = None
    try:
        home = Bank.open(bank, base, device=device, create=False)
        encoder, order = home.encoder, home.order(metric=rows.metric, **settings)
    except BankNotFound:
        if settings.pop("from_version") is not None:
            raise
        encoder = load_encoder(base or "minilm", device=device)
        order = make_order(encoder.layers, **settings)
    order, data = going_on(order, data)
    order.recipe_for(data, encoder.units)  # what cannot be is said before a bank is made for it
    if dry_run:
        _look(encoder, data, order, as_json)
        return
    together = team()
    if home is None and together.first:
        home = Bank.create(bank, encoder)
    together.wait()
    home = home or Bank.open(bank, base, device=device, create=False)
    events = home.learning(task, data, order=order, resume=resume)
    if resume:
        events = _said_if_anew(events)
    try:
        learnt = follow(events, data.metric, str(order.method))
    except KeyboardInterrupt:
        print("Stopped. The same command with --resume goes on from here.", file=sys.stderr)
        raise
    if not together.first:  # the first process keeps the result for all
        return
    entry = home.publish(task, learnt, even_if_worse=even_if_worse)
    next(events, None)  # the result is kept: the run may remove its state
    if as_json:
        print_json(learnt.result(entry))
    else:
        show(entry, learnt, data, bank)


def _check_together(
    method: str | None,
    size: int | None,
    first_layer: int | None,
    top_k: int | None,
    from_version: str | None,
    even_if_worse: bool,
    rows: DataOptions,
) -> None:
    """Refuse what would have no effect."""
    going_on = from_version is not None
    for given, has_effect, option, goes_with in (
        (size is not None, method in (None, "adapters"), "--size", "--method adapters"),
        (
            first_layer is not None,
            method in (None, "adapters"),
            "--first-layer",
            "--method adapters",
        ),
        (top_k is not None, method == "top-k" or going_on, "--top-k", "--method top-k"),
        (even_if_worse, going_on, "--even-if-worse", "--from"),
        (rows.positive is not None, not going_on, "--positive", "a task that begins anew"),
    ):
        if given and not has_effect:
            raise typer.BadParameter(f"{option} goes with {goes_with}.")


def _said_if_anew(events: Iterator[Event]) -> Iterator[Event]:
    """Say that there was nothing to go on from."""
    from adapterbank.events import Plan, Resumed

    planned = False
    for event in events:
        if planned and not isinstance(event, Resumed):
            print(
                "Of this data with these settings no state was kept: the run begins anew.",
                file=sys.stderr,
            )
        planned = isinstance(event, Plan)
        yield event


def _train_there(
    server: str, task: str, rows: DataOptions, settings: dict[str, Any], as_json: bool
) -> None:
    """Send the rows to a service, and wait for what it learns."""
    from adapterbank.cli.remote import train_there
    from adapterbank.errors import ConfigError

    if rows.train is None:
        raise ConfigError("A service learns from a file.", "Name it: --train rows.csv.")
    found = train_there(server, task, rows.train, settings)
    if as_json:
        print_json(found)
        return
    scores = found["test"] or found["dev"]
    said = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    print(f"Kept as {found['task']}@{found['version']}: {said}. Next:")
    print(f"  adapterbank predict {found['task']} --server {server}")


def _look(encoder: Encoder, task: Task, order: Order, as_json: bool) -> None:
    """A dry run: everything up to the plan. It makes no bank."""
    from adapterbank.cli.progress import Follower
    from adapterbank.events import Plan
    from adapterbank.learn import learn
    from adapterbank.tasks.report import DataReport

    found: dict[str, Any] = {"task": task.name}
    with Follower(task.metric, task.name) as follower:
        for event in learn(encoder, task, order):
            follower.see(event)
            if isinstance(event, DataReport):
                found["data"] = event.as_dict()
            elif isinstance(event, Plan):
                found |= asdict(event)
                break
    if as_json:
        print_json(found)


def show(entry: Entry, learnt: Learnt, task: Task, bank: str) -> None:
    """The result for people."""
    from adapterbank.cli.progress import clock
    from adapterbank.tasks.metrics import metric_name
    from adapterbank.training.evaluate import classes_of

    manifest = learnt.manifest
    split = "test" if manifest.test else "dev"
    seen = _who_saw(manifest)
    scores = manifest.test or manifest.dev
    title = f"{entry.task}: {split}, {len(learnt.examples)} {seen}"
    rows = [(_method_name(manifest), scores), *manifest.baselines.items()]
    print_table(
        title,
        ("method", *(metric_name(metric, manifest.positive) for metric in scores)),
        [(name, *(f"{found[metric]:.3f}" for metric in scores)) for name, found in rows],
    )
    if classes := classes_of(task, learnt.examples, learnt.predictions):
        print_classes(f"by class ({split})", classes)
    if verdict := _verdict(manifest, len(learnt.examples)):
        print(verdict)
    share = manifest.parameters
    print(
        f"{share.trained:,} parameters trained: {share.percent_of_base:.2f} % of the base, "
        f"{share.percent_without_embeddings:.2f} % outside its embeddings. "
        f"{clock(learnt.seconds)} in all, {learnt.examples_per_second:.0f} rows/s in training."
    )
    print(f"Kept as {entry} in {bank} ({entry.version.bytes / 1e6:.1f} MB). Next:")
    print(f"  adapterbank predict {entry.task} {_example_input(task)}")


def _who_saw(manifest: Manifest) -> str:
    """What the scored rows were to the run, and to the version that it went on from."""
    if not manifest.test:
        return "rows that selection has seen"
    if manifest.origin:  # it was trained on another split, of rows that may come back in this one
        return f"rows that this run did not train on; {manifest.origin} may have"
    return "rows that nothing saw before"


def _method_name(manifest: Manifest) -> str:
    size = f" {manifest.adapter.size}" if manifest.adapter else ""
    return manifest.method.name + size


def _verdict(manifest: Manifest, rows: int) -> str:
    """Whether the encoder was needed, with the noise of so few rows in view."""
    from adapterbank.tasks.metrics import LOWER_IS_BETTER, SHARES, accuracy_error

    scores, metric = manifest.test or manifest.dev, manifest.metric
    if not manifest.baselines or metric in LOWER_IS_BETTER:
        return ""
    name, best = max(manifest.baselines.items(), key=lambda item: item[1][metric])
    gap = scores[metric] - best[metric]
    if metric not in SHARES:
        return (
            f"{metric}: {100 * gap:+.1f} points against {name}. How far chance moves this score "
            f"on {rows} rows is not known: build nothing on a small lead."
        )
    # Two standard errors; that all rows are right does not make it certain.
    noise = 2 * accuracy_error((scores[metric] * rows + 1) / (rows + 2), rows)
    if gap > noise:
        return f"{100 * gap:.1f} points above {name}: training on the encoder pays here."
    if gap > -noise:
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
