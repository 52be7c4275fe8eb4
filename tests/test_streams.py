"""Tasks one after the other on a tiny base: nothing forgotten, nothing lost, nothing twice."""

from __future__ import annotations

import csv
import gc
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adapterbank import Bank
from adapterbank.errors import BankError, ConfigError, DataError
from adapterbank.events import Learnt, Resumed
from adapterbank.figures.stream import draw_stream
from adapterbank.learn import learn
from adapterbank.model.count import count
from adapterbank.model.encoder import fingerprint
from adapterbank.model.methods import Method
from adapterbank.order import Order
from adapterbank.store.mount import mount
from adapterbank.store.store import Store
from adapterbank.streams import folder as folders
from adapterbank.streams import stream as streams
from adapterbank.streams.arrivals import Arrival, read_list
from adapterbank.streams.events import Arrived, Begun, Checked, Contrasted, Kept, SetAside
from adapterbank.streams.folder import Folder
from adapterbank.streams.report import markdown, rows, sentences
from adapterbank.streams.shared import SharedEncoder
from adapterbank.streams.state import State
from adapterbank.streams.stream import Stream, open_source
from adapterbank.tasks.batches import encode
from adapterbank.tasks.task_file import read_task
from adapterbank.training import recipe as recipes
from adapterbank.training.checkpoint import Checkpoint
from adapterbank.training.recipe import Recipe
from in_process import InProcess
from tiny import save_base
from training.toy import EXAMPLES, TASK

QUICK = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-2, "size": 4, "baselines": False}
SETTINGS = "\n".join(f"{name} = {json.dumps(value)}" for name, value in QUICK.items())
LIST = f"""
[defaults]
{SETTINGS}

[[task]]
name = "mood"
train = "mood.csv"

[[task]]
name = "shop/stars"
train = "stars.csv"
label_column = "score"
size = 2
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def bank(tmp_path, base) -> Bank:
    return Bank.open(tmp_path / "bank", str(base))


@pytest.fixture
def inbox(tmp_path) -> Path:
    """A folder with two tasks, the later one first by name."""
    folder = tmp_path / "inbox"
    folder.mkdir()
    write(folder / "mood.csv", 2)
    write(folder / "length.csv", 1, by_length)
    return folder


def by_mood(example: Any) -> str:
    return str(example.label)


def by_length(example: Any) -> str:
    return "long" if example.text.count("it was") == 2 else "short"


def write(path: Path, age: int = 0, label: Callable[[Any], Any] = by_mood) -> Path:
    """A file of labelled rows that was changed `age` hundred seconds ago."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "score" if path.stem == "stars" else "label"])
        writer.writerows((e.text, label(e)) for e in EXAMPLES)
    then = time.time() - 100 * age
    os.utime(path, (then, then))
    return path


def a_list(home: Path) -> Path:
    write(home / "mood.csv")
    write(home / "stars.csv", label=lambda e: 1.5 + 3 * (e.label == "good"))
    path = home / "tasks.toml"
    path.write_text(LIST)
    return path


def opened(bank: Bank, path: Path, given: dict[str, Any] | None = None, **more: Any) -> Stream:
    given = QUICK if given is None else given
    return Stream(bank, path, open_source(path, given), compute=InProcess(), **more)


def learnt(stream: Stream) -> list[str]:
    return [f"{each['name']}@{each['version']}" for each in stream.state.learnt()]


def versions(bank: Bank) -> dict[str, list[int]]:
    return {info.task: [v.version for v in info.versions] for info in bank.tasks()}


# --- lists


def test_a_list_is_read(tmp_path) -> None:
    mood, stars = read_list(a_list(tmp_path), {"seed": 3, "size": 8})
    assert mood == Arrival(
        "mood",
        "mood",
        {"train": str(tmp_path / "mood.csv")},
        {},
        {**QUICK, "seed": 3, "size": 8},  # the command line goes before the file
    )
    assert (stars.name, stars.reading) == ("shop/stars", {"label_column": "score"})
    assert read_list(tmp_path / "tasks.toml", {})[1].learning == {**QUICK, "size": 2}


def test_a_list_may_take_fewer_rows(tmp_path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text('[defaults]\nmax_rows = 50\n[[task]]\nname = "reviews"\n')
    (arrival,) = read_list(path, {})
    task = arrival.read()
    assert (len(task.train), len(task.dev), len(task.test)) == (50, 50, 50)
    assert arrival.settings == {"max_rows": 50}  # a list with another number is another task
    path.write_text('[[task]]\nname = "reviews"\nmax_rows = "few"\n')
    with pytest.raises(ConfigError, match="max_rows is 'few'"):
        read_list(path, {})


def test_known_tasks_need_no_file(tmp_path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text('[defaults]\ntext_column = "body"\nlr = 0.1\n[[task]]\nname = "acme/reviews"\n')
    (arrival,) = read_list(path, {})
    assert (arrival.sources, arrival.reading) == ({}, {})
    assert arrival.learning == {"learning_rate": 0.1}
    assert (arrival.read().name, len(arrival.read().train)) == ("acme/reviews", 300)
    assert len(arrival.digest()) == 64


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "tasks.toml lists no tasks. Give each a table: [[task]]."),
        ("[task]\nname = 'a'", "tasks.toml lists no tasks."),
        ("name = ", "tasks.toml is not TOML: "),
        ("[[tasks]]", "tasks.toml: there is no setting 'tasks'. Did you mean task?"),
        ("[[task]]\ntrain = 'a.csv'", "tasks.toml, task 1: it has no name."),
        ("[[task]]\nname = 'A b'", "tasks.toml, task 1: 'A b' is not a task's name."),
        ("[[task]]\nname = 'reviews'\nepoch = 1", "(reviews): there is no setting 'epoch'. Did"),
        ("[[task]]\nname = 'reviews'\nearlier = 1", "there is no setting 'earlier'"),
        ("[defaults]\ntrain = 'a'\n[[task]]\nname = 'reviews'", "[defaults]: there is no setting"),
        ("[[task]]\nname = 'a'\ntrain = 'none.csv'", "task 1 (a): There is no file "),
        ("[[task]]\nname = 'a'\ntrain = 3", "task 1 (a): train is 3."),
        ("[[task]]\nname = 'a'", "it has no train, and is neither a bundled sample nor in the cat"),
        ("[[task]]\nname = 'rte'", "task 1 (rte): There is no data for rte"),
        ("[[task]]\nname = 'reviews'\nkind = 'span'", "it has kind and no train."),
        ("[[task]]\nname = 'reviews'\n[[task]]\nname = 'default/reviews'", "task 2: there is a ta"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be(tmp_path, monkeypatch, content, message) -> None:
    monkeypatch.delenv("ADAPTERBANK_DATA", raising=False)
    path = tmp_path / "tasks.toml"
    path.write_text(content)
    with pytest.raises((ConfigError, DataError)) as caught:
        read_list(path, {})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("size = 0", "tasks.toml, reviews: size is 0"),
        ("first_layer = 9", "tasks.toml, reviews: first_layer is 9; this base has layers 0 to 3"),
        ("layers = ['1', 2]", "tasks.toml, reviews: layers is ['1', 2]; it takes layer numbers"),
        ("layers = [[0, 1]]", "tasks.toml, reviews: layers is [[0, 1]]; it takes layer numbers"),
        ("warmup = 'x'", "tasks.toml, reviews: warmup is 'x'; it must be a number from 0 to 1"),
    ],
)
def test_a_wrong_setting_shows_before_anything_is_learnt(bank, tmp_path, setting, message) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(f"[[task]]\nname = 'support'\n[[task]]\nname = 'reviews'\n{setting}\n")
    with pytest.raises(ConfigError) as caught:
        next(opened(bank, path, {}).run())
    assert message in str(caught.value)


# --- folders


def test_files_of_a_folder_are_tasks(tmp_path) -> None:
    for age, name in enumerate(
        ["b.csv", "a.JSONL", "Upper.tsv", "a b.csv", "c.parquet", "c.dev.csv", "C.test.jsonl",
         "d.json", "lone.dev.csv", ".hidden.csv", "e.csv.part", "f.csv.tmp", "g.csv.crdownload",
         "h.csv.partial", "notes.txt", "b.tsv", "i.csv", "i.dev.csv", "i.dev.tsv"]
    ):  # fmt: skip
        write(tmp_path / name, 100 - age)
    (tmp_path / "folder.csv").mkdir()
    found = Folder(tmp_path, {"seed": 1}).arrivals()
    assert [(each.key, each.name) for each in found] == [
        ("b.csv", "b"), ("a.JSONL", "a"), ("Upper.tsv", "upper"), ("a b.csv", "a b"),
        ("c.parquet", "c"), ("d.json", "d"), ("b.tsv", "b"), ("i.csv", "i"),
    ]  # fmt: skip
    problems = {each.key: each.problem for each in found if each.problem}
    assert problems.keys() == {"a b.csv", "b.tsv", "i.csv"}
    assert problems["a b.csv"].startswith("'a b' is not a task's name.")
    assert problems["b.tsv"] == "There is another file of the task 'b': b.csv."
    assert problems["i.csv"] == "There are two files of its dev rows: i.dev.tsv is the second."
    assert {k: Path(v).name for k, v in found[4].sources.items()} == {
        "train": "c.parquet", "dev": "c.dev.csv", "test": "C.test.jsonl",
    }  # fmt: skip
    assert found[0].learning == {"seed": 1}
    assert Folder(tmp_path, {}).waiting() == ["lone.dev.csv"]


def test_files_of_one_moment_go_by_name(tmp_path) -> None:
    for name in ("c.csv", "a.csv", "b.csv"):
        os.utime(write(tmp_path / name), (1, 1))
    assert [each.name for each in Folder(tmp_path, {}).arrivals()] == ["a", "b", "c"]


def test_an_empty_folder_and_no_folder(bank, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="There is no data in"):
        next(opened(bank, tmp_path / "empty").run())
    with pytest.raises(DataError, match=r"There is no .*nothing"):
        opened(bank, tmp_path / "nothing")


# --- a stream, whole


def test_every_number_of_the_report_is_so(bank, tmp_path) -> None:
    """Each is computed once more, another way."""
    stream = opened(bank, a_list(tmp_path), {}, score_rows=5)
    events = list(stream.run())
    assert [(e.name, e.number, e.of, e.known) for e in events if isinstance(e, Arrived)] == [
        ("mood", 1, 2, False),
        ("shop/stars", 2, 2, False),
    ]
    assert [e.title for e in events if isinstance(e, Begun)] == ["adapters 4", "adapters 2"]
    assert [e.problems for e in events if isinstance(e, Checked)] == [[], []]
    report = stream.report()
    assert json.loads(json.dumps(report)) == report
    assert [(t["task"], t["version"], t["metric"]) for t in report["tasks"]] == [
        ("mood", 1, "accuracy"),
        ("shop/stars", 1, "pearson"),
    ]
    first, second = report["checks"]
    assert [[task["arrival"] for task in check["tasks"]] for check in (first, second)] == [
        [1],
        [1, 2],
    ]
    assert [check["after"] for check in (first, second)] == [1, 2]
    assert first["tasks"][0] == second["tasks"][0]

    held = [read_task(stream.state.held_out(number)).test for number in (1, 2)]
    assert list(map(len, held)) == [5, 5]
    mood = [a.label for a in bank.predict("mood", [e.text for e in held[0]])]
    accuracy = np.mean([a == e.label for a, e in zip(mood, held[0], strict=True)])
    stars = [a.value for a in bank.predict("shop/stars", [e.text for e in held[1]])]
    pearson = np.corrcoef(stars, [e.number for e in held[1]])[0, 1]
    for task, score, places in zip(
        report["tasks"], (accuracy, pearson), ([1, 2], [2]), strict=True
    ):
        course = task["bank"]
        assert course["after_learning"] == course["at_the_end"] == pytest.approx(score, abs=1e-3)
        assert course["difference"] == 0
        assert course["scores"] == [[place, course["at_the_end"]] for place in places]
        assert task["shared_encoder"] is None

    info = bank.show("mood")
    home = tmp_path / "bank" / "tasks" / "default" / "mood" / "packages" / info.version.package
    parts = [(home / name).read_bytes() for name in ("weights.safetensors", "manifest.json")]
    together = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts))
    assert first["tasks"][0]["package"] == together.hexdigest()
    assert report["arrivals"][0]["package"] == info.version.package
    with mount(bank.encoder, bank.store.load(bank.store.find("mood"))) as model:
        logits = model.logits(*encode(bank.encoder.tokenizer, held[0], 128).take())
    assert first["tasks"][0]["logits"] == hashlib.sha256(logits.tobytes()).hexdigest()

    counts = [
        count(
            bank.encoder.model.config,
            bank.order(size=size).method,
            labels=labels,
            kind=kind,
            with_pooler=bank.encoder.pooling == "pooler",
        )
        for size, labels, kind in ((4, 2, "classification"), (2, 1, "regression"))
    ]
    trained = sum(each.trained for each in counts)
    whole = counts[0].base
    assert report["parameters"] == {
        "base": whole,
        "tasks": 2,
        "trained": trained,
        "bank": whole + trained,
        "one_model_per_task": 2 * whole,
        "times_smaller": 2 * whole / (whole + trained),
    }
    assert report["packages_identical"]
    assert report["predictions_identical"]
    assert report["checked"]
    assert rows(report)[0] == ("mood@1", "accuracy", f"{accuracy:.3f}", f"{accuracy:.3f}", "0")
    assert sentences(report)[:2] == [
        "Every earlier package is byte-identical: yes.",
        "Every earlier prediction is bit-identical: yes.",
    ]
    assert "| mood@1 | accuracy |" in markdown(report)


def test_every_kind_of_task(bank, tmp_path) -> None:
    def rows_of(name: str, make: Callable[[Any], dict[str, Any]]) -> None:
        lines = (json.dumps(make(example)) for example in EXAMPLES)
        (tmp_path / name).write_text("\n".join(lines))

    rows_of("tags.jsonl", lambda e: {"text": e.text, "labels": [e.label] * ("film" in e.text)})
    rows_of("pairs.jsonl", lambda e: {"text_a": e.text, "text_b": "it was", "label": e.label})
    questions = [
        {"id": str(i), "question": "the film", "answers": [{"text": "was", "answer_start": at}]}
        for i, example in enumerate(EXAMPLES)
        if (at := example.text.index("was"))
    ]
    paragraphs = [
        {"context": example.text, "qas": [question]}
        for example, question in zip(EXAMPLES, questions, strict=True)
    ]
    (tmp_path / "answers.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    stream = opened(bank, tmp_path, contrast=True)
    list(stream.run())
    report = stream.report()
    assert not report["set_aside"]
    assert {t["task"]: (t["kind"], t["metric"]) for t in report["tasks"]} == {
        "tags": ("multi-label", "micro_f1"),
        "pairs": ("classification", "accuracy"),
        "answers": ("span", "f1"),
    }
    assert [t["bank"]["difference"] for t in report["tasks"]] == [0, 0, 0]
    assert [len(t["shared_encoder"]["scores"]) for t in report["tasks"]] == [3, 2, 1]
    assert report["predictions_identical"]


def test_going_on_from_an_earlier_task(bank, tmp_path) -> None:
    """It has the other's labels first, whatever their order in its own file."""
    path = a_list(tmp_path)
    write(tmp_path / "more.csv", label=lambda e: "awful" if "awful" in e.text else e.label)
    going_on = '[[task]]\nname = "more"\ntrain = "more.csv"\nfrom_version = "mood@1"\n'
    path.write_text(LIST.split('[[task]]\nname = "shop')[0] + going_on + "even_if_worse = true\n")
    stream = opened(bank, path, {})
    list(stream.run())
    assert bank.show("more").manifest.labels == ("bad", "good", "awful")
    assert read_task(stream.state.held_out(2)).labels == ("awful", "bad", "good")
    course = stream.report()["tasks"][1]["bank"]
    assert course["after_learning"] == bank.show("more").manifest.test["accuracy"]


def test_a_bad_file_is_set_aside_and_the_stream_goes_on(bank, inbox) -> None:
    for bad in ("one class.csv", "empty.csv"):
        (inbox / bad).write_text("" if bad == "empty.csv" else "text,label\nit was,good\n")
        os.utime(inbox / bad, (1, 1))
    write(inbox / "empty.dev.csv", 3)
    (inbox / "rejected").mkdir()
    (inbox / "rejected" / "empty.csv").write_text("another")
    stream = opened(bank, inbox)
    events = list(stream.run())
    aside = {e.name: e for e in events if isinstance(e, SetAside)}
    assert aside.keys() == {"empty", "one class"}
    assert aside["empty"].reason == "empty.csv is empty."
    assert aside["empty"].place == str(inbox / "rejected")
    assert learnt(stream) == ["mood@1", "length@1"]
    assert {path.name for path in inbox.iterdir()} == {"mood.csv", "length.csv", "rejected"}
    rejected = {path.name: path.read_text() for path in (inbox / "rejected").iterdir()}
    assert rejected.keys() == {
        "empty.csv", "empty-2.csv", "empty-2.csv.reason.txt", "empty.dev-2.csv",
        "one class.csv", "one class.csv.reason.txt",
    }  # fmt: skip
    assert rejected["empty.csv"] == "another"
    assert rejected["empty-2.csv.reason.txt"] == "empty.csv is empty.\n"
    assert "is not a task's name" in rejected["one class.csv.reason.txt"]
    report = stream.report()
    assert [each["from"] for each in report["set_aside"]] == ["empty.csv", "one class.csv"]
    assert [record["number"] for record in report["arrivals"]] == [1, 2, 3, 4]
    assert "| empty | empty.csv | empty.csv is empty. |" in markdown(report)
    # Put back as it was, it is told the same; mended, it is learnt.
    (inbox / "rejected" / "empty-2.csv").rename(inbox / "empty.csv")
    (again,) = [e for e in opened(bank, inbox).run() if isinstance(e, SetAside)]
    assert again.reason == "empty.csv is empty."
    write(inbox / "empty.csv")
    stream = opened(bank, inbox)
    assert [e.record["name"] for e in stream.run() if isinstance(e, Kept)] == ["empty"]
    assert [each["from"] for each in stream.report()["set_aside"]] == ["one class.csv"]


def test_a_bad_task_of_a_list_is_recorded_once(bank, tmp_path) -> None:
    path = a_list(tmp_path)
    (tmp_path / "mood.csv").write_text("text,label\nit was,good\nit was,good\n")
    stream = opened(bank, path, {})
    assert [type(e) for e in stream.run() if isinstance(e, SetAside | Kept)] == [SetAside, Kept]
    assert (tmp_path / "mood.csv").exists()
    again = list(opened(bank, path, {}).run())
    assert [e.known for e in again if isinstance(e, Arrived)] == [True, True]
    assert len(stream.state.arrivals()) == 2
    assert [each["task"] for each in stream.report()["set_aside"]] == ["mood"]


def test_what_is_the_machines_fault_costs_no_file(bank, inbox, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise BankError("The disk is full.")

    monkeypatch.setattr(Store, "publish_packed", full)
    with pytest.raises(BankError, match="The disk is full"):
        list(opened(bank, inbox).run())
    assert not (inbox / "rejected").exists()
    monkeypatch.undo()
    stream = opened(bank, inbox)
    list(stream.run())
    assert learnt(stream) == ["mood@1", "length@1"]


# --- again, and after a kill


def test_nothing_is_learnt_twice(bank, inbox) -> None:
    list(opened(bank, inbox).run())
    stream = opened(bank, inbox)
    events = list(stream.run())
    assert [type(e).__name__ for e in events] == ["Checking", "Checked", "Arrived", "Arrived"]
    assert versions(bank) == {"length": [1], "mood": [1]}
    # A changed file is a new version, and so is a changed setting; a touched file is neither.
    write(inbox / "mood.csv", label=by_length)
    os.utime(inbox / "length.csv")
    list(opened(bank, inbox).run())
    assert versions(bank) == {"length": [1], "mood": [1, 2]}
    list(opened(bank, inbox, {**QUICK, "seed": 1}).run())
    assert versions(bank) == {"length": [1, 2], "mood": [1, 2, 3]}
    report = stream.report()
    assert len(report["tasks"]) == 5
    assert report["parameters"]["tasks"] == 2
    assert report["predictions_identical"]
    assert [place for place, _ in report["tasks"][0]["bank"]["scores"]] == [1, 2, 3, 4, 5]


def killed(action: Callable[[], object]) -> None:
    """Run it in a copy of this process that must end by SIGKILL."""
    child = os.fork()
    if child == 0:  # pragma: no cover - it is not there to report
        gc.freeze()  # an earlier test's session, collected here, would wait for threads it left
        try:
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it was not killed"
    assert os.WTERMSIG(status) == signal.SIGKILL


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


STAGES: dict[str, tuple[type, str, str]] = {
    "in training": (Checkpoint, "save", "after"),
    "before publishing": (Store, "publish_packed", "before"),
    "after publishing": (Store, "publish_packed", "after"),
    "before the record": (State, "add_arrival", "before"),
    "before the check": (State, "add_check", "before"),
    "in the contrast": (SharedEncoder, "_save", "before"),
    "before asking": (SharedEncoder, "_save", "after"),
}

RESUMED = {"in training": [2], "before publishing": [3]}  # the step that it goes on from


def outcome(stream: Stream) -> dict[str, Any]:
    """A report without times, and without what depends on how often it was run."""
    report = stream.report()
    for arrival in report["arrivals"]:
        del arrival["seconds"], arrival["sources"]
        del arrival["package"]  # it holds the time too
    for task in report["tasks"]:
        del task["seconds"]
    for contrast in report["contrast"]:
        del contrast["seconds"]
    checks = {check["after"]: check["tasks"] for check in report.pop("checks")}
    report["checks"] = {
        after: [(task["arrival"], task["logits"], task["score"]) for task in tasks]
        for after, tasks in checks.items()
    }
    return {name: each for name, each in report.items() if name not in ("bank", "source")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, base) -> dict[str, Any]:
    """What a stream that was never stopped comes to."""
    home = tmp_path_factory.mktemp("whole")
    write(home / "mood.csv", 2)
    write(home / "length.csv", 1, by_length)
    stream = opened(Bank.open(home / "bank", str(base)), home, contrast=True)
    list(stream.run())
    return outcome(stream)


@pytest.mark.parametrize("stage", STAGES)
def test_killed_at_any_stage_and_run_again(bank, inbox, whole, monkeypatch, stage) -> None:
    owner, name, when = STAGES[stage]
    real = getattr(owner, name)
    calls = []

    def fault(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if when == "before" and len(calls) == 2:
            die()
        result = real(*arguments, **named)
        if when == "after" and len(calls) == 2:
            die()
        return result

    monkeypatch.setattr("adapterbank.training.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("adapterbank.training.checkpoint.COST", 1e9)
    bank.encoder  # noqa: B018 - loaded once for both
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fault)
        killed(lambda: list(opened(bank, inbox, contrast=True).run()))
    stream = opened(bank, inbox, contrast=True)
    events = list(stream.run())
    assert [e.step for e in events if isinstance(e, Resumed)] == RESUMED.get(stage, [])
    assert versions(bank) == {"length": [1], "mood": [1]}
    assert outcome(stream) == whole
    assert not list(stream.state.folder.rglob("*.partial"))
    assert not list(stream.state.folder.rglob("*.run.safetensors"))


def test_killed_before_the_move_the_file_is_moved_later(bank, inbox, monkeypatch) -> None:
    (inbox / "bad.csv").write_text("text,label\n")
    bank.encoder  # noqa: B018
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put_aside", die)
        killed(lambda: list(opened(bank, inbox).run()))
    assert (inbox / "bad.csv").exists()
    stream = opened(bank, inbox)
    list(stream.run())
    assert (inbox / "rejected" / "bad.csv").exists()
    assert len(stream.report()["set_aside"]) == 1


def test_one_process_at_a_time(bank, inbox) -> None:
    events = opened(bank, inbox).run()
    next(events)
    with pytest.raises(BankError, match="This stream is running already"):
        next(opened(bank, inbox).run())
    events.close()
    assert isinstance(next(opened(bank, inbox).run()), Arrived)


# --- watching


@pytest.fixture
def quick(monkeypatch) -> None:
    monkeypatch.setattr(folders, "SETTLED", 0.2)
    monkeypatch.setattr(streams, "POLL", 0.02)


def until(events: Iterator[Any], kind: type) -> Any:
    return next(event for event in events if isinstance(event, kind))


def test_a_growing_file_is_taken_when_it_is_whole(bank, inbox, quick) -> None:
    stream = opened(bank, inbox)
    events = stream.run(watch=True)
    assert [until(events, Checked).tasks, until(events, Checked).tasks] == [1, 2]
    content = (inbox / "mood.csv").read_bytes()
    closed: list[float] = []

    def grow() -> None:
        with (inbox / "slow.csv").open("wb", buffering=0) as file:
            for start in range(0, len(content), 400):
                file.write(content[start : start + 400])
                time.sleep(0.05)
            time.sleep(0.5)  # longer than a file must be left alone, but it is still open
            file.write(b"it was great,good\n")
        closed.append(time.monotonic())

    writer = threading.Thread(target=grow)
    writer.start()
    arrived = until(events, Arrived)
    taken = time.monotonic()
    writer.join()
    assert (arrived.name, arrived.number, arrived.of) == ("slow", 3, None)
    assert taken >= closed[0] + folders.SETTLED
    assert sum(until(events, Kept).record["rows"].values()) == len(EXAMPLES) + 1
    until(events, Checked)
    # Then a new file of a known name, and a bad one.
    write(inbox / "slow.csv", label=by_length)
    assert until(events, Kept).record["version"] == 2
    (inbox / "bad.csv").write_text("text,label\n")
    assert until(events, SetAside).name == "bad"
    events.close()
    assert learnt(stream) == ["mood@1", "length@1", "slow@1", "slow@2"]


def test_a_file_that_is_appended_to_is_not_settled(tmp_path, monkeypatch) -> None:
    folder = Folder(tmp_path, {})
    path = write(tmp_path / "a.csv")
    (arrival,) = folder.arrivals()
    clock = [100.0]
    monkeypatch.setattr(folders.time, "monotonic", lambda: clock[0])
    settled = []
    for second in range(6):
        clock[0] = 100.0 + second
        if second == 1:
            with path.open("a") as file:
                file.write("it was,good\n")
        settled.append(folder.settled(arrival))
    assert settled == [False, False, False, True, True, True]
    with path.open("a"):
        assert folder.settled(arrival) is False
    assert folder.settled(arrival) is True
    path.unlink()
    assert folder.settled(arrival) is False


# --- what would be a fault


def changed(bank: Bank, name: str) -> None:
    """One bit of a task's weights, on disk."""
    package = bank.show(name).version.package
    path = next((Path(bank.store.files.url) / "tasks").rglob(f"{package}/weights.safetensors"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_package_changed_on_disk_is_caught(bank, inbox) -> None:
    list(opened(bank, inbox).run())
    changed(bank, "mood")
    write(inbox / "third.csv")
    stream = opened(bank, inbox)
    events = list(stream.run())
    found = [e.problems for e in events if isinstance(e, Checked)]
    assert [[(p.task, p.what, p.after) for p in each] for each in found] == [
        [("mood@1", "packages", "length@1"), ("mood@1", "predictions", "length@1")]
    ] * 2
    report = stream.report()
    assert not report["packages_identical"]
    assert not report["predictions_identical"]
    assert report["tasks"][1]["bank"]["difference"] == 0
    assert sentences(report)[0].startswith(
        "Every earlier package is byte-identical: NO. mood@1 after length@1: "
    )
    bank.remove("length", purge=True)
    list(opened(bank, inbox).run())
    assert {p["task"] for p in stream.report()["problems"]} == {"mood@1", "length@1"}


def test_other_bits_are_a_fault_on_the_same_software_only(bank, inbox) -> None:
    stream = opened(bank, inbox)
    list(stream.run())
    check = stream.state.checks()[-1]
    check["tasks"][0]["logits"] = "0" * 64
    stream.state.add_check({**check, "software": {**check["software"], "torch": "1.0"}})
    assert stream.report()["predictions_identical"]
    stream.state.add_check(check)
    report = stream.report()
    assert report["packages_identical"]
    assert [p["message"] for p in report["problems"]] == [
        "Its answers have other bits than before."
    ]


# --- the contrast


def test_the_shared_encoder_forgets_and_the_bank_does_not(bank, tmp_path, monkeypatch) -> None:
    """The same texts with another question: what the first has learnt is in the way."""
    monkeypatch.setitem(recipes.LEARNING_RATES, "full", 3e-3)
    write(tmp_path / "mood.csv")
    write(tmp_path / "length.csv", label=by_length)
    path = tmp_path / "tasks.toml"
    path.write_text(
        "".join(f'[[task]]\nname = "{name}"\ntrain = "{name}.csv"\n' for name in ("mood", "length"))
    )
    before = bank.encoder.fingerprint
    given = {**QUICK, "epochs": 8, "batch_size": 8}
    stream = opened(bank, path, given, contrast=True)
    events = list(stream.run())
    assert [e.record["after"] for e in events if isinstance(e, Contrasted)] == [1, 2]
    report = stream.report()
    mood, length = report["tasks"]
    assert mood["bank"]["difference"] == length["bank"]["difference"] == 0
    assert mood["shared_encoder"]["after_learning"] >= 0.9
    assert mood["shared_encoder"]["difference"] <= -0.2
    assert length["shared_encoder"]["after_learning"] >= 0.8
    assert [place for place, _ in mood["shared_encoder"]["scores"]] == [1, 2]
    recipe = report["contrast"][1]["recipe"]
    assert (recipe["epochs"], recipe["batch_size"], recipe["seed"]) == (8, 8, 1)
    assert recipe["learning_rate"] == 3e-3
    assert len(rows(report)[0]) == 8
    assert versions(bank) == {"length": [1], "mood": [1]}  # nothing of it is in the bank
    assert fingerprint(bank.encoder.model, bank.encoder.stored) == before


def test_the_first_task_of_the_contrast_is_plain_fine_tuning(bank, inbox) -> None:
    """And its scores are those of the weights that were kept."""
    stream = opened(bank, inbox, contrast=True)
    list(stream.run())
    arrival = stream.source.arrivals()[0]
    recipe = stream.report()["contrast"][0]["recipe"]
    order = Order(Method("full"), settings=recipe, baselines=False)
    (full,) = [e for e in learn(bank.encoder, arrival.read(), order) if isinstance(e, Learnt)]
    assert (
        full.manifest.test["accuracy"]
        == stream.report()["tasks"][0]["shared_encoder"]["after_learning"]
    )


def test_each_task_of_the_contrast_starts_from_the_one_before(bank, tmp_path) -> None:
    shared = SharedEncoder(bank.encoder, tmp_path / "shared.safetensors")
    settings = Recipe(1e-3, epochs=1, max_length=32).as_dict()
    list(shared.learn(1, TASK, shared.recipe_for(TASK, settings, 1)))
    first, head = dict(shared.body), dict(shared.heads[1])
    still = replace(shared.recipe_for(TASK, settings, 2), learning_rate=1e-12)
    again = SharedEncoder(bank.encoder, tmp_path / "shared.safetensors")  # as it is on disk
    list(again.learn(2, TASK, still))
    base = dict(bank.encoder.model.named_parameters())
    name = next(name for name in first if name.startswith("base."))
    assert not torch.equal(first[name], base[name.removeprefix("base.")])
    assert all(torch.allclose(again.body[name], first[name], atol=1e-9) for name in first)
    assert torch.equal(again.heads[1]["head.weight"], head["head.weight"])
    assert not torch.equal(again.heads[2]["head.weight"], head["head.weight"])


def test_the_contrast_can_come_later(bank, inbox, whole) -> None:
    list(opened(bank, inbox).run())
    stream = opened(bank, inbox, contrast=True)
    events = list(stream.run())
    assert [e.record["after"] for e in events if isinstance(e, Contrasted)] == [1, 2]
    assert outcome(stream)["tasks"][1] == whole["tasks"][1]
    # A task whose data has changed since is left out of it.
    write(inbox / "mood.csv", label=by_length)
    list(opened(bank, inbox).run())
    write(inbox / "mood.csv", label=by_mood)
    (inbox / "length.csv").unlink()
    (event,) = [e for e in opened(bank, inbox, contrast=True).run() if isinstance(e, Contrasted)]
    assert event.record["after"] == 4


# --- the picture


def picture(tasks: int, contrast: bool = False, **more: Any) -> dict[str, Any]:
    def course(first: int, step: float) -> dict[str, Any]:
        scores = [[place, 0.9 - step * (place - first)] for place in range(first, tasks + 1)]
        return {"scores": scores}

    return {
        "tasks": [
            {
                "place": i,
                "task": f"task-{i}",
                "version": 1,
                "metric": "accuracy",
                "higher_is_better": True,
                "bank": course(i, 0.0),
                "shared_encoder": course(i, 0.02) if contrast else None,
            }
            for i in range(1, tasks + 1)
        ],
        "packages_identical": True,
        "predictions_identical": True,
        "parameters": {
            "base": 1000, "trained": 30 * tasks, "bank": 1000 + 30 * tasks,
            "one_model_per_task": 1000 * tasks,
        },
        **more,
    }  # fmt: skip


def drawn(record: dict[str, Any], folder: Path) -> str:
    """The texts of the picture: matplotlib notes each beside its outline."""
    draw_stream(record, folder / "a.svg")
    return (folder / "a.svg").read_text()


def test_few_tasks_are_named_and_many_are_not(tmp_path) -> None:
    few, many = drawn(picture(3), tmp_path), drawn(picture(20, contrast=True), tmp_path)
    for text in ("task-3 0.90", "mean 0.90", "AdapterBank: nothing changes", "1.09 k", "3 k"):
        assert f"<!-- {text} -->" in few, text
    assert "One encoder" not in few
    assert "task-3" not in many
    for text in ("mean 0.90", "One encoder fine-tuned task after task", "mean 0.71"):
        assert f"<!-- {text} -->" in many, text


def test_a_picture_says_what_is_wrong_and_what_is_not_in_it(tmp_path) -> None:
    record = picture(3, packages_identical=False)
    record["tasks"][1] |= {"metric": "mean_absolute_error", "higher_is_better": False}
    record["tasks"][2]["metric"] = "macro_f1"
    text = " ".join(drawn(record, tmp_path).split())
    assert "AdapterBank: SOMETHING CHANGED" in text
    assert "accuracy, macro f1, each task's own on the same axis" in text.replace(" --> <!-- ", " ")
    assert "task-2 " not in text.replace("lower is better: task-2", "")


def test_the_same_record_gives_the_same_picture(tmp_path) -> None:
    assert drawn(picture(5, contrast=True), tmp_path) == drawn(picture(5, contrast=True), tmp_path)
    draw_stream(picture(1), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
