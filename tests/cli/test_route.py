"""`adapterbank route` and the ONNX export, on a bank of tiny tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapterbank import Bank
from adapterbank.cli.main import app
from tiny import save_base
from training.toy import EXAMPLES

QUICK = {"epochs": 1, "batch_size": 16, "size": 4, "baselines": False}


@pytest.fixture(scope="module")
def bank(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("route")
    made = Bank.open(home / "bank", str(save_base(home / "base")))
    made.learn("mood", [{"text": e.text, "label": e.label} for e in EXAMPLES], **QUICK)
    return home / "bank"


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def test_a_text_of_the_task_is_routed_to_it(bank) -> None:
    found = run("route", EXAMPLES[0].text, "--bank", str(bank), "--json")
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert record["text"] == EXAMPLES[0].text
    assert record["tasks"] in ([], [{"task": "mood", "probability": 1.0}])
    several = run("route", "--bank", str(bank), stdin="\n".join(e.text for e in EXAMPLES[:20]))
    lines = several.stdout.splitlines()
    assert len(lines) == 20
    assert sum(line.startswith("mood 1.00\t") for line in lines) >= 15


def test_a_row_that_cannot_be_read_is_said_in_its_place(bank) -> None:
    found = run("route", " ", EXAMPLES[0].text, "--bank", str(bank), "--json")
    first, second = map(json.loads, found.stdout.splitlines())
    assert "empty" in first["error"]["message"]
    assert "tasks" in second


def test_a_task_as_an_onnx_file(bank, tmp_path) -> None:
    found = run(
        "export", "mood", str(tmp_path / "mood.onnx"), "--format", "onnx", "--bank", str(bank)
    )
    assert found.exit_code == 0, found.output
    assert {file.name for file in tmp_path.iterdir()} == {"mood.onnx", "mood.tokenizer.json"}


def test_an_empty_line_has_its_place(bank) -> None:
    text = EXAMPLES[0].text
    found = run("route", "--bank", str(bank), "--json", stdin=f"{text}\n\n{text}\n\n")
    assert ["error" in json.loads(line) for line in found.stdout.splitlines()] == [
        False, True, False
    ]  # fmt: skip


def test_help_says_that_json_is_lines() -> None:
    shown = run("route", "--help").stdout
    assert "JSON lines, one a text." in " ".join(shown.split())
    assert "One JSON document" not in shown
