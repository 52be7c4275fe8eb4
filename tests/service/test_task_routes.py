"""Tasks over HTTP: listed, shown, rolled back, removed, carried; each tenant its own."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
from contextlib import ExitStack

import pytest

from adapterbank.compute.protocol import Event
from adapterbank.service.auth import Keys, Quotas
from adapterbank.store.archive import read_archive
from service.conftest import make_bank, running
from service.test_jobs import Stage, until
from serving.tasks import publish

TEXT = "wa wb wc"
OWN = ["answers", "pairs", "plain", "stars", "tags"]
NAMES = [
    "..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%252e%252e%252fbank",
    "a%00b",
    "a%5cb",
    "a:b",
    "UPPER",
    "a" * 65,
    "a..b",
    "plain@0",
    "plain@x",
    "%20",
    "ä",
]


@pytest.fixture
def home(tmp_path, encoder):
    """A bank that may be changed, its store and a client without keys."""
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}, "stars": {"kind": "regression"}})
    with running(store, tmp_path / "state") as client:
        yield store, client


def test_the_list_has_everything_of_the_tenant(client, as_key) -> None:
    found = client.get("/v1/tasks").json()
    assert [each["task"] for each in found["tasks"]] == [
        "answers",
        "pairs",
        "plain",
        "stars",
        "tags",
    ]
    assert found["damaged"] == []
    assert found["next"] is None
    assert "/" not in found["base"]["name"]
    acme = client.get("/v1/tasks", headers=as_key("acme")).json()
    assert [each["task"] for each in acme["tasks"]] == ["plain", "secret"]


def test_the_list_comes_in_pages(client) -> None:
    names, after = [], ""
    while after is not None:
        page = client.get("/v1/tasks", params={"after": after, "limit": 2}).json()
        assert len(page["tasks"]) <= 2
        names += [each["task"] for each in page["tasks"]]
        after = page["next"]
    assert names == OWN


def test_a_task_is_shown_without_places_of_the_machine(client, encoder) -> None:
    response = client.get("/v1/tasks/plain")
    found = response.json()
    assert (found["task"], found["version"], found["kind"]) == ("plain", 1, "classification")
    assert found["labels"] == ["no", "perhaps", "yes"]
    assert encoder.name not in response.text
    assert "probes" not in found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/tasks/{}"),
        ("DELETE", "/v1/tasks/{}"),
        ("GET", "/v1/tasks/{}/package"),
        ("POST", "/v1/tasks/{}/predict"),
    ],
)
def test_strange_names_open_nothing(client, name, method, path) -> None:
    body = {"json": {"inputs": [TEXT]}} if method == "POST" else {}
    response = client.request(method, path.format(name), **body)
    assert 400 <= response.status_code < 500
    assert "error" in response.json()


def test_versions_and_rollback(home, encoder) -> None:
    store, client = home
    first = client.post("/v1/tasks/plain/predict", json={"inputs": [TEXT]}).json()
    publish(store, encoder, "plain", 77)
    second = client.post("/v1/tasks/plain/predict", json={"inputs": [TEXT]}).json()
    assert (first["version"], second["version"]) == (1, 2)
    assert first["predictions"] != second["predictions"]
    found = client.get("/v1/tasks/plain/versions").json()
    assert found["current"] == 2
    assert [each["version"] for each in found["versions"]] == [1, 2]
    assert "dev" in found["versions"][0]
    back = client.post("/v1/tasks/plain/rollback", json={"version": 1})
    assert back.json() == {"task": "plain", "version": 1}
    third = client.post("/v1/tasks/plain/predict", json={"inputs": [TEXT]}).json()
    assert third == first
    for bad, status in ((9, 404), (0, 422), (1.5, 422), (None, 422)):
        response = client.post("/v1/tasks/plain/rollback", json={"version": bad})
        assert response.status_code == status


def test_removed_and_brought_back(home) -> None:
    _, client = home
    assert client.delete("/v1/tasks/plain").json() == {
        "task": "plain",
        "removed": True,
        "purged": False,
    }
    assert client.get("/v1/tasks/plain").status_code == 404
    assert client.delete("/v1/tasks/plain").status_code == 404
    assert client.post("/v1/tasks/plain/rollback", json={"version": 1}).status_code == 200
    assert client.get("/v1/tasks/plain").status_code == 200


def test_purged_bytes_are_gone(home) -> None:
    store, client = home
    folder = store.files.local / "tasks" / "default" / "plain" / "packages"
    assert list(folder.iterdir())
    assert client.delete("/v1/tasks/plain?purge=true").json()["purged"]
    assert not list(folder.rglob("*"))
    assert client.post("/v1/tasks/plain/rollback", json={"version": 1}).status_code == 404
    assert client.get("/v1/tasks/stars").status_code == 200


def test_what_was_sent_is_purged_though_nothing_was_published(tmp_path, encoder) -> None:
    store, stage = make_bank(tmp_path / "bank", encoder, {"plain": {}}), Stage()
    with running(store, tmp_path / "state", jobs=True, jobs_on=stage) as client:
        job = client.post(
            "/v1/tasks/new/train",
            files={"file": ("a.csv", "text,label\na secret,x\n")},
            data={"options": '{"keep_data": true}'},
        ).json()
        stage.next()
        payload = {"kind": "DataError", "message": "Too few.", "hint": "", "stderr": ""}
        stage.tell(job["id"], "failed", payload)
        until(lambda: client.get(f"/v1/jobs/{job['id']}").json()["state"] == "failed")
        assert list((tmp_path / "state" / "data").rglob("*.csv"))
        assert client.delete("/v1/tasks/new").status_code == 404
        assert client.delete("/v1/tasks/new?purge=true").json()["purged"]
        assert not list((tmp_path / "state" / "data").iterdir())
        assert client.delete("/v1/tasks/new?purge=true").status_code == 404


def test_a_tenant_follows_so_many_jobs_at_once(tmp_path, encoder) -> None:
    store, stage = make_bank(tmp_path / "bank", encoder, {"plain": {}}), Stage()
    with running(store, tmp_path / "state", jobs=True, jobs_on=stage) as client:
        file = ("a.csv", "text,label\na,x\n")
        job = client.post("/v1/tasks/plain/train", files={"file": file}).json()
        stage.next()
        stage.tell(job["id"], "done", {"version": 2})
        streams = client.app.state.service.streams
        with ExitStack() as followed:
            for _ in range(streams.most):
                followed.enter_context(streams.place("default"))
            response = client.get(f"/v1/jobs/{job['id']}/events")
            assert (response.status_code, response.json()["error"]["code"]) == (429, "busy")
        assert "done" in client.get(f"/v1/jobs/{job['id']}/events").text


def test_a_quota_of_tasks_holds_for_those_that_wait_to_be_learnt(tmp_path, encoder) -> None:
    store, stage = make_bank(tmp_path / "bank", encoder, {"plain": {}}), Stage()
    key = Keys(store).create("default", quotas=Quotas(tasks=3))
    with running(store, tmp_path / "state", jobs=True, jobs_on=stage) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        found = [
            client.post(f"/v1/tasks/{task}/train", files={"file": ("a.csv", "text,label\na,x\n")})
            for task in ("a", "b", "c", "b", "plain", "d")
        ]
        assert [each.status_code for each in found] == [202, 202, 429, 202, 202, 429]
        assert client.post("/v1/tasks/e/package", content=b"x").status_code == 429


def test_a_job_that_publishes_as_its_task_is_purged_leaves_nothing(tmp_path, encoder) -> None:
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}})

    class Late(Stage):
        """In its last steps when it is told to end."""

        def cancel(self, id: str) -> bool:
            state = store.runs("plain") / id
            state.mkdir(parents=True)
            (state / "state.safetensors").write_bytes(b"x")
            publish(store, encoder, "plain", 9)
            self.queues[id].put(Event(id, "done", {"task": "plain", "version": 2}))
            return True

    stage = Late()
    with running(store, tmp_path / "state", jobs=True, jobs_on=stage) as client:
        client.post("/v1/tasks/plain/train", files={"file": ("a.csv", "text,label\na,x\n")})
        stage.next()
        assert client.delete("/v1/tasks/plain?purge=true").json()["purged"]
        assert client.get("/v1/tasks/plain").status_code == 404
    assert not list((tmp_path / "bank").rglob("*.safetensors"))


def test_a_package_goes_out_and_comes_in_unchanged(home, tmp_path) -> None:
    store, client = home
    response = client.get("/v1/tasks/plain/package")
    assert response.headers["Content-Type"] == "application/gzip"
    assert 'filename="plain-1.tar.gz"' in response.headers["Content-Disposition"]
    file = tmp_path / "it.tar.gz"
    file.write_bytes(response.content)
    assert read_archive(file).files == store.packed(store.find("plain")).files
    assert not list((tmp_path / "state" / "uploads").iterdir())


@pytest.mark.parametrize("wanted", ["bytes=zzz", "bytes=999999999-", "bytes=0-9"])
def test_a_package_goes_out_whole_and_leaves_nothing_behind(home, wanted, tmp_path) -> None:
    _, client = home
    whole = client.get("/v1/tasks/plain/package").content
    response = client.get("/v1/tasks/plain/package", headers={"Range": wanted})
    assert (response.status_code, response.content) == (200, whole)
    assert response.headers["Content-Length"] == str(len(whole))
    assert not list((tmp_path / "state" / "uploads").iterdir())


def test_old_uploads_are_swept_at_the_start(tmp_path, encoder) -> None:
    store = make_bank(tmp_path / "bank", encoder, {"plain": {}})
    for name, age in (("old", 2 * 24 * 3600), ("young", 3600)):
        folder = tmp_path / "state" / "uploads" / name
        folder.mkdir(parents=True)
        (folder / "file.csv").write_text("rows")
        os.utime(folder, (time.time() - age,) * 2)
    with running(store, tmp_path / "state"):
        assert [path.name for path in (tmp_path / "state" / "uploads").iterdir()] == ["young"]


@pytest.mark.parametrize("way", ["corrupt", "rubbish", "empty", "link", "outside"])
def test_hostile_packages_are_refused(home, way, tmp_path) -> None:
    store, client = home
    good = client.get("/v1/tasks/plain/package").content
    body = {
        "corrupt": good[: len(good) // 2],
        "rubbish": b"this is not an archive",
        "empty": b"",
        "link": _archive(_member("manifest.json", tarfile.SYMTYPE, "/etc/passwd")),
        "outside": _archive(_member("../../manifest.json")),
    }[way]
    response = client.post("/v1/tasks/new/package", content=body)
    assert response.status_code == 422, response.text
    assert "error" in response.json()
    assert str(tmp_path) not in response.text
    assert "new" not in list(store.tasks())
    assert not list((tmp_path / "state" / "uploads").iterdir())


def test_a_package_in_a_form_is_told_how_it_is_sent(client) -> None:
    response = client.post("/v1/tasks/new/package", files={"file": b"x"})
    assert response.status_code == 422
    assert response.json()["error"]["message"] == "A form came, and a package is the body itself."
    assert "--data-binary @new.tar.gz" in response.json()["error"]["hint"]


def test_a_damaged_package_fails_its_own_requests_alone(home) -> None:
    store, client = home
    (package,) = (store.files.local / "tasks" / "default" / "plain" / "packages").iterdir()
    weights = package / "weights.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-5] ^= 1
    weights.write_bytes(raw)
    response = client.post("/v1/tasks/plain/predict", json={"inputs": [TEXT]})
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "package_damaged"
    good = client.post("/v1/tasks/stars/predict", json={"inputs": [TEXT]})
    assert good.status_code == 200
    (package / "manifest.json").write_text("{}")
    found = client.get("/v1/tasks/plain/versions").json()
    assert found["versions"][0]["damaged"]  # so that another can be chosen
    found = client.get("/v1/tasks").json()
    assert found["damaged"] == ["plain"]
    assert [each["task"] for each in found["tasks"]] == ["stars"]


def test_the_card_is_a_page_without_scripts(client) -> None:
    response = client.get("/v1/tasks/plain/card")
    assert response.headers["Content-Type"].startswith("text/html")
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert "<script" not in response.text


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def _archive(*members: tarfile.TarInfo) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO())
    return gzip.compress(raw.getvalue())
