"""A bank in an object store: exclusive creation, long lists, several writers, copies kept here."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from adapterbank.errors import BankError, PackageError, TaskNotFound
from adapterbank.store.files import open_files
from adapterbank.store.store import Store
from store.samples import BASE, manifest, tensors


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTERBANK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def url(bucket: str) -> str:
    return f"{bucket}/bank"


def put(store: Store, name: str = "spam", seed: int = 0) -> int:
    return store.publish(name, manifest(max_length=seed + 1), tensors(seed=seed)).version.version


def seed_of(store: Store, reference: str = "spam") -> int:
    package = store.load(store.find(reference))
    seed = package.manifest.max_length - 1
    assert all(package.tensors[name].equal(tensor) for name, tensor in tensors(seed=seed).items())
    return seed


def test_a_file_is_created_once(url) -> None:
    files = open_files(url)
    assert files.create("records/1.json", b"mine")
    assert not open_files(url).create("records/1.json", b"yours")
    assert files.read("records/1.json", 100) == b"mine"


def test_of_many_that_create_one_wins(url) -> None:
    won: list[int] = []
    barrier = threading.Barrier(6)

    def create(number: int) -> None:
        files = open_files(url)
        barrier.wait()
        if files.create("records/1.json", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=create, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = won
    assert open_files(url).read("records/1.json", 100) == str(winner).encode()


@pytest.mark.parametrize(
    "failed",
    [
        TimeoutError(),
        OSError(5, "Input/output error"),
        EndpointConnectionError(endpoint_url="http://x"),  # these two are no OSError
        NoCredentialsError(),
    ],
)
def test_a_store_that_cannot_be_reached_is_said(url, monkeypatch, failed) -> None:
    store = Store.create(url, BASE)
    put(store)

    def fail(*_: object, **__: object) -> None:
        raise failed

    for name in ("ls", "modified", "cat_file", "pipe_file", "rm"):
        monkeypatch.setattr(store.files._system, name, fail)
    for act in (
        lambda: store.files.names("tasks"),
        lambda: store.files.age("bank.json"),
        lambda: store.files.open("bank.json"),
        lambda: store.files.read("bank.json", 9),
        lambda: Store.open(url),
        lambda: store.find("spam"),
        lambda: list(store.tasks()),
    ):
        with pytest.raises(BankError, match=r"cannot be read: \w"):
            act()
    for act in (
        lambda: store.files.create("x", b""),
        lambda: store.files.add_folder("x", {"x": b""}),
        lambda: store.files.remove("x"),
    ):
        with pytest.raises(BankError, match=r"cannot be written to: \w"):
            act()


@pytest.mark.parametrize("call", ["ls", "cat_file"])
def test_records_that_may_not_be_read_are_their_own_tasks_trouble(url, monkeypatch, call) -> None:
    put(Store.create(url, BASE))
    put(Store.open(url), "ham", seed=1)
    store = Store.open(url)
    asked = getattr(store.files._system, call)

    def refuse(path: str, **options: Any) -> Any:
        if "/spam/records" in path:
            raise PermissionError("Access Denied")
        return asked(path, **options)

    monkeypatch.setattr(store.files._system, call, refuse)
    assert list(store.tasks()) == ["ham", "spam"]
    assert seed_of(store, "ham") == 1
    with pytest.raises(PackageError, match="record of task 'spam' cannot be read: Access Denied"):
        store.find("spam")


def test_two_publishers_at_once_lose_nothing(url) -> None:
    Store.create(url, BASE)
    found: dict[int, int] = {}

    def publish(seeds: range) -> None:
        store = Store.open(url)
        for seed in seeds:
            found[seed] = put(store, seed=seed)

    threads = [threading.Thread(target=publish, args=(range(6 * i, 6 * i + 6),)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = Store.open(url)
    assert sorted(found.values()) == list(range(1, 13))
    assert all(seed_of(store, f"spam@{version}") == seed for seed, version in found.items())


def test_lists_of_more_than_a_page(url) -> None:
    files = open_files(url)
    names = [f"{i:06}" for i in range(1_050)]  # a page of S3 has a thousand

    def create(some: list[str]) -> None:
        mine = open_files(url)
        for name in some:
            mine.create(f"tasks/default/{name}/x", b"")

    threads = [threading.Thread(target=create, args=(names[i::8],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files.names("tasks/default") == names


def test_what_another_writer_did_is_seen_at_once(url) -> None:
    """No listing is remembered."""
    one, other = Store.create(url, BASE), Store.open(url)
    put(one)
    assert seed_of(other) == 0
    put(other, seed=1)
    assert seed_of(one) == 1
    other.remove("spam")
    assert list(one.tasks()) == []


def test_patience_saves_requests_and_is_bounded(url, monkeypatch) -> None:
    store, other = Store.create(url, BASE), Store.open(url)
    store.log.patience = 0.5
    put(store)
    assert seed_of(store) == 0
    looks: list[str] = []
    names = store.files.names
    monkeypatch.setattr(store.files, "names", lambda path: looks.append(path) or names(path))
    for _ in range(5):
        store.find("spam")
    assert looks == []
    put(other, seed=1)
    deadline = time.monotonic() + 5
    began = time.monotonic()
    while seed_of(store) == 0:
        assert time.monotonic() < deadline
    assert time.monotonic() - began < 2
    assert seed_of(store.fresh()) == 1  # with nothing remembered
    put(store, seed=2)  # its own are seen at once, and made on top of others'
    assert seed_of(store) == 2
    assert store.find("spam").version.version == 3
    store.remove("spam")
    with pytest.raises(TaskNotFound):
        store.find("spam")


def counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of packages that are fetched."""
    fetched: list[str] = []
    opened = store.files.open

    def open_(path: str) -> Any:
        fetched.append(path.rpartition("/")[2])
        return opened(path)

    monkeypatch.setattr(store.files, "open", open_)
    return fetched


def test_a_package_is_fetched_once(url, tmp_path, monkeypatch) -> None:
    put(Store.create(url, BASE))
    store = Store.open(url)
    fetched = counted(store, monkeypatch)
    assert seed_of(store) == 0
    assert sorted(fetched) == ["manifest.json", "weights.safetensors"]
    assert seed_of(store) == 0
    store.manifest(store.find("spam"))
    assert len(fetched) == 2
    again = Store.open(url)
    fetched = counted(again, monkeypatch)
    assert seed_of(again) == 0  # from the copy of the process before
    assert fetched == []


def copies(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_a_damaged_copy_is_fetched_again(url, tmp_path) -> None:
    store = Store.create(url, BASE)
    put(store)
    assert seed_of(store) == 0
    for path in copies(tmp_path):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert seed_of(store) == 0
        assert path.read_bytes() == whole


def test_a_damaged_original_is_told(url, tmp_path) -> None:
    store = Store.create(url, BASE)
    put(store)
    entry = store.find("spam")
    place = f"tasks/default/spam/packages/{entry.version.package}/weights.safetensors"
    store.files.remove(place)
    with pytest.raises(PackageError, match="has lost its weights"):
        store.load(entry)


def test_purging_deletes_the_copies_too(url, tmp_path) -> None:
    store = Store.create(url, BASE)
    put(store)
    put(store, "ham", seed=1)
    assert (seed_of(store), seed_of(store, "ham")) == (0, 1)
    assert len(copies(tmp_path)) == 4
    store.remove("spam", purge=True)
    assert len(copies(tmp_path)) == 2
    Store.open(url).remove("ham", purge=True)
    assert copies(tmp_path) == []


def test_copies_of_what_others_purged_are_collected(url, tmp_path, monkeypatch) -> None:
    store = Store.create(url, BASE)
    put(store)
    assert seed_of(store) == 0
    monkeypatch.setenv("ADAPTERBANK_CACHE", str(tmp_path / "another machine"))
    Store.open(url).remove("spam", purge=True)
    assert len(copies(tmp_path)) == 2
    store.collect()
    assert copies(tmp_path) == []


def test_copies_of_what_is_damaged_are_kept(url, tmp_path) -> None:
    store = Store.create(url, BASE)
    put(store)
    put(store, "ham", seed=1)
    assert (seed_of(store), seed_of(store, "ham")) == (0, 1)
    store.files._system.pipe_file(store.files._at("tasks/default/ham/records/00000001.json"), b"{}")
    fresh = Store.open(url)
    assert fresh.collect() == 0
    assert len(copies(tmp_path)) == 4
    fresh.remove("spam", purge=True)
    assert len(copies(tmp_path)) == 2


def test_a_full_disk_keeps_nobody_from_reading(url, tmp_path, monkeypatch) -> None:
    store = Store.create(url, BASE)
    put(store)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("adapterbank.store.cache.appearing", full)
    assert seed_of(store) == 0
    assert copies(tmp_path) == []


def test_a_folder_of_this_machine_has_no_copies(tmp_path) -> None:
    store = Store.create(tmp_path / "bank", BASE)
    put(store)
    assert seed_of(store) == 0
    assert copies(tmp_path) == []
