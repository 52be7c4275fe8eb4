"""Studies by the verbs: begun, killed in the middle, gone on with, reported."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STUDY = """
title = "Mine"
base = "{base}"
tasks = [{{name = "rows", train = "{rows}"}}]
seeds = 2
reference = "full"
widen = 0

[[arm]]
name = "adapters"
size = 2
epochs = 1
learning_rate = [1e-3, 1e-2]

[[arm]]
name = "full"
method = "full"
epochs = 1
"""


def write_study(folder: Path, base: Path, data: Path) -> Path:
    home = folder / "mine"
    home.mkdir(parents=True)
    (home / "study.toml").write_text(STUDY.format(base=base, rows=data / "rows.csv"))
    return home


def records(home: Path) -> dict[str, dict]:
    found = {}
    for path in home.parent.glob("runs/*.json"):
        record = json.loads(path.read_text())
        record.pop("seconds")
        found[path.name] = record
    return found


def test_killed_and_gone_on_with(base, data, tmp_path, cli, at_hand) -> None:
    whole, killed = (write_study(tmp_path / name, base, data) for name in ("whole", "killed"))
    done = cli("study", "run", whole)
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "adapterbank", "study", "run", str(killed)]
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=os.environ)
    while process.poll() is None and len(records(killed)) < 2:
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert 2 <= len(records(killed)) < 5
    done = cli("study", "run", killed)
    assert done.returncode == 0, done.stderr
    assert records(killed) == records(whole)
    assert len(records(whole)) == 5  # two rates, a further seed of the better; two of full

    status = cli("study", "status", killed)
    assert "5 of 5 runs are done" in status.stdout
    assert "against full" in status.stdout
    answer = json.loads(cli("study", "status", killed, "--json").stdout)
    assert (answer["runs_done"], answer["runs_known"]) == (5, 5)
    assert {arm["name"] for arm in answer["arms"]} == {"adapters", "full"}

    report = cli("study", "report", killed)
    assert report.returncode == 0, report.stderr
    assert "5 of 5 runs" in report.stdout
    text = (killed / "README.md").read_text()
    assert re.search(r"\| rows \(accuracy\) \| \d+\.\d ± \d+\.\d \| \d+\.\d ± \d+\.\d \|", text)
    assert "<svg" in (killed / "figure.svg").read_text()
    assert "data:image/svg+xml" in (killed / "report.html").read_text()


def test_a_report_of_several_studies(base, data, tmp_path, cli) -> None:
    home = write_study(tmp_path, base, data)
    (tmp_path / "README.md").write_text("# All of it\n\nBefore anything was run.\n")
    done = cli("study", "report", tmp_path, "--markdown", tmp_path / "all.md")
    assert done.returncode == 0, done.stderr
    assert "0 of 3 runs" in done.stdout or "0 of 4 runs" in done.stdout
    text = (tmp_path / "all.md").read_text()
    assert "No run is done yet" in text
    assert home.is_dir()
    pages = tmp_path / "pages" / "new"  # made where it is missing
    done = cli("study", "report", tmp_path, "--html", pages / "all.html")
    assert done.returncode == 0, done.stderr
    assert "No run is done yet" in (pages / "all.html").read_text()


def test_a_study_of_ones_own_is_begun(base, data, tmp_path, cli) -> None:
    home = tmp_path / "studies" / "first"
    done = cli("study", "new", home, "--train", data / "rows.csv")
    assert done.returncode == 0, done.stderr
    text = (home / "study.toml").read_text()
    assert 'name = "rows"' in text
    (home / "study.toml").write_text(text.replace('"minilm"', f'"{base}"'))
    status = cli("study", "status", home)
    assert status.returncode == 0, status.stderr
    assert "0 of 19 runs are done" in status.stdout
    for file, name in (("_Übung 1.csv", "ubung-1"), ("ß.csv", "rows")):
        shutil.copy(data / "rows.csv", tmp_path / file)
        assert cli("study", "new", name, "--train", file).returncode == 0
        assert f'name = "{name}"' in (tmp_path / name / "study.toml").read_text()
    assert cli("study", "new", "own", "--train", "ß.csv", "--name", "mine").returncode == 0
    assert 'name = "mine"' in (tmp_path / "own" / "study.toml").read_text()
    again = cli("study", "new", home, "--train", data / "rows.csv")
    assert again.returncode == 1
    assert "already" in again.stderr


def test_questions_are_not_compared_with_what_cannot_answer_them(tmp_path, cli) -> None:
    paragraphs = [
        {"context": f"Ann lives in town {i}.", "qas": [{
            "id": str(i), "question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}],
        }]}
        for i in range(30)
    ]  # fmt: skip
    document = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    (tmp_path / "questions.json").write_text(json.dumps(document))
    done = cli("study", "new", "spans", "--train", "questions.json")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "spans" / "study.toml").read_text()
    assert "n-grams" not in text
    assert "frozen features" not in text
    assert "adapters 32" in text


def test_the_status_of_a_stream(tmp_path, cli) -> None:
    (tmp_path / "stream.toml").write_text("")
    done = cli("study", "status", ".")
    assert done.returncode == 0, done.stderr
    assert "Nothing is learnt yet" in done.stdout
    assert json.loads(cli("study", "status", ".", "--json").stdout) == {"tasks": []}


def test_columns_are_checked_at_once_and_kept(data, base, tmp_path, cli) -> None:
    _, *rows = (data / "rows.csv").read_text().splitlines()
    text = "\n".join(['"a ""b""",c,day', *(f"{row},Monday" for row in rows)])
    (tmp_path / "rows.csv").write_text(text)
    home = tmp_path / "studies" / "mine"
    done = cli("study", "new", home, "--train", "rows.csv")
    assert done.returncode == 1
    assert "--text-column and --label-column" in done.stderr
    assert not home.exists()
    columns = ("--text-column", 'a "b"', "--label-column", "c")
    done = cli("study", "new", home, "--train", "rows.csv", *columns)
    assert done.returncode == 0, done.stderr
    text = (home / "study.toml").read_text()
    (home / "study.toml").write_text(text.replace('"minilm"', f'"{base}"'))
    status = cli("study", "status", home)
    assert "0 of 19 runs are done" in status.stdout, status.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("study", "run", "nowhere"), "no study in"),
        (("study", "report", "nowhere"), "no study in"),
        (("study", "new", "x", "--train", "nowhere.csv"), "nowhere.csv"),
        (("study", "run", "nowhere", "--on", "moon"), "--on is 'moon'"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(cli, words, message) -> None:
    done = cli(*words)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_ablation_of_a_task(base, data, tmp_path, cli) -> None:
    bank = tmp_path / "bank"
    rows = data / "rows.csv"
    quick = ("--epochs", "1", "--size", "4", "--no-baselines", "--base", base, "--bank", bank)
    assert cli("train", "mood", "--train", rows, *quick).returncode == 0
    done = cli("show", "mood", "--ablation", "--data", rows, "--bank", bank)
    assert done.returncode == 0, done.stderr
    assert "from \\ to" in done.stdout
    found = json.loads(
        cli("show", "mood", "--ablation", "--data", rows, "--bank", bank, "--json").stdout
    )
    assert found["task"] == "mood"
    assert [each["size"] for each in found["narrowed"]] == [2, 1]
    for words, code, message in (
        (("--ablation",), 1, "Which rows"),
        (("--data", rows), 2, "--data is of use with --ablation alone"),
    ):
        refused = cli("show", "mood", *words, "--bank", bank)
        assert refused.returncode == code
        assert message in refused.stderr
