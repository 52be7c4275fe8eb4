"""Answers stand where their questions stood, under names of their own."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Self

import pytest
from typer.testing import CliRunner

from adapterbank.cli.main import app
from adapterbank.errors import Busy, DataError
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.rows import HEAD
from cli.conftest import QUICK, Run, call


@pytest.fixture(scope="module")
def made(tmp_path_factory, base, data) -> Path:
    """A bank with a task of texts and one of pairs."""
    home = tmp_path_factory.mktemp("predict") / "bank"
    for task, file in (("mood", "rows.csv"), ("pairs", "pairs.jsonl")):
        done = call("train", task, "--train", data / file, "--base", base, "--bank", home, *QUICK)
        assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def run(made, tmp_path, monkeypatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return partial(call, ADAPTERBANK_BANK=str(made))


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_input_keeps_a_column_that_is_called_as_the_answer(run, tmp_path) -> None:
    (tmp_path / "checked.csv").write_text("text,label,label_\nit was good,mine,old\n ,mine,old\n")
    done = run("predict", "mood", "--file", "checked.csv", "--out", "c.jsonl")
    assert done.stderr.count("The input's own 'label' is kept as 'label__'.") == 1
    printed = run("predict", "mood", "--file", "checked.csv", "--json")
    for good, bad in (lines((tmp_path / "c.jsonl").read_text()), lines(printed.stdout)):
        assert good["label"] in ("good", "bad")
        assert (good["label__"], good["label_"]) == ("mine", "old")
        assert (bad["label__"], bad["label_"]) == ("mine", "old")
        assert "label" not in bad


@pytest.mark.parametrize("name", ["probabilities", "error"])
def test_every_name_of_an_answer(run, tmp_path, name) -> None:
    row = {"text": "it was good", name: "mine"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    (line,) = lines(run("predict", "mood", "--file", "rows.jsonl", "--json").stdout)
    assert line[f"{name}_"] == "mine"
    assert line.get(name) != "mine"


def test_an_empty_line_has_its_place(run) -> None:
    found = lines(run("predict", "mood", "--json", input="good\n\n \nbad\n\n").stdout)
    assert [line["text"] for line in found] == ["good", "", " ", "bad"]
    assert ["error" in line for line in found] == [False, True, True, False]
    told = run("predict", "mood", input="\ngood\n").stdout
    assert told.startswith("error\tThe input has an empty text. Give a string.\t\n")


def test_the_count_says_what_was_not_answered(run, tmp_path) -> None:
    (tmp_path / "new.csv").write_text("text\ngood\n \nbad\n")
    done = run("predict", "mood", "--file", "new.csv", "--out", "ans.csv")
    assert "3 rows written to ans.csv; 1 of them could not be answered: see error.\n" in done.stderr
    (tmp_path / "new.csv").write_text("text\ngood\n")
    done = run("predict", "mood", "--file", "new.csv", "--out", "ans.csv")
    assert "1 row written to ans.csv.\n" in done.stderr


@pytest.mark.parametrize("name", ["new.jsonl", "new.NDJSON"])
def test_every_column_of_json_lines_is_written(run, tmp_path, name) -> None:
    rows = [*[{"text": "good"}] * HEAD, {"text": "bad", "predicted": "mine", "id": 7}]
    (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("predict", "mood", "--file", name, "--out", "ans.csv")
    assert done.returncode == 0
    told = "The input has a column 'predicted': what is found now stands in 'predicted_'.\n"
    assert done.stderr.startswith(told)
    with (tmp_path / "ans.csv").open(newline="") as file:
        first, *_, second = csv.DictReader(file)
    assert [first["predicted"], first["id"]] == ["", ""]
    assert [second["predicted"], second["id"]] == ["mine", "7"]
    for row in (first, second):
        assert row["predicted_"] in ("good", "bad")
        assert 0 < float(row["probability"]) <= 1
        assert row["error"] == ""


def test_an_unreadable_first_row_takes_no_column_away(run, tmp_path) -> None:
    (tmp_path / "new.csv").write_text("id,text\n1,good,much\n2,bad\n")
    run("predict", "mood", "--file", "new.csv", "--out", "ans.csv")
    header, first, second = (tmp_path / "ans.csv").read_text().splitlines()
    assert header == "id,text,predicted,probability,error"
    assert first.startswith(",,,,")
    assert second.startswith("2,bad,")


def test_standard_input_has_an_encoding(made) -> None:
    def ask(*more: str, text: bytes):
        return CliRunner().invoke(app, ["predict", "mood", "--bank", str(made), *more], text)

    for encoding in ("latin-1", "utf-16", "utf-8"):
        done = ask("--json", "--encoding", encoding, text="café\n".encode(encoding))
        assert json.loads(done.stdout)["text"] == "café", done.output
    done = ask("--json", text=b"\xef\xbb\xbfgood\n")
    assert json.loads(done.stdout)["text"] == "good"
    done = ask("--json", text=b"good\nna\xefve\nbad\n")
    assert ["error" in line for line in lines(done.stdout)] == [False, True, False], done.output
    assert "no text encoding 'klingon'" in str(
        ask("--encoding", "klingon", text=b"good\n").exception
    )


def test_the_text_is_shown_whatever_columns_stand_before_it(run, tmp_path) -> None:
    (tmp_path / "new.csv").write_text('id,day,text\n0,Monday,"I paid\ntwice"\n1,Monday, \n')
    first, second = run("predict", "mood", "--file", "new.csv").stdout.splitlines()
    assert first.split("\t")[-1] == "I paid twice"
    assert second.startswith("error\t")
    rows = [{"id": 7, "text_a": "one", "text_b": "two"}]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert run("predict", "pairs", "--file", "new.jsonl").stdout.endswith("\tone ⟂ two\n")


class Service:
    """In place of a client: it answers all but one text."""

    def __init__(self, url: str) -> None:
        self.kind = url.rpartition("/")[2]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, task: str) -> dict:
        return {"task": task, "kind": self.kind, "pair": False, "columns": {}}

    def predicting(self, task: str, inputs: Iterable) -> Iterator[list[Prediction]]:
        for each in inputs:
            if each == "busy":
                raise Busy("Too much is waiting.", "Try again in a moment.")
            yield [self.answer(each)]

    def answer(self, asked: object) -> Prediction:
        refused = Prediction(error=DataError("The text is too long.", "Shorten it."))
        good = Prediction(label="good", probabilities={"good": 1.0})
        if self.kind == "span":
            good = Prediction(answer="good", start=13, end=17, score=0.5)
        return refused if "long" in str(asked) else good


def test_what_a_service_refuses_has_its_place(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.client.Client", Service)
    words = ("predict", "mood", "--server", "http://x/classification")
    done = run(*words, "--json", input="good\nlong\nbad\n")
    assert done.returncode == 0
    first, second, third = lines(done.stdout)
    assert (first["label"], third["label"]) == ("good", "good")
    error = {"message": "The text is too long.", "hint": "Shorten it."}
    assert second == {"text": "long", "error": error}
    shown = run(*words, input="good\nlong\n").stdout.splitlines()
    assert shown == ["good\t1.000\tgood", "error\tThe text is too long. Shorten it.\tlong"]
    (tmp_path / "new.csv").write_text("text\ngood\nlong\n")
    done = run(*words, "--file", "new.csv", "--out", "ans.csv")
    assert "2 rows written to ans.csv; 1 of them could not be answered: see error." in done.stderr
    assert (tmp_path / "ans.csv").read_text().splitlines()[2] == "long,,,The text is too long."


def test_what_was_answered_is_kept_when_the_service_fails(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.client.Client", Service)
    monkeypatch.setattr("adapterbank.cli.predict.AT_ONCE", 3)
    words = ("predict", "mood", "--server", "http://x/classification")
    texts = ["good"] * 4 + ["busy"] + ["good"] * 3
    (tmp_path / "new.csv").write_text("\n".join(["text", *texts]) + "\n")
    done = run(*words, "--file", "new.csv", "--out", "ans.csv")
    assert done.returncode == 1
    assert "8 rows written to ans.csv; 4 of them could not be answered: see error." in done.stderr
    assert "error: The service failed before it had answered every row; 4 have the" in done.stderr
    assert done.stderr.endswith("Too much is waiting. Try again in a moment.\n")
    rows = (tmp_path / "ans.csv").read_text().splitlines()[1:]
    assert [row.endswith("Too much is waiting.") for row in rows] == [False] * 4 + [True] * 4
    done = run(*words, input="busy\ngood\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: Too much is waiting." in done.stderr


def test_what_a_service_has_of_its_own_is_refused(run) -> None:
    there = ("--server", "http://localhost:1")
    for words, given in (
        (("predict", "mood", "x", "--base", "minilm"), "--base"),
        (("predict", "mood", "x", "--device", "cpu"), "--device"),
        (("tasks", "--bank", "b"), "--bank"),
        (("tasks", "acme"), "TENANT"),
    ):
        done = run(*words, *there)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{given} cannot go with --server" in done.stderr


def test_a_question_that_a_service_refuses(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.client.Client", Service)
    asked = [{"id": each, "question": each, "answers": []} for each in ("what", "long")]
    paragraphs = [{"context": "the film was good", "qas": asked}]
    content = {"version": "2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}
    (tmp_path / "asked.json").write_text(json.dumps(content))
    words = ("predict", "spans", "--server", "http://x/span", "--file", "asked.json")
    first, second = lines(run(*words, "--json").stdout)
    assert (first["id"], first["answer"], first["start"]) == ("what", "good", 13)
    assert second["error"]["message"] == "The text is too long."
    done = run(*words)
    assert json.loads(done.stdout) == {"what": "good", "long": ""}
    assert "1 of them could not be answered: their answer is empty." in done.stderr


def test_questions_are_for_span_tasks_alone(run, data) -> None:
    done = run("predict", "mood", "--file", data / "squad.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "A .json file is SQuAD's form, and task 'mood' is of kind classif" in done.stderr


def test_texts_and_a_file_do_not_go_together(run, tmp_path) -> None:
    (tmp_path / "new.csv").write_text("text\ngood\n")
    done = run("predict", "mood", "hi", "--file", "new.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "TEXT and --file do not go together" in done.stderr
