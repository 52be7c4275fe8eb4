"""A tiny base and small data files, used by every test of the verbs."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from adapterbank.cli.main import main
from adapterbank.compute.local import available_cores
from in_process import InProcess
from tiny import save_base
from training.toy import EXAMPLES

Run = Callable[..., subprocess.CompletedProcess[str]]
QUICK = ("--epochs", "2", "--batch-size", "16", "--lr", "0.01", "--no-baselines")


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """One file of each kind: rows.csv, pairs.jsonl, stars.csv, tags.jsonl, squad.json."""
    folder = tmp_path_factory.mktemp("data")
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows((e.text, e.label) for e in EXAMPLES)
    with (folder / "stars.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "score"])
        writer.writerows((e.text, 1.5 + 3 * (e.label == "good")) for e in EXAMPLES)
    pairs = [
        {"text_a": e.text, "text_b": f"it was {w}", "label": "same" if w in e.text else "other"}
        for e in EXAMPLES
        for w in ("good", "bad")
    ]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    tags = [
        {"text": e.text, "labels": [w for w in ("film", "good", "bad") if w in e.text]}
        for e in EXAMPLES
    ]
    (folder / "tags.jsonl").write_text("\n".join(map(json.dumps, tags)))
    paragraphs = [
        {
            "context": e.text,
            "qas": [
                {
                    "id": f"q{i}",
                    "question": "the film was",
                    "answers": [
                        {"text": e.text.split()[3], "answer_start": e.text.index(e.text.split()[3])}
                    ],
                }
            ],
        }
        for i, e in enumerate(EXAMPLES)
    ]
    squad = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    (folder / "squad.json").write_text(json.dumps(squad))
    return folder


def call(
    *arguments: object, input: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a verb in this process, as `adapterbank` would: importing torch anew takes seconds."""
    command = ["adapterbank", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        patch.object(sys, "argv", command),
        patch.object(sys, "stdin", io.StringIO(input)),
        patch.dict(os.environ, {"COLUMNS": "160", **environment}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


@pytest.fixture
def cli(tmp_path, monkeypatch) -> Run:
    """`call` in an empty folder, with an empty bank."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADAPTERBANK_DATA", raising=False)
    return partial(call, ADAPTERBANK_BANK=str(tmp_path / "bank"))


@pytest.fixture
def at_hand(monkeypatch) -> Iterator[None]:
    """What `cli` sends to a process of its own runs in this one, with as many threads and so to the
    same bits: the other would import torch anew."""
    import torch

    monkeypatch.setattr("adapterbank.compute.open.open_compute", lambda *_, **__: InProcess())
    before = torch.get_num_threads()
    torch.set_num_threads(available_cores())
    yield
    torch.set_num_threads(before)


def weights_of(bank: Path, reference: str) -> Path:
    """The weights file of a version."""
    from adapterbank.store.store import Store

    entry = Store.open(bank).find(reference)
    packages = bank / "tasks" / "default" / entry.task / "packages"
    return packages / entry.version.package / "weights.safetensors"
