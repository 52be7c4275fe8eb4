"""Run what a study still needs, and follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from adapterbank.compute.every import run_every
from adapterbank.compute.protocol import Compute, Event, Work
from adapterbank.model.config import AdapterConfig
from adapterbank.studies.data import load
from adapterbank.studies.runs import RunConfig
from adapterbank.studies.study import Study
from adapterbank.tasks.task_file import write_task


def run_study(study: Study, compute: Compute) -> Iterator[tuple[RunConfig, Event]]:
    """Every missing run, until none is: once settings are chosen, further seeds are.

    Stopped at any moment, the same call goes on: what has a record is not run again, and a run that
    was under way goes on from its checkpoint.
    """
    study.look(fresh=True)
    while missing := {config.digest: config for config in study.missing()}:
        works = [
            Work(
                digest,
                "adapterbank.studies.work",
                {
                    "config": asdict(config),
                    "base": study.base_place,
                    "data": str(_rows_of(study, config)),
                    "runs": str(study.store.folder),
                },
                folder=str(study.neighbours),
                inputs=[f".runs/data/{config.data}.jsonl"],
            )
            for digest, config in missing.items()
        ]
        names = {digest: describe(config) for digest, config in missing.items()}
        for event in run_every(compute, works, names, "runs"):
            yield missing[event.id], event


def _rows_of(study: Study, config: RunConfig) -> Path:
    """A file with the run's rows, so that a process elsewhere needs nothing but that."""
    path = study.neighbours / ".runs" / "data" / f"{config.data}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_task(path, load(config.rows, study.sources[config.rows.task]))
    return path


def describe(config: RunConfig) -> str:
    """A run in a few words: what is as usual is left out."""
    usual = asdict(AdapterConfig()) if config.method == "adapters" else {}
    own = {k: v for k, v in config.settings.items() if k == "size" or v != usual.get(k)}
    words = [config.rows.task, config.method, *(f"{k} {v}" for k, v in own.items())]
    if config.recipe:
        words += [f"rate {config.recipe['learning_rate']:g}", f"seed {config.seed}"]
    return ", ".join(words)
