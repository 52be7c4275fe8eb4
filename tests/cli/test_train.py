"""`train`, `predict` and `evaluate` together, for each kind of task."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar, Self

import pytest

from cli.conftest import QUICK, weights_of

KEYS = {
    "task", "version", "kind", "labels", "metric", "dev", "test", "trained_parameters",
    "percent_of_base", "percent_without_embeddings", "seconds", "examples_per_second",
}  # fmt: skip


def trained(cli, base, task: str, file: Path, *more: str) -> dict:
    done = cli("train", task, "--train", file, "--base", base, *QUICK, "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_classification(cli, base, data, tmp_path) -> None:
    found = trained(cli, base, "mood", data / "rows.csv")
    assert found.keys() >= KEYS
    assert found["kind"] == "classification"
    assert found["labels"] == ["bad", "good"]
    assert found["version"] == 1
    assert 0 <= found["test"]["accuracy"] <= 1

    answers = cli("predict", "mood", "the film was good", "it was awful", "--json")
    lines = [json.loads(line) for line in answers.stdout.splitlines()]
    assert [line["text"] for line in lines] == ["the film was good", "it was awful"]
    for line in lines:
        assert line["label"] in ("bad", "good")
        assert sum(line["probabilities"].values()) == pytest.approx(1)
        assert line["label"] == max(line["probabilities"], key=line["probabilities"].get)
    for_people = cli("predict", "mood", "the film was good").stdout
    assert for_people.split("\t")[0] == lines[0]["label"]

    scores = json.loads(
        cli("evaluate", "mood", "--data", data / "rows.csv", "--json", "--errors", "2").stdout
    )
    assert scores["rows"] == 54
    assert {row["label"] for row in scores["classes"]} == {"bad", "good"}
    assert len(scores["errors"]) <= 2

    again = trained(cli, base, "mood", data / "rows.csv")
    assert again["version"] == 2
    first, second = (weights_of(tmp_path / "bank", f"mood@{v}").read_bytes() for v in "12")
    assert first == second  # the same data, settings and seed
    assert cli("predict", "mood@1", "good").returncode == 0
    missing = cli("predict", "mood@7", "good")
    assert (missing.returncode, missing.stderr) == (
        1,
        "error: Task 'mood' has no version 7. It has: 1, 2.\n",
    )


def test_files_are_answered_row_by_row(cli, base, data, tmp_path) -> None:
    trained(cli, base, "mood", data / "rows.csv")
    (tmp_path / "new.csv").write_text(
        'id,text,predicted\n7,"the film, was good",x\n8,  ,y\n9,"it was\nbad",z\n'
    )
    done = cli("predict", "mood", "--file", "new.csv", "--out", "out.csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    assert [row["id"] for row in rows] == ["7", "8", "9"]
    assert [row["predicted"] for row in rows] == ["x", "y", "z"]  # the file's own column stays
    assert [bool(row["predicted_"]) for row in rows] == [True, False, True]
    assert "row 2" in rows[1]["error"]
    assert rows[2]["text"] == "it was\nbad"

    done = cli("predict", "mood", "--file", "new.csv", "--out", "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert "probabilities" in lines[0]
    assert "message" in lines[1]["error"]

    piped = cli("predict", "mood", "--json", input='it was good\n\n{"text": "bad"}\n{"x": 1}\n')
    lines = [json.loads(line) for line in piped.stdout.splitlines()]
    assert [line.get("label") is not None for line in lines] == [True, False, True, False]
    assert "is not what this task reads" in lines[3]["error"]["message"]

    wrong = cli("predict", "mood", "--file", "new.csv", "--out", "out.xlsx")
    assert wrong.returncode == 1
    assert "Give a .csv, .tsv or .jsonl file." in wrong.stderr
    assert not list(tmp_path.glob(".*partial"))


def test_pairs(cli, base, data, tmp_path) -> None:
    found = trained(cli, base, "pairs", data / "pairs.jsonl", "--metric", "f1")
    assert found["metric"] == "f1"
    done = cli("predict", "pairs", "the film was good", "it was good", "--json")
    (line,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (line["text_a"], line["text_b"]) == ("the film was good", "it was good")
    odd = cli("predict", "pairs", "one text")
    assert odd.returncode == 1
    assert "reads two texts a row, and 1 came" in odd.stderr


def test_regression(cli, base, data) -> None:
    found = trained(cli, base, "stars", data / "stars.csv")
    assert (found["kind"], found["metric"], found["labels"]) == ("regression", "pearson", [])
    line = json.loads(cli("predict", "stars", "the film was good", "--json").stdout)
    assert isinstance(line["value"], float)


def test_multi_label(cli, base, data) -> None:
    found = trained(cli, base, "tags", data / "tags.jsonl")
    assert (found["kind"], found["labels"]) == ("multi-label", ["bad", "film", "good"])
    line = json.loads(cli("predict", "tags", "the film was good", "--json").stdout)
    assert set(line["probabilities"]) == {"bad", "film", "good"}
    assert isinstance(line["labels"], list)


def test_spans(cli, base, data, tmp_path) -> None:
    found = trained(cli, base, "spans", data / "squad.json", "--max-length", "48")
    assert (found["kind"], found["metric"]) == ("span", "f1")
    done = cli("predict", "spans", "the film was", "the film was good", "--json")
    line = json.loads(done.stdout)
    assert line["context"][line["start"] : line["end"]] == line["answer"]
    lines = cli("predict", "spans", "--file", data / "squad.json", "--json").stdout.splitlines()
    line = json.loads(lines[7])
    assert (len(lines), line["id"], line["question"]) == (54, "q7", "the film was")
    assert line["context"][line["start"] : line["end"]] == line["answer"]
    assert isinstance(line["score"], float)
    printed = json.loads(cli("predict", "spans", "--file", data / "squad.json").stdout)
    assert printed["q7"] == line["answer"]
    cli("predict", "spans", "--file", data / "squad.json", "--out", "predictions.json")
    answers = json.loads((tmp_path / "predictions.json").read_text())
    assert answers == printed
    done = cli("evaluate", "spans", "--data", data / "squad.json", "--json")
    assert json.loads(done.stdout)["scores"].keys() == {"exact_match", "f1"}


def test_a_dry_run_reports_and_leaves_nothing(cli, base, data, tmp_path) -> None:
    done = cli("train", "mood", "--train", data / "rows.csv", "--base", base, "--dry-run", "--json")
    found = json.loads(done.stdout)
    assert found["seconds"] > 0
    assert found["trained_parameters"] > 0
    assert found["data"]["rows"]["train"] + found["data"]["rows"]["dev"] < 54
    assert "Expected: " in done.stderr
    assert not (tmp_path / "bank").exists()


def test_bundled_samples_need_no_file(cli, base) -> None:
    done = cli("train", "questions", "--base", base, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "rows: train 300, dev 90, test 90" in done.stderr


def test_the_recipe_of_the_paper_runs(cli, base, data) -> None:
    found = trained(cli, base, "mood", data / "rows.csv", "--recipe", "paper")
    assert found["dev"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "Bad Name", "--train", "DATA/rows.csv"), "Bad Name"),
        (("train", "mood"), "Where are the rows of 'mood'? Give --train FILE"),
        (("train", "mrpc"), "ADAPTERBANK_DATA"),
        (("train", "mood", "--train", "none.csv"), "There is no file none.csv."),
        (("train", "mood", "--train", "DATA/rows.csv", "--method", "magic"), "magic"),
        (("train", "mood", "--train", "DATA/rows.csv", "--recipe", "best"), "recipe is 'best'"),
        (("train", "mood", "--train", "DATA/rows.csv", "--metric", "best"), "metric is 'best'"),
        (("train", "mood", "--train", "DATA/rows.csv", "--lr", "7"), "learning_rate is 7.0"),
        (("train", "mood", "--train", "DATA/rows.csv", "--lr", "7"), "it is --lr."),
        (("train", "mood", "--train", "DATA/rows.csv", "--store", "int8"), "it is --store."),
        (("train", "mood", "--train", "DATA/rows.csv", "--minutes", "0"), "minutes is 0"),
        (("train", "mood", "--train", "DATA/rows.csv", "--first-layer", "9"), "layers 0 to 3"),
        (("train", "mood", "--train", "DATA/rows.csv", "--device", "cuda:9"), "Choose auto or cpu"),
        (("train", "mood", "--train", "DATA/rows.csv", "--label-column", "x"), "'x'"),
        (("predict", "mood", "text"), "There is no bank at"),
        (("evaluate", "mood", "--data", "DATA/rows.csv"), "There is no bank at"),
        (("sweep", "mood", "--train", "DATA/rows.csv", "--grid", "all"), "There is no grid 'all'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(cli, base, data, tmp_path, arguments, message) -> None:
    arguments = [part.replace("DATA", str(data)) for part in arguments]
    more = ("--base", base) if arguments[0] in ("train", "sweep") else ()
    done = cli(*arguments, *more)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    assert message in lines[0]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "bank").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("questions", "--dev", "x.csv", "--kind", "span"), "--dev, --kind: without --train the"),
        (("questions", "--text-column", "x", "--skip-bad"), "--text-column, --skip-bad: without"),
        (("mood", "--train", "DATA/rows.csv", "--folder", "x"), "--folder is where"),
        (("mood", "--train", "DATA/rows.csv", "--top-k", "2"), "--top-k goes with --method top-k"),
        (("mood", "--train", "DATA/rows.csv", "--size", "8", "--method", "full"), "--size"),
        (("mood", "--train", "DATA/rows.csv", "--even-if-worse"), "goes with --from"),
        (("mood", "--train", "DATA/rows.csv", "--from", "mood@1", "--positive", "x"), "--positive"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_refused(cli, data, tmp_path, arguments, message) -> None:
    done = cli("train", *(part.replace("DATA", str(data)) for part in arguments))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "bank").exists()


def test_a_known_task_is_selected_by_the_metric_asked_for(cli, base) -> None:
    more = ("--metric", "macro_f1", "--max-rows", "30", "--base", base, *QUICK, "--json")
    assert json.loads(cli("train", "questions", *more).stdout)["metric"] == "macro_f1"


def test_the_class_of_f1_is_said_and_can_be_another(cli, base, data) -> None:
    usual = trained(cli, base, "mood", data / "rows.csv", "--metric", "f1")
    assert (usual["metric"], usual["positive"]) == ("f1", "good")
    other = cli(
        "train", "mood", "--train", data / "rows.csv", "--metric", "f1", "--positive", "bad", *QUICK
    )
    assert "f1 (bad)" in other.stdout
    found = json.loads(cli("evaluate", "mood", "--data", data / "rows.csv", "--json").stdout)
    assert found["positive"] == "bad"
    by_class = {row["label"]: row["f1"] for row in found["classes"]}
    assert found["scores"]["f1"] == pytest.approx(by_class["bad"])
    assert "f1 (bad)" in cli("evaluate", "mood", "--data", data / "rows.csv").stdout


def test_resuming_what_was_never_begun_says_so(cli, base, data) -> None:
    where = ("train", "mood", "--train", data / "rows.csv", "--base", base, *QUICK)
    done = cli(*where, "--resume")
    assert done.returncode == 0
    assert "no state was kept: the run begins anew" in done.stderr
    assert "begins anew" not in cli(*where).stderr


def test_killed_at_any_moment_and_resumed_ends_in_the_same_bytes(base, data, tmp_path) -> None:
    """kill -9 once the first state is on disk; `--resume` finishes what was begun."""
    command = [
        sys.executable, "-c",
        "from adapterbank.training import checkpoint\n"
        "checkpoint.EVERY, checkpoint.COST = 0.0, 1e9\n"
        "from adapterbank.cli.main import main; main()",
        "train", "mood", "--train", str(data / "rows.csv"), "--base", str(base), "--epochs", "12",
        "--batch-size", "8", "--no-baselines",
    ]  # fmt: skip
    weights = {}
    for bank in ("whole", "killed"):
        environment = {**os.environ, "ADAPTERBANK_BANK": str(tmp_path / bank)}
        if bank == "killed":
            for _ in range(2):  # killed twice, the second time while going on
                process = subprocess.Popen(
                    [*command, "--resume"], env=environment, stderr=subprocess.PIPE, text=True
                )
                state = tmp_path / bank / ".runs" / "default" / "mood"
                before = _stamp(state)
                while process.poll() is None and _stamp(state) == before:
                    time.sleep(0.01)
                time.sleep(0.2)
                assert process.poll() is None, "the run ended before it could be killed"
                process.send_signal(signal.SIGKILL)
                process.communicate()
            assert not (tmp_path / bank / "mood").exists()
        done = subprocess.run(
            [*command, "--resume"], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert ("Going on from step" in done.stderr) == (bank == "killed")
        weights[bank] = weights_of(tmp_path / bank, "mood@1").read_bytes()
        assert not list((tmp_path / bank / ".runs" / "default" / "mood").iterdir())
    assert weights["whole"] == weights["killed"]


class Service:
    """In place of a client: a job that is done at once, with what it was sent."""

    sent: ClassVar[list[dict]] = []

    def __init__(self, url: str) -> None:
        del url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def train(self, task: str, file: str, **options: object) -> dict:
        self.sent.append({"task": task, "file": file, **options})
        return {"id": "1"}

    def follow(self, id: str) -> list[dict]:
        result = {"task": "mood", "version": 1, "dev": {"accuracy": 1.0}, "test": {}}
        return [{"event": "job", "id": id, "task": "mood", "state": "done", "result": result}]


@pytest.mark.parametrize(
    "options",
    [
        ("--dry-run",), ("--resume",), ("--folder", "glue"), ("--bank", "b"), ("--base", "minilm"),
        ("--device", "cpu"),
    ],
)  # fmt: skip
def test_what_a_service_cannot_do_is_refused(cli, monkeypatch, options) -> None:
    monkeypatch.setattr("adapterbank.client.Client", Service)
    monkeypatch.setattr(Service, "sent", [])
    words = ("train", "mood", "--train", "rows.csv", "--server", "http://localhost:1")
    done = cli(*words, *options)
    assert (done.returncode, done.stdout, Service.sent) == (2, "", [])
    assert f"{options[0]} cannot go with --server" in done.stderr
    done = cli(*words, "--epochs", "3", "--from", "mood@1")  # a bank of the environment is no word
    assert done.returncode == 0, done.stderr
    assert [(each["epochs"], each["from_version"]) for each in Service.sent] == [(3, "mood@1")]


def test_going_on_by_another_metric(cli, base, data, tmp_path) -> None:
    rows = (data / "rows.csv").read_text().splitlines()
    third = [f"{line.rpartition(',')[0]},odd" for line in rows[1::6]]
    (tmp_path / "three.csv").write_text("\n".join([*rows, *third]))
    trained(cli, base, "mood", tmp_path / "three.csv")
    going = ("train", "mood", "--train", data / "rows.csv", *QUICK, "--even-if-worse", "--json")
    wrong = cli(*going, "--from", "mood@1", "--metric", "f1")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "error: metric is 'f1'. This classification task has: accuracy, " in wrong.stderr
    # The usual metric can be asked for, too.
    for version, metric in ((1, "macro_f1"), (2, "accuracy")):
        done = cli(*going, "--from", f"mood@{version}", "--metric", metric)
        assert json.loads(done.stdout)["metric"] == metric, done.stderr
        assert "epoch 1 of 2, loss" in done.stderr
        assert f"dev {metric} " in done.stderr
        assert f"mood@{version} {metric} " in done.stderr
    done = cli(*going, "--from", "mood@2")
    assert json.loads(done.stdout)["metric"] == "macro_f1"
    assert "dev macro_f1 " in done.stderr


def _stamp(folder: Path) -> list[int]:
    return [path.stat().st_mtime_ns for path in folder.glob("*.safetensors")]
