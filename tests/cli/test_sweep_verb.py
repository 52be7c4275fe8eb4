"""A sweep stopped in the middle and resumed: the same records, the same winner."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from cli.conftest import weights_of

GRID = "size = [2, 4]\nepochs = [2]\nbatch_size = [16]\n"


def records(bank: Path) -> dict[str, dict]:
    found = {}
    for path in bank.glob(".runs/default/mood/sweep-*/trials/*.json"):
        record = json.loads(path.read_text())
        record.pop("seconds")
        found[record.pop("id")] = record
    return found


def test_stopped_and_resumed(cli, at_hand, base, data, tmp_path) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    words = (
        "sweep", "mood", "--train", str(data / "rows.csv"), "--base", str(base),
        "--grid", str(tmp_path / "grid.toml"), "--seeds", "2", "--json",
    )  # fmt: skip
    home = tmp_path / "stopped"
    command = [sys.executable, "-m", "adapterbank", *words, "--bank", str(home)]
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True)
    while process.poll() is None and len(records(home)) < 2:
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = records(home)
    assert 2 <= len(before) < 4

    results = {}
    for bank in ("whole", "stopped"):
        done = cli(*words, "--bank", tmp_path / bank)
        assert done.returncode == 0, done.stderr
        results[bank] = json.loads(done.stdout)
    assert f"{len(before)} of 4 trials are done already" in done.stderr
    whole, stopped = results["whole"], results["stopped"]
    assert whole["winner"] == stopped["winner"]
    assert whole["candidates"] == stopped["candidates"]
    assert len(whole["candidates"]) == 2
    assert records(tmp_path / "whole") == records(home)
    weights = [weights_of(tmp_path / bank, "mood@1").read_bytes() for bank in ("whole", "stopped")]
    assert weights[0] == weights[1]

    # Once more: nothing is left to run, nothing is published twice.
    done = cli(*words, "--bank", home)
    assert "4 of 4 trials are done already" in done.stderr
    assert json.loads(done.stdout)["version"] == 1
    assert not (home / "mood" / "2").exists()


def test_a_trial_that_fails_is_named_and_the_others_are_kept(cli, base, data, tmp_path) -> None:
    (tmp_path / "grid.toml").write_text("size = [2]\nepochs = [1]\nweight_decay = [1e-2, 1e30]\n")
    arguments = (
        "sweep",
        "mood",
        "--train",
        data / "rows.csv",
        "--base",
        base,
        "--grid",
        "grid.toml",
    )
    done = cli(*arguments, COLUMNS="40")  # of files; no line is cut there
    assert done.returncode == 1
    assert "1 of 2 trials failed; the first is adapters, size 2" in done.stderr
    assert "The loss is" in done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("adapters, size 2")]
    assert ["dev accuracy" in line and "matthews" in line for line in told].count(True) == 1
    assert len(records(tmp_path / "bank")) == 1


def test_a_trial_that_cannot_be_is_said_before_any_runs(cli, base, data, tmp_path) -> None:
    (tmp_path / "grid.toml").write_text("size = [2]\nepochs = [1]\nlearning_rate = [1e-2, 5.0]\n")
    where = ("--train", data / "rows.csv", "--base", base, "--grid", "grid.toml")
    done = cli("sweep", "mood", *where)
    assert done.returncode == 1
    assert "learning_rate is 5.0; it is a number between 0 and 1." in done.stderr
    assert not records(tmp_path / "bank")


def test_what_the_bank_has_lost_is_published_again(cli, at_hand, base, data, tmp_path) -> None:
    (tmp_path / "grid.toml").write_text("size = [2]\nepochs = [1]\nbatch_size = [16]\n")
    words = ("sweep", "mood", "--train", data / "rows.csv", "--grid", "grid.toml", "--json")

    def version(*more: object) -> int:
        done = cli(*words, *more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["version"]

    assert version("--base", base) == 1
    assert cli("remove", "mood").returncode == 0
    assert version() == 2
    assert cli("show", "mood@2").returncode == 0
    assert version() == 2
    (mark,) = tmp_path.glob("bank/.runs/default/mood/sweep-*/published.json")
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "package": "a" * 64}))
    assert version() == 3  # version 2 is another package than the sweep's


def test_another_positive_class_is_another_sweep(cli, at_hand, base, data, tmp_path) -> None:
    (tmp_path / "grid.toml").write_text("size = [2]\nepochs = [1]\nbatch_size = [16]\n")
    words = ("sweep", "mood", "--train", data / "rows.csv", "--grid", "grid.toml", "--json")
    for more, version, positive in (
        (("--base", base), 1, "good"),
        (("--positive", "bad"), 2, "bad"),
        (("--positive", "good"), 1, "good"),
    ):
        done = cli(*words, *more)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["version"] == version
        shown = json.loads(cli("show", f"mood@{version}", "--json").stdout)
        assert shown["positive"] == positive
