"""`stream` as a person meets it: a list, a folder, a watched folder that is stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from in_process import InProcess

LIST = """
[defaults]
epochs = 1
batch_size = 16
lr = 0.01
baselines = false

[[task]]
name = "mood"
train = "DATA/rows.csv"

[[task]]
name = "stars"
train = "DATA/stars.csv"
"""


@pytest.fixture
def here(monkeypatch) -> None:
    """Checks run in this process."""
    monkeypatch.setattr("adapterbank.streams.stream.LocalCompute", InProcess)


@pytest.fixture
def tasks(tmp_path, data) -> Path:
    path = tmp_path / "tasks.toml"
    path.write_text(LIST.replace("DATA", str(data)))
    return path


def test_a_list_and_its_report(cli, base, tasks, tmp_path, here) -> None:
    done = cli("stream", tasks, "--base", base, "--size", 4, "--contrast", "--report", "out/all")
    assert done.returncode == 0, done.stderr
    for line in ("1 of 2: mood …", "Kept as mood@1.", "2 of 2: stars …", "adapters 4: epoch 1 of 1",
                 "one shared encoder: epoch 1 of 1", "Asking all 2 tasks again"):  # fmt: skip
        assert line in done.stderr, line
    assert "mood@1" in done.stdout
    assert "shared" in done.stdout
    assert "Every earlier package is byte-identical: yes." in done.stdout
    assert "Every earlier prediction is bit-identical: yes." in done.stdout
    assert "Parameters: the base's " in done.stdout
    report = tmp_path / "out" / "all"
    assert {path.name for path in report.iterdir()} == {
        "stream.json", "stream.md", "stream.svg", "stream.png"
    }  # fmt: skip
    assert "![Scores as tasks are learnt](stream.svg)" in (report / "stream.md").read_text()

    again = cli("stream", tasks, "--base", base, "--size", 4, "--contrast", "--json")
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout)
    assert "2 of 2: stars is known already." in again.stderr
    assert [(t["task"], t["version"]) for t in document["tasks"]] == [("mood", 1), ("stars", 1)]
    written = json.loads((report / "stream.json").read_text())
    assert document["tasks"] == written["tasks"]
    assert len(document["checks"]) == len(written["checks"]) + 1
    state = next((tmp_path / "bank" / ".runs").rglob("stream-*"))
    assert document == json.loads((state / "stream.json").read_text())

    # A package that is not what it was: told, and no success.
    for weights in (tmp_path / "bank" / "tasks" / "default" / "mood").rglob("*.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    broken = cli("stream", tasks, "--base", base, "--size", 4)
    assert broken.returncode == 1
    assert "NOT the same: mood@1, after stars@1: " in broken.stderr
    assert "Every earlier package is byte-identical: NO. mood@1 after stars@1: " in broken.stdout
    assert "error:" not in broken.stderr


def test_a_folder_with_bad_files(cli, base, data, tmp_path, here, monkeypatch) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "bad.csv").write_text("text,label\n")
    (inbox / "later.dev.csv").write_text("text,label\n")
    arguments = ("stream", "inbox", "--base", base, "--epochs", 1, "--score-rows", 3)
    none = cli(*arguments)
    assert none.returncode == 1
    assert "No task was learnt." in none.stdout
    assert "Set aside: bad.csv: " in none.stdout
    assert "Splits without their task: later.dev.csv." in none.stderr
    shutil.copy(data / "rows.csv", inbox / "Mood.csv")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = cli(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [t["task"] for t in document["tasks"]] == ["mood"]
    assert [each["from"] for each in document["set_aside"]] == ["bad.csv"]
    assert "No picture: it takes matplotlib" in done.stderr
    state = next((tmp_path / "bank" / ".runs").rglob("stream-*"))
    assert len((state / "held-out" / "0002.jsonl").read_text().splitlines()) == 1 + 3
    assert "![" not in (state / "stream.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.toml",), "There is no none.toml. Give a TOML file that lists tasks, or a folder"),
        (("tasks.toml", "--watch"), "tasks.toml is a list of tasks. --watch looks after a folder."),
        (("tasks.toml", "--report", "tasks.toml"), "There can be no report in tasks.toml: "),
        (("bad.toml",), "bad.toml lists no tasks."),
    ],
)
def test_what_cannot_be_is_one_line(cli, base, tasks, tmp_path, arguments, message) -> None:
    (tmp_path / "bad.toml").write_text("")
    done = cli("stream", *arguments, "--base", base)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert message in line
    assert not (tmp_path / "bank").exists()


def test_a_bad_setting_costs_no_file(cli, base, data, tmp_path, here) -> None:
    shutil.copytree(data, tmp_path / "inbox")
    done = cli("stream", "inbox", "--base", base, "--size", 0)
    assert done.returncode == 1
    assert done.stderr.count("error: size is 0") == 1
    assert not (tmp_path / "inbox" / "rejected").exists()


def test_watching_until_ctrl_c(base, data, tmp_path) -> None:
    """The whole of it, in processes of its own."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    shutil.copy(data / "squad.json", inbox / "answers.json")  # of a kind without baselines: quick
    command = [
        sys.executable, "-c",
        "import sys; sys.modules['matplotlib'] = None\n"
        "from adapterbank.streams import folder; folder.SETTLED = 0.1\n"
        "from adapterbank.cli.main import main; main()",
        "stream", "inbox", "--watch", "--base", str(base), "--epochs", "1", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "ADAPTERBANK_BANK": "bank"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while process.poll() is None and not list((tmp_path / "bank").rglob("checks/0001.json")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert [t["task"] for t in document["tasks"]] == ["answers"]
    assert document["packages_identical"]
    assert document["checked"]
    assert "1: answers …" in err
    assert "Stopped. The same command goes on from here." in err
    assert "Traceback" not in err
