"""The proof that nothing is forgotten: a fresh process asks every task about its held-out rows.

Work for `compute`. Of each task it gives the score, a digest of every bit of its logits and one of
every byte of its package. All on the CPU, with the same rows in the same batches on the same number
of threads: on the same software and processor the bits must be the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from adapterbank.bank import Bank
from adapterbank.errors import AdapterBankError
from adapterbank.store.entry import Entry
from adapterbank.store.mount import mount
from adapterbank.store.package import MANIFEST, Package
from adapterbank.store.store import Store
from adapterbank.store.weights import WEIGHTS
from adapterbank.tasks.task_file import read_task
from adapterbank.training.evaluate import logits_of, predictions_of, scores_of
from adapterbank.training.rows import prepare
from adapterbank.verify import DECIDES, software

THREADS = 2  # whatever the machine has: the order of a sum depends on it


def work(arguments: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Check the tasks that are named, each on its rows."""
    bank = Bank.open(arguments["bank"], arguments["base"], device="cpu", create=False)
    made_with = software(bank.encoder)
    tasks = []
    for task in arguments["tasks"]:
        tasks.append({"arrival": task["arrival"], **_checked(bank, task)})
        emit({"checked": len(tasks), "of": len(arguments["tasks"])})
    return {"software": {name: made_with[name] for name in DECIDES}, "tasks": tasks}


def _checked(bank: Bank, task: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"package": None, "logits": None, "score": None, "problem": ""}
    try:
        entry = bank.store.find(task["reference"])
        found["package"] = package_digest(bank.store, entry)
        package = bank.store.load(entry)
        return found | _answers(bank, package, Path(task["rows"]))
    except AdapterBankError as error:
        return found | {"problem": error.message}


def package_digest(store: Store, entry: Entry) -> str:
    """Of the bytes of a version's files, whatever they hold."""
    digest = hashlib.sha256()
    for name in (WEIGHTS, MANIFEST):
        with store.opener(entry)(name) as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _answers(bank: Bank, package: Package, rows: Path) -> dict[str, Any]:
    manifest = package.manifest
    task = read_task(rows)
    # One that went on from another version has that one's labels first.
    task = replace(task, labels=manifest.labels, metric=manifest.metric, positive=manifest.positive)
    prepared = prepare(bank.encoder, task, task.test, manifest.max_length)
    with mount(bank.encoder, package) as model:
        logits = logits_of(model, prepared)
    answers = predictions_of(
        task, prepared, logits, temperature=manifest.temperature, threshold=manifest.threshold
    )
    return {
        "logits": hashlib.sha256(logits.astype("<f4").tobytes()).hexdigest(),
        "score": scores_of(task, task.test, answers)[task.metric],
    }
