"""One run of a study, in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from adapterbank.compute.records import only_one
from adapterbank.errors import ConfigError, DataError
from adapterbank.studies.probes import probe
from adapterbank.studies.runs import Record, Rows, RunConfig, RunStore
from adapterbank.studies.study import BASELINES, NGRAMS, SINGLE

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder
    from adapterbank.tasks.task import Task

Emit = Callable[[dict[str, Any]], None]


def preload() -> None:
    """What is slow to import."""
    from adapterbank import learn

    learn.preload()


def work(arguments: dict[str, Any], emit: Emit) -> Record:
    """Run, and keep the record."""
    from adapterbank.model.encoder import load_encoder

    given = arguments["config"]
    config = RunConfig(**{**given, "rows": Rows(**given["rows"])})
    store = RunStore(Path(arguments["runs"]))
    if (done := store.get(config)) is not None:
        return done
    encoder = load_encoder(arguments["base"])
    if encoder.fingerprint != config.base:
        raise ConfigError(f"The base is {encoder.fingerprint}, and the run is of {config.base}.")
    task = _rows(Path(arguments["data"]), config)
    states = store.folder.parent / ".runs"
    # Another study may need the same run, or the same training for another probe.
    training = replace(config, probe="").digest
    with only_one(states / f"{training}.running"):
        if (done := store.get(config)) is not None:
            return done
        record: Record = {}

        def keep(made: Record) -> None:
            record.update(made, commit=_commit())
            store.put(config, record)

        if config.method in BASELINES:
            keep(_baseline(config, encoder, task))
        else:
            _train(config, encoder, task, states, emit, keep)
    return record


def _rows(path: Path, config: RunConfig) -> Task:
    """Those that the run is named after."""
    from adapterbank.tasks.task_file import read_task

    anew = "Delete the file: it is written anew."
    try:
        task = read_task(path)
    except DataError as error:
        raise DataError(f"{path}: {error.message}", anew) from error
    if task.digest() != config.data:
        raise DataError(f"The rows of {task.name} in {path} are not those of the study.", anew)
    return task


def _train(
    config: RunConfig,
    encoder: Encoder,
    task: Task,
    runs: Path,
    emit: Emit,
    keep: Callable[[Record], None],
) -> None:
    from adapterbank.events import Learnt, Resumed
    from adapterbank.learn import learn
    from adapterbank.model.config import AdapterConfig
    from adapterbank.model.methods import Method, MethodName
    from adapterbank.order import Order
    from adapterbank.store.package import pack
    from adapterbank.training.loop import Epoch, Step

    if config.method == "adapters":
        method = Method("adapters", AdapterConfig(**config.settings))
    else:
        method = Method(cast(MethodName, config.method), **config.settings)
    settings = {"products": SINGLE, **config.recipe, "seed": config.seed}
    order = Order(method, settings=settings, baselines=False, statistics=False)
    curve: list[float] = []
    for event in learn(encoder, task, order, runs=runs, resume=True):
        if isinstance(event, Step):
            emit({"step": event.step, "steps": event.steps})
        elif isinstance(event, Resumed):
            curve += [round(scores[task.metric], 5) for scores in event.dev]
        elif isinstance(event, Epoch):
            curve.append(round(event.dev[task.metric], 5))
        elif isinstance(event, Learnt):
            manifest = event.manifest
            record: Record = {
                "metric": task.metric,
                "dev": manifest.dev,
                "test": manifest.test,
                "dev_by_epoch": curve,
                "trained_parameters": manifest.parameters.trained,
                "percent_of_base": manifest.parameters.percent_of_base,
                "percent_without_embeddings": manifest.parameters.percent_without_embeddings,
                "seconds": round(event.seconds, 1),
                "software": manifest.software,
            }
            if config.probe:
                package = pack(manifest, event.tensors).unpack()
                record[config.probe] = probe(config.probe, encoder, package, task)
            keep(record)  # at once: learning lets go of its state when it is asked to go on


def _baseline(config: RunConfig, encoder: Encoder, task: Task) -> Record:
    from adapterbank.training.baselines import frozen_baseline, ngram_baseline
    from adapterbank.training.recipe import make_recipe
    from adapterbank.training.rows import prepare
    from adapterbank.verify import software

    if config.method == NGRAMS:
        found = ngram_baseline(task, seed=config.seed, **config.settings)
    else:
        length = make_recipe("default", "head", len(task.train), task.kind).max_length
        splits = (prepare(encoder, task, r, length) for r in (task.train, task.dev, task.test))
        found = frozen_baseline(encoder, task, *splits)
    return {
        "metric": task.metric,
        "dev": found.dev,
        "test": found.test,
        "description": found.description,
        "seconds": round(found.seconds, 1),
        "software": software(encoder),
    }


def _commit() -> str:
    """Of the code, where it is under version control."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return asked.stdout.strip()
