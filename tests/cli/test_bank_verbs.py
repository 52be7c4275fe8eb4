"""The verbs of the bank: look, check, go back, take out, carry."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from adapterbank.service.jobs import JobTable
from adapterbank.service.runner import lock_state
from cli.conftest import QUICK, Run, call, weights_of


@pytest.fixture(scope="module")
def made(tmp_path_factory, base, data) -> Path:
    """A bank with two versions of one task, and a tenant's."""
    home = tmp_path_factory.mktemp("made") / "bank"
    for task, file, more in (
        ("mood", "rows.csv", ()),
        ("mood", "rows.csv", ("--seed", "1", "--store", "fp16")),
        ("shop/stars", "stars.csv", ()),
    ):
        options = ("--train", data / file, "--base", base, "--bank", home, *QUICK, *more)
        done = call("train", task, *options)
        assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def bank(made, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "bank"))


@pytest.fixture
def run(bank) -> Run:
    return partial(call, ADAPTERBANK_BANK=str(bank))


def test_tasks(run, bank) -> None:
    found = json.loads(run("tasks", "--json").stdout)
    mood, stars = found["tasks"]
    assert (mood["task"], mood["version"], mood["versions"]) == ("mood", 2, [1, 2])
    assert (mood["kind"], mood["labels"]) == ("classification", ["bad", "good"])
    assert (stars["task"], stars["kind"], stars["labels"]) == ("shop/stars", "regression", [])
    assert mood["test"]["accuracy"] <= 1
    assert len(found["base"]["fingerprint"]) == 64
    folder = weights_of(bank, "mood").parent
    assert mood["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    shown = run("tasks")
    assert "mood@2" in shown.stdout
    assert "shop/stars@1" in shown.stdout
    assert [t["task"] for t in json.loads(run("tasks", "shop", "--json").stdout)["tasks"]] == [
        "shop/stars"
    ]


def test_one_damaged_task_hides_no_other(run, bank) -> None:
    weights_of(bank, "mood").with_name("manifest.json").write_text("{}")
    found = json.loads(run("tasks", "--json").stdout)
    assert [task["task"] for task in found["tasks"]] == ["shop/stars"]
    assert found["damaged"]["mood"].startswith("The manifest has digest")
    assert "mood: The manifest has digest" in run("tasks").stdout
    assert run("predict", "shop/stars", "the film was good").returncode == 0
    done = run("predict", "mood", "the film was good")
    assert (done.returncode, done.stdout) == (1, "")


def test_show(run) -> None:
    found = json.loads(run("show", "mood", "--json").stdout)
    assert (found["version"], found["current"], found["precision"]) == (2, 2, "fp16")
    assert [each["version"] for each in found["versions"]] == [1, 2]
    assert sum(each["rows"] for each in found["confusion"]) == found["data"]["rows"]["test"]
    first = json.loads(run("show", "mood@1", "--json").stdout)
    assert (first["version"], first["current"], first["precision"]) == (1, 2, "fp32")
    shown = run("show", "mood@1").stdout
    for part in ("mood@1", "classification", "bad, good", "2 (current)", "accuracy"):
        assert part in shown
    card = run("show", "mood", "--card").stdout
    assert card.startswith("<!doctype html>")
    assert "<svg" in card


def test_verify(run, bank) -> None:
    done = run("verify", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["ok"]
    assert [(t["task"], t["version"], t["ok"], t["problem"]) for t in found["tasks"]] == [
        ("mood", 1, True, ""), ("mood", 2, True, ""), ("shop/stars", 1, True, "")
    ]  # fmt: skip
    assert run("verify").stdout == (
        "3 of 3 versions are as they were published, 3 of them to the last bit of their answers.\n"
    )
    weights = weights_of(bank, "mood@1")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    done = run("verify", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [t["ok"] for t in found["tasks"]] == [False, True, True]
    assert "has digest" in found["tasks"][0]["problem"]
    assert "2 of 3 versions are as they were published." in run("verify").stdout
    assert run("verify", "shop/stars").returncode == 0


def answer(run, task: str) -> dict:
    return json.loads(run("predict", task, "the film was good", "--json").stdout)


def test_rollback_and_remove(run, bank) -> None:
    first, second = answer(run, "mood@1"), answer(run, "mood")
    assert first != second
    assert run("rollback", "mood", "1").stdout == "mood@1 is the current version.\n"
    assert answer(run, "mood") == first
    done = run("remove", "mood")
    assert done.stdout == ("mood is removed. To bring it back: adapterbank rollback mood 1\n")
    done = run("predict", "mood", "x")
    assert done.returncode == 1
    assert "error: Task 'mood' was removed. adapterbank rollback mood 1" in done.stderr
    run("rollback", "mood", "2")
    assert answer(run, "mood") == second
    assert run("gc", "--keep", "1").stdout == (
        "Versions let go: mood@1. Bytes go when they are an hour old.\n"
        "0 packages and unfinished pieces deleted.\n"
    )
    assert run("gc", "--keep", "1").stdout == "0 packages and unfinished pieces deleted.\n"
    assert json.loads(run("tasks", "--json").stdout)["tasks"][0]["versions"] == [2]
    run("remove", "mood", "--purge")
    assert not list((bank / "tasks" / "default" / "mood").glob("packages/*"))
    assert run("rollback", "mood", "2").returncode == 1


def test_purge_deletes_what_a_service_has_kept(run, bank, tmp_path) -> None:
    for state, options in ((bank / ".service", ()), (tmp_path / "s", ("--state", tmp_path / "s"))):
        for task in ("mood", "never-published"):
            (state / "data" / task).mkdir(parents=True)
            (state / "data" / task / "train.csv").write_text("rows")
            table = JobTable(state / "jobs.sqlite")
            table.add(task, "default", task, {"keep_data": True})
            table.end(task, "failed")
            table.close()
        assert run("remove", "never-published", "--purge", *options).returncode == 0
        assert [path.name for path in (state / "data").iterdir()] == ["mood"]
        with lock_state(state):
            done = run("remove", "mood", "--purge", *options)
        assert "A running service has jobs of this task" in done.stderr
        run("remove", "mood", "--purge", *options)
        assert not list((state / "data").iterdir())
        assert run("remove", "mood", "--purge", *options).returncode == 1


@pytest.mark.parametrize("form", ["out", "out.tar.gz"])
def test_export_and_import(run, base, tmp_path, form) -> None:
    assert run("export", "mood@1", form).stdout == f"Written to {form}.\n"
    done = run("import", form, "--name", "copy", "--bank", tmp_path / "other", "--base", base)
    assert done.stdout == "Kept as copy@1.\n", done.stderr
    there = call("predict", "copy", "it was bad", "--json", "--bank", tmp_path / "other")
    assert json.loads(there.stdout) == json.loads(
        run("predict", "mood@1", "it was bad", "--json").stdout
    )
    done = run("export", "mood@1", form)
    assert done.returncode == 1
    assert "already" in done.stderr


def test_export_to_adapterhub_says_what_cannot_cross(run) -> None:
    done = run("export", "mood", "hub", "--format", "adapterhub")
    assert done.returncode == 1
    assert "LayerNorm" in done.stderr
    done = run("export", "mood", "hub", "--format", "adapterhub", "--with-layer-norms")
    assert done.returncode == 0, done.stderr
    assert (Path("hub") / "layer_norms.safetensors").is_file()
    assert "LayerNorm" in done.stderr
    assert run("export", "mood", "x", "--format", "onyx").returncode == 1


def test_rows_are_no_package(cli, data) -> None:
    done = cli("import", data / "rows.csv")
    assert done.returncode == 1
    assert "is not a package: that is a folder or a .tar.gz, as export writes it" in done.stderr
    assert "adapterbank train TASK --train" in done.stderr
    assert not Path("bank").exists()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ("mood.onnx",),
            "Name a new folder, or a .tar.gz. A file of ONNX is written with --format",
        ),
        (("mood.zip",), "Name a new folder, or a .tar.gz."),
        (("mood.TAR.GZ", "--format", "adapterhub"), "Name a new folder."),
    ],
)
def test_no_folder_is_called_as_a_file(run, words, hint) -> None:
    done = run("export", "mood", *words)
    assert done.returncode == 1
    assert f"error: '{words[0]}' is no name for a folder. {hint}" in done.stderr
    assert not Path(words[0]).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("Bad Tenant",), "is not a tenant's name"),
        (("acme", "--role", "king"), "--role is 'king'. Choose from: read"),
    ],
)
def test_a_key_that_cannot_be_makes_no_bank(cli, base, words, message) -> None:
    done = cli("keys", "create", *words, "--base", base)
    assert done.returncode == 1
    assert message in done.stderr
    assert not Path("bank").exists()


def test_a_key_for_a_bank_that_is_there_takes_no_torch(bank) -> None:
    """It takes seconds to import, and keys are made by scripts."""
    lines = (
        "import sys",
        "from adapterbank.cli.main import app",
        "app(['keys', 'create', 'acme'], standalone_mode=False)",
        "assert 'torch' not in sys.modules",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    environment = {**os.environ, "ADAPTERBANK_BANK": str(bank)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ab_")


def test_going_on_by_flag(run, base, data) -> None:
    options = ("--train", data / "rows.csv", "--json", "--epochs", "3", "--lr", "0.01")
    done = run("train", "mood", *options, "--from", "mood@1", "--no-baselines")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version"] == 3
    assert "On the same dev rows: mood@1 accuracy" in done.stderr
    words = [each for each in options if each != "--json"]
    done = run("train", "mood", *words, "--from", "mood@1", "--no-baselines", "--even-if-worse")
    assert "rows that this run did not train on; mood@1 may have" in done.stdout
    assert "\n\n" not in done.stdout  # there are no baselines, so no verdict either
    done = run("train", "mood", *options, "--from", "mood@1", "--size", "8")
    assert done.returncode == 1
    assert "mood@1 has size 32, and size is to be 8" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "eggs"), "The bank has no task 'eggs'."),
        (("show", "../mood"), "is not a task's name"),
        (("show", "mood@0"), "names no version"),
        (("verify", "eggs"), "The bank has no task 'eggs'."),
        (("rollback", "mood", "9"), "Task 'mood' has no version 9. It has: 1, 2."),
        (("rollback", "eggs", "1"), "The bank has no task 'eggs'."),
        (("remove", "eggs"), "The bank has no task 'eggs'."),
        (("import", "nowhere"), "There is no package 'nowhere'"),
        (("import", "nowhere.tar.gz"), "nowhere.tar.gz"),
        (("import", "nowhere", "--bank", "nowhere"), "There is no package 'nowhere'"),
        (("export", "eggs", "out"), "The bank has no task 'eggs'."),
        (("tasks", "--bank", "nowhere"), "There is no bank at 'nowhere'."),
        (("show", "mood", "--bank", "nowhere"), "There is no bank at 'nowhere'."),
        (("verify", "--bank", "nowhere"), "There is no bank at 'nowhere'."),
        (("gc", "--bank", "nowhere"), "There is no bank at 'nowhere'."),
    ],
)
def test_what_cannot_be_is_one_line(run, arguments, message, tmp_path) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert message in line
    assert not (tmp_path / "nowhere").exists()


def test_a_bank_in_memory_of_fsspec(base, data, tmp_path) -> None:
    url = "memory://bank-of-the-verbs"
    options = ("--train", data / "rows.csv", "--base", base, *QUICK, "--bank", url)
    assert call("train", "mood", *options, ADAPTERBANK_CACHE=str(tmp_path)).returncode == 0
    assert call("predict", "mood", "it was good", "--bank", url).returncode == 0
    assert call("verify", "--bank", url).returncode == 0
