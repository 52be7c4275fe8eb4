"""Run what a study still needs, and follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from adapterbank.compute.every import run_every
from adapterbank.compute.protocol import Compute, Event, Work
from adapterbank.studies.runs import RunConfig
from adapterbank.studies.study import Study


def run_study(study: Study, compute: Compute) -> Iterator[tuple[RunConfig, Event]]:
    """Every missing run, until none is: once settings are chosen, further seeds are.

    Stopped at any moment, the same call goes on: what has a record is not run again, and a run that
    was under way goes on from its checkpoint.
    """
    while missing := {config.digest: config for config in study.missing()}:
        works = [
            Work(
                digest,
                "adapterbank.studies.work",
                {
                    "config": asdict(config),
                    "base": study.base,
                    "runs": str(study.store.folder.resolve()),
                },
            )
            for digest, config in missing.items()
        ]
        names = {digest: describe(config) for digest, config in missing.items()}
        for event in run_every(compute, works, names, "runs"):
            yield missing[event.id], event


def describe(config: RunConfig) -> str:
    """A run in a few words."""
    words = [config.rows.task, config.method, *(f"{k} {v}" for k, v in config.settings.items())]
    if config.recipe:
        words += [f"rate {config.recipe['learning_rate']:g}", f"seed {config.seed}"]
    return ", ".join(words)
