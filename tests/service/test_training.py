"""Labelled rows over HTTP become a task: real workers on a tiny base."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from adapterbank.errors import TooLarge
from adapterbank.service.auth import Keys, Quotas
from adapterbank.service.train_work import _read, work
from adapterbank.tasks.room import Room
from service.conftest import make_bank, running

WORDS = [f"w{c}" for c in "abcdefgh"]
QUICK = {"epochs": 1, "max_length": 16, "baselines": False, "size": 4}


def rows(count: int = 48) -> str:
    lines = [
        f"{WORDS[i % 8]} {WORDS[i % 5]} {i},{'even' if i % 2 else 'odd'}" for i in range(count)
    ]
    return "\n".join(["text,label", *lines]) + "\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory, encoder) -> Iterator:
    folder = tmp_path_factory.mktemp("home")
    store = make_bank(folder / "bank", encoder, {"plain": {}})
    with running(store, folder / "state", jobs=True) as client:
        yield client, store, folder


def send(client, task: str, text: str | bytes, name: str = "rows.csv", **options):
    data = {"options": json.dumps({**QUICK, **options})}
    return client.post(f"/v1/tasks/{task}/train", files={"file": (name, text)}, data=data)


def wait(client, id: str, seconds: float = 90) -> dict:
    end = time.monotonic() + seconds
    while (job := client.get(f"/v1/jobs/{id}").json())["state"] in ("queued", "running"):
        assert time.monotonic() < end, job
        time.sleep(0.1)
    return job


def events_of(client, id: str) -> list[dict]:
    """All of a job's events, once it has ended."""
    with client.stream("GET", f"/v1/jobs/{id}/events") as stream:
        text = "".join(stream.iter_text())
    return [
        json.loads(line.removeprefix("data: "))
        for line in text.splitlines()
        if line.startswith("data: ")
    ]


def test_from_a_csv_to_answers(home) -> None:
    client, _, folder = home
    response = send(client, "parity", rows(), note="odd and even")
    assert response.status_code == 202
    job = response.json()
    assert response.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert (job["task"], job["state"]) == ("parity", "queued")
    kinds = [each.get("event", each.get("state")) for each in events_of(client, job["id"])]
    assert kinds[-1] == "done"
    assert [k for k in ("data", "plan", "step", "epoch") if k in kinds] == [
        "data",
        "plan",
        "step",
        "epoch",
    ]
    done = wait(client, job["id"])
    assert done["result"]["version"] == 1
    assert set(done["result"]["dev"]) >= {"accuracy"}
    found = client.post("/v1/tasks/parity/predict", json={"inputs": ["wa wb 3"]}).json()
    assert found["predictions"][0]["label"] in ("odd", "even")
    assert client.get("/v1/tasks/parity").json()["note"] == "odd and even"
    assert not list((folder / "state" / "data").iterdir())
    assert not list((folder / "bank" / ".runs").rglob("*.safetensors"))
    # Once more, on top of it.
    again = wait(client, send(client, "parity", rows(60), **{"from": "parity@1"}).json()["id"])
    assert again["state"] in ("done", "failed")
    if again["state"] == "failed":
        assert "stays" in again["error"]["message"]


def test_going_on_tells_what_it_is_judged_by(home) -> None:
    client, store, _ = home
    wait(client, send(client, "even", rows(), metric="macro_f1").json()["id"])
    on = {"from": "even@1", "even_if_worse": True}
    for metric, asked in (("macro_f1", {}), ("accuracy", {"metric": "accuracy"})):
        job = send(client, "even", rows(60), **on, **asked).json()
        (plan,) = (e for e in events_of(client, job["id"]) if e.get("event") == "plan")
        assert plan["metric"] == metric
        assert store.load(store.find("even")).manifest.metric == metric


def test_bad_data_fails_with_its_reason(home) -> None:
    client, store, folder = home
    text = rows() + ",odd\n"
    job = wait(client, send(client, "bad", text).json()["id"])
    assert job["state"] == "failed"
    assert "row 49" in job["error"]["message"]
    assert str(folder) not in json.dumps(job)
    assert "bad" not in list(store.tasks())
    job = wait(client, send(client, "bad", text, skip_bad=True).json()["id"])
    assert job["state"] == "done"


def test_a_running_job_is_cancelled(home) -> None:
    client, store, _ = home
    id = send(client, "long", rows(), epochs=1000).json()["id"]
    end = time.monotonic() + 60
    with client.stream("GET", f"/v1/jobs/{id}/events") as stream:
        for line in stream.iter_lines():
            assert time.monotonic() < end
            if '"step"' in line:
                break
    began = time.monotonic()
    client.post(f"/v1/jobs/{id}/cancel")
    assert wait(client, id)["state"] == "cancelled"
    assert time.monotonic() - began < 8
    assert "long" not in list(store.tasks())


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("rows.xlsx", {}, "Send one of"),
        ("rows", {}, "Send one of"),
        ("rows.csv", {"sise": 3}, "sise"),
        ("rows.csv", {"epochs": 0}, "epochs"),
        ("rows.csv", {"epochs": 10**9}, "epochs"),
        ("rows.csv", {"method": "magic"}, "method"),
        ("rows.csv", {"from": "other@1"}, "no such task"),
        ("rows.csv", {"from": "plain@1", "positive": "odd"}, "A version keeps its own"),
    ],
)
def test_what_cannot_be_is_refused_before_it_is_taken(home, name, options, said) -> None:
    client, _, folder = home
    response = send(client, "no", rows(), name, **options)
    assert response.status_code in (404, 422)
    assert said in json.dumps(response.json())
    assert not list((folder / "state" / "data").iterdir())


def test_forms_that_are_none(home) -> None:
    client, _, folder = home
    path = "/v1/tasks/no/train"
    for request in (
        {"json": {}},
        {"content": b"x"},
        {"data": {"options": "{}"}},
        {"files": {"other": ("rows.csv", "text,label\n")}},
        {"files": [("file", ("a.csv", "x")), ("file", ("b.csv", "x"))]},
        {"files": {"file": ("rows.csv", rows())}, "data": {"options": "{"}},
        {"files": {"file": ("rows.csv", rows())}, "data": {"options": "[]"}},
        {"files": {"file": ("rows.csv", rows())}, "data": {"options": "x" * 100_000}},
        {"content": b"--x\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
        {"content": b"--x\r\n", "headers": {"Content-Type": "multipart/form-data"}},
    ):
        response = client.post(path, **request)
        assert response.status_code == 422, (request, response.text)
        assert response.json()["error"]["code"] == "invalid"
    assert not list((folder / "state" / "data").iterdir())


def test_inspect_shows_what_a_file_holds(home) -> None:
    client, _, folder = home
    text = rows() + ",\nlast one,\n"
    found = client.post("/v1/inspect", files={"file": ("rows.csv", text)}).json()
    assert found["columns"] == ["text", "label"]
    assert (found["text_column"], found["label_column"]) == ("text", "label")
    assert found["kind"] == "classification"
    assert set(found["labels"]) == {"odd", "even"}
    assert [each["row"] for each in found["problems"]] == [49, 50]
    assert found["bad_rows"] == 2
    assert len(found["preview"]) == 20
    assert found["error"] is None
    options = {"text_column": "label", "label_column": "text"}
    other = client.post(
        "/v1/inspect",
        files={"file": ("rows.csv", text)},
        data={"options": json.dumps(options)},
    ).json()
    assert other["text_column"] == "label" or other["error"]
    nothing = client.post("/v1/inspect", files={"file": ("rows.csv", "a,b\n1,2\n")}).json()
    assert nothing["error"]["message"]
    assert nothing["columns"] == ["a", "b"]
    wide = client.post("/v1/inspect", files={"file": ("rows.csv", "text,label\n".encode("utf-16"))})
    assert "options.encoding utf-16" in wide.text
    pairs = client.post(
        "/v1/inspect",
        files={"file": ("rows.csv", text)},
        data={"options": json.dumps({"kind": "pair-classification"})},
    ).json()
    assert pairs["error"]["hint"] == "Name both: options.text_column and options.pair_column."
    assert not list((folder / "state" / "uploads").iterdir())


def test_hostile_files_are_looked_at_and_survived(home) -> None:
    client, _, folder = home
    for name, raw in (
        ("a.parquet", b"PAR1" + b"\0" * 100),
        ("a.csv", b"\0" * 1000),
        ("a.csv", b"text,label\n" + b'"' * 10_000),
        ("a.jsonl", b"[" * 100_000),
        ("a.json", b'{"data": ' + b"[" * 100_000),
        ("a.csv", b""),
    ):
        response = client.post("/v1/inspect", files={"file": (name, raw)})
        assert response.status_code in (200, 422), response.text
        assert str(folder) not in response.text
        if response.status_code == 200:
            assert response.json()["error"]
    assert client.get("/healthz").status_code == 200


def test_uploads_are_bounded(tmp_path, encoder) -> None:
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}})
    quotas = Quotas(upload_bytes=2_000_000, rows=20, tasks=1)
    key = Keys(store).create("default", quotas=quotas)
    with running(store, tmp_path / "state", jobs=True) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        big = b"text,label\n" + b"a" * 4_000_000
        for path in ("/v1/inspect", "/v1/tasks/plain/train"):
            response = client.post(path, files={"file": ("a.csv", big)})
            assert response.status_code == 413
        assert not list((tmp_path / "state" / "data").iterdir())
        response = send(client, "second", rows())
        assert response.status_code == 429
        assert "1 tasks" in response.json()["error"]["message"]
        job = wait(client, send(client, "plain", rows()).json()["id"])
        assert job["state"] == "failed"
        assert "20 at most" in job["error"]["message"]


def test_jobs_of_others_are_not_there(tmp_path, encoder) -> None:
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}})
    keys = {name: Keys(store).create(name) for name in ("acme", "other")}
    with running(store, tmp_path / "state", jobs=True) as client:
        mine = {"Authorization": f"Bearer {keys['acme']}"}
        theirs = {"Authorization": f"Bearer {keys['other']}"}
        job = client.post(
            "/v1/tasks/t/train", files={"file": ("a.csv", "text,label\n")}, headers=mine
        ).json()
        assert client.get(f"/v1/jobs/{job['id']}", headers=mine).status_code == 200
        for method, path in (
            ("GET", f"/v1/jobs/{job['id']}"),
            ("GET", f"/v1/jobs/{job['id']}/events"),
            ("POST", f"/v1/jobs/{job['id']}/cancel"),
        ):
            assert client.request(method, path, headers=theirs).status_code == 404
        assert client.get("/v1/jobs", headers=theirs).json() == {"jobs": []}


def test_a_service_without_jobs_says_so(client) -> None:
    response = client.get("/v1/jobs")
    assert response.status_code == 503
    assert "trains no tasks" in response.json()["error"]["message"]


def arguments_of(file: str, **changes) -> dict:
    return {
        "task": "parity",
        "files": {"train": file},
        "reading": {},
        "learning": {},
        "rows": 1_000,
        "max_rows": None,
        **changes,
    }


def test_reading_stops_where_the_room_ends(tmp_path, monkeypatch) -> None:
    """A file of a few hundred bytes may unpack to gigabytes."""
    text = pa.array(["a" * 900_000, "b" * 900_000])
    codes = pa.array([i % 2 for i in range(400)], pa.int32())
    columns = {"text": pa.DictionaryArray.from_arrays(codes, text), "label": ["x", "y"] * 200}
    parquet.write_table(
        pa.table(columns), tmp_path / "a.parquet", compression="zstd", store_schema=False
    )
    (tmp_path / "b.csv").write_text(rows(48))
    seen = []
    take = Room.take
    monkeypatch.setattr(Room, "take", lambda self, *row: (seen.append(1), take(self, *row)))
    with pytest.raises(TooLarge, match=r"more than 200,000,000 characters"):
        _read(arguments_of("a.parquet"), tmp_path)
    assert len(seen) == 223
    seen.clear()
    with pytest.raises(TooLarge, match=r"more than 20 rows; 20 at most"):
        _read(arguments_of("b.csv", rows=20), tmp_path)
    assert len(seen) == 21
    both = {"train": "b.csv", "dev": "b.csv"}
    with pytest.raises(TooLarge, match="more than 60 rows"):
        _read(arguments_of("b.csv", files=both, rows=60), tmp_path)


def test_too_much_memory_is_said_and_not_tried_again(tmp_path, monkeypatch) -> None:
    parquet.write_table(pa.table({"text": ["a"], "label": ["x"]}), tmp_path / "a.parquet")

    def fail(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", fail)
    with pytest.raises(TooLarge, match=r"took more than 2\.1 GB of memory"):
        _read(arguments_of("a.parquet"), tmp_path)


def test_a_job_that_is_run_twice_publishes_once(tmp_path, encoder) -> None:
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}})
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.csv").write_text(rows())
    arguments = {
        "bank": str(tmp_path / "bank"),
        "base": None,
        "task": "acme/parity",
        "job": "job",
        "folder": str(folder),
        "files": {"train": "train.csv"},
        "reading": {},
        "learning": {**QUICK, "seed": 0},
        "even_if_worse": False,
        "rows": 1000,
        "max_rows": None,
    }
    first = work(arguments, lambda _: None)
    second = work(arguments, lambda _: None)
    assert first["version"] == second["version"] == 1
    assert len(store.record("acme/parity").versions) == 1
    # Killed between the publication and the note of it: the same.
    note = json.loads((folder / "published.json").read_text())
    (folder / "published.json").write_text(json.dumps({**note, "result": {}}))
    assert work(arguments, lambda _: None)["version"] == 1
    assert len(store.record("acme/parity").versions) == 1
    assert Path(folder / "lock").exists()
