"""The store: old or new and never half, nothing acknowledged lost, nothing learnt ever changed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapterbank.errors import (
    BankError,
    BankNotFound,
    ConfigError,
    PackageError,
    TaskNotFound,
    WrongBase,
)
from adapterbank.store import files as files_module
from adapterbank.store.manifest import BaseRecord
from adapterbank.store.record import NOTHING, Record, Version
from adapterbank.store.store import Store
from store.samples import BASE, manifest, tensors

FORK = multiprocessing.get_context("fork")


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a bank: a folder, the memory of this process behind fsspec, an object store."""
    if request.param == "folder":
        return str(tmp_path / "bank")
    if request.param == "memory":
        return f"memory://{uuid.uuid4()}"
    bucket: str = request.getfixturevalue("bucket")
    return f"{bucket}/bank"


@pytest.fixture
def store(url: str) -> Store:
    return Store.create(url, BASE)


@pytest.fixture
def local(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "bank", BASE)


def put(store: Store, name: str = "spam", seed: int = 0) -> int:
    return store.publish(name, manifest(max_length=seed + 1), tensors(seed=seed)).version.version


def mark(store: Store, reference: str = "spam") -> int:
    """Which of the packages above a version is."""
    package = store.load(store.find(reference))
    seed = package.manifest.max_length - 1
    assert all(package.tensors[name].equal(tensor) for name, tensor in tensors(seed=seed).items())
    return seed


# --- what it is for


def test_publish_find_and_load(store: Store, url: str) -> None:
    assert put(store) == 1
    assert put(store, seed=1) == 2
    assert put(store, "shop/spam", seed=2) == 1
    assert (mark(store), mark(store, "spam@1"), mark(store, "shop/spam@1")) == (1, 0, 2)
    again = Store.open(url)
    assert mark(again) == 1
    assert list(again.tasks()) == ["spam", "shop/spam"]
    assert list(again.tasks("shop")) == ["shop/spam"]
    assert list(again.tasks("nobody")) == []
    assert str(again.find("default/spam@1")) == "spam@1"
    info = again.info("spam")
    assert (info.version.version, [v.version for v in info.versions]) == (2, [1, 2])
    assert info.as_dict()["task"] == "spam"  # the bank's name, not the package's own
    if (home := Path(url)).is_dir():
        folder = home / "tasks" / "default" / "spam" / "packages" / info.version.package
        assert info.version.bytes == sum(file.stat().st_size for file in folder.iterdir())


def test_rollback_remove_and_purge(store: Store) -> None:
    for seed in range(3):
        put(store, seed=seed)
    store.rollback("spam", 1)
    assert (mark(store), mark(store, "spam@3")) == (0, 2)
    assert put(store, seed=3) == 4  # no number is given twice
    store.remove("spam")
    assert list(store.tasks()) == []
    for reference in ("spam", "spam@2"):
        with pytest.raises(TaskNotFound) as caught:
            store.find(reference)
        assert caught.value.message == "Task 'spam' was removed."
        assert caught.value.hint == "adapterbank rollback spam 4 brings it back."
    with pytest.raises(TaskNotFound):
        store.remove("spam")
    store.rollback("spam", 2)
    assert mark(store) == 1
    store.remove("spam", purge=True)
    with pytest.raises(TaskNotFound, match="The bank has no task 'spam'"):
        store.find("spam")
    with pytest.raises(TaskNotFound, match="The bank has no task 'spam'"):
        store.rollback("spam", 2)
    assert put(store) == 5


def test_purge_deletes_every_byte(local: Store, tmp_path: Path) -> None:
    secret = "a label that nobody may see again"
    local.publish("spam", manifest(labels=("no", secret), positive=""), tensors())
    put(local, "ham")
    runs = local.runs("spam")
    runs.mkdir(parents=True)
    (runs / "state.safetensors").write_text(secret)
    store_bytes = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert secret.encode() in store_bytes
    local.remove("spam", purge=True)
    left = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert not [path for path, content in left.items() if secret.encode() in content]
    assert not [path for path in left if "spam/packages" in str(path) or ".runs" in str(path)]
    assert mark(local, "ham") == 0


def test_nothing_that_was_published_is_ever_written_again(local: Store, tmp_path: Path) -> None:
    def contents() -> dict[str, bytes]:
        found = (p for p in (tmp_path / "bank" / "tasks").rglob("*") if p.is_file())
        return {str(path): path.read_bytes() for path in found}

    seen: dict[str, bytes] = {}
    for step in (
        lambda: put(local),
        lambda: put(local, "ham", 1),
        lambda: put(local, seed=2),
        lambda: local.rollback("spam", 1),
        lambda: local.remove("ham"),
        lambda: put(local, "ham", 3),
    ):
        step()
        now = contents()
        assert seen.items() <= now.items()
        seen = now


def test_unknown_names_and_versions(store: Store) -> None:
    put(store)
    with pytest.raises(TaskNotFound) as caught:
        store.find("eggs")
    assert str(caught.value) == (
        "The bank has no task 'eggs'. adapterbank tasks lists those it has."
    )
    with pytest.raises(TaskNotFound, match=r"Task 'spam' has no version 7\. It has: 1\."):
        store.find("spam@7")
    with pytest.raises(TaskNotFound, match=r"Task 'spam' has no version 7\. It has: 1\."):
        store.rollback("spam", 7)


HOSTILE = [
    "..", "../x", "a/../b", "/etc/passwd", "a\\b", "C:x", "a\0b", "a%2fb", "a%252fb", "", ".hidden",
    "a/b/c", "A", "ä", "a b", "-a", "a" * 65, "a..b", "default/", "/a", "a\n", "~", None, 3,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_could_lead_elsewhere_open_nothing(
    local: Store, name: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("something was opened")

    for method in ("read", "open", "create", "add_folder", "names", "remove"):
        monkeypatch.setattr(local.files, method, opened)
    for act in (
        lambda: local.find(name),
        lambda: local.record(name),
        lambda: put(local, name),
        lambda: local.rollback(name, 1),
        lambda: local.remove(name, purge=True),
        lambda: local.runs(name),
        lambda: list(local.tasks(f"{name}/x")),
    ):
        with pytest.raises(ConfigError, match=r"is not a t.*'s name"):
            act()


@pytest.mark.parametrize("version", ["0", "-1", "01", "1.0", "x", "", "1/..", "9" * 10, "１"])
def test_versions_are_whole_numbers_from_one(local: Store, version: str) -> None:
    put(local)
    with pytest.raises(ConfigError, match="names no version"):
        local.find(f"spam@{version}")


def test_foreign_folders_are_passed_by(local: Store, tmp_path: Path) -> None:
    put(local)
    for name in ("LOST+FOUND", ".DS_Store", "default/Old Stuff"):
        (tmp_path / "bank" / "tasks" / name).mkdir()
    assert list(local.tasks()) == ["spam"]
    assert local.collect() == 0


# --- one bank, one base


def test_a_bank_is_bound_to_its_base(store: Store, url: str) -> None:
    other = BaseRecord("bert-base-uncased", "c" * 64)
    with pytest.raises(WrongBase) as caught:
        Store.create(url, other)
    for part in ("minilm", "b" * 64, "bert-base-uncased", "c" * 64):
        assert part in caught.value.message
    with pytest.raises(WrongBase):
        store.publish("spam", manifest(base=other), tensors())
    assert list(store.tasks()) == []
    assert store.record("spam") == NOTHING
    assert Store.create(url, BASE).base == BASE  # the same again is the same bank


def test_no_bank_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "nowhere", tmp_path / "file", "memory://nowhere"):
        with pytest.raises(BankNotFound, match="There is no bank at"):
            Store.open(place)
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(BankError, match="There can be no bank at"):
        Store.create(tmp_path / "file", BASE)
    with pytest.raises(BankError, match="cannot be a bank: Protocol not known: nosuch"):
        Store.open("nosuch://x")


def test_a_service_that_refuses_at_once_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise EOFError("it hung up")  # a library's own kind of error

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(BankError, match="'sftp://x' cannot be a bank: it hung up"):
        Store.open("sftp://x")


# --- damage


def test_a_flipped_byte_of_a_record_or_of_the_bank_is_found(local: Store, tmp_path: Path) -> None:
    put(local)
    put(local, "ham", 1)
    home = tmp_path / "bank"
    for file, act in (
        (home / "tasks/default/spam/records/00000001.json", lambda: local.find("spam")),
        (home / "bank.json", lambda: Store.open(home)),
    ):
        whole = file.read_bytes()
        for place in range(len(whole)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises((PackageError, BankError), match="damaged"):
                act()
            assert mark(local, "ham") == 1
        file.write_bytes(whole)
        act()


def test_a_damaged_task_is_listed_and_can_be_purged(local: Store, tmp_path: Path) -> None:
    put(local)
    put(local, seed=1)
    (tmp_path / "bank/tasks/default/spam/records/00000002.json").write_text("{}")
    assert list(local.tasks()) == ["spam"]
    with pytest.raises(PackageError, match="purge the task and learn it again"):
        put(local)
    local.remove("spam", purge=True)
    assert list(local.tasks()) == []
    assert put(local) == 3  # at least as many as were ever given


def link_elsewhere(_: pytest.MonkeyPatch, record: Path) -> None:
    record.rename(record.with_name("elsewhere"))
    record.symlink_to("elsewhere")


def forbid_file(patch: pytest.MonkeyPatch, record: Path) -> None:
    """As when another user wrote it for himself; the tests may run as a user who reads all."""
    opened = files_module.open_plain

    def refuse(path: Path) -> Any:
        if path == record:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path)

    patch.setattr(files_module, "open_plain", refuse)


def forbid_folder(patch: pytest.MonkeyPatch, record: Path) -> None:
    listed = Path.iterdir

    def refuse(path: Path) -> Any:
        if path.is_relative_to(record.parent.parent):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return listed(path)

    patch.setattr(Path, "iterdir", refuse)


@pytest.mark.parametrize("harm", [link_elsewhere, forbid_file, forbid_folder])
def test_a_record_that_may_not_be_read_is_its_own_tasks_trouble(
    local: Store, tmp_path: Path, harm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(local)
    put(local, "ham", 1)
    with monkeypatch.context() as patch:
        harm(patch, tmp_path / "bank/tasks/default/spam/records/00000001.json")
        store = Store.open(tmp_path / "bank")
        for act in (lambda: store.find("spam"), lambda: put(store), lambda: store.remove("spam")):
            with pytest.raises(PackageError, match=r"record of task 'spam' cannot be read: \w"):
                act()
        assert list(store.tasks()) == ["ham", "spam"]
        assert store.kept() == {"ham@1"}
        assert store.collect(keep=1, older_than=0) == 0
        assert mark(store, "ham") == 1
    assert store.files.names("tasks/default/spam/packages")


def test_a_linked_record_can_be_purged(local: Store, tmp_path: Path, monkeypatch: Any) -> None:
    put(local)
    link_elsewhere(monkeypatch, tmp_path / "bank/tasks/default/spam/records/00000001.json")
    store = Store.open(tmp_path / "bank")
    store.remove("spam", purge=True)
    assert list(store.tasks()) == []
    assert put(store) == 2


FOREIGN = [
    "desktop.ini",
    "00000001.json~",
    "00000009 (copy).json",
    "9.json",
    "x.json",
    "٠٠٠٠٠٠٠٩.json",
]


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_among_the_records_are_passed_by(
    local: Store, tmp_path: Path, name: str
) -> None:
    put(local)
    records = tmp_path / "bank/tasks/default/spam/records"
    (records / name).write_text("x")
    assert mark(Store.open(tmp_path / "bank")) == 0
    assert put(local, seed=1) == 2
    (records / "00000002.json").write_text("x")  # and where there is damage besides
    local.remove("spam", purge=True)
    assert put(local, seed=2) == 3
    local.collect(older_than=0)
    assert sorted(path.name for path in records.iterdir()) == sorted(["00000004.json", name])


def test_a_record_that_could_not_be_read_again_is_not_written(
    local: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(local)
    size = len(local.record("spam").to_json())
    monkeypatch.setattr("adapterbank.store.log.MAX_BYTES", 2 * size)

    def fill() -> None:
        while True:
            put(local)

    with pytest.raises(BankError, match="Task 'spam' keeps too many versions") as caught:
        fill()
    assert caught.value.hint == "Let older ones go: adapterbank gc --keep N."
    store = Store.open(tmp_path / "bank")
    kept = store.find("spam").version.version
    assert [each.version for each in store.record("spam").versions] == [*range(1, kept + 1)]
    store.collect(keep=1)
    assert put(store) == kept + 1


def test_collect_passes_by_what_is_damaged_and_says_so(
    local: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("eggs", "ham", "spam"):
        for seed in range(2):
            put(local, name, seed)
    tasks = tmp_path / "bank/tasks/default"
    (tasks / "ham/records/00000002.json").write_text("{}")
    store = Store.open(tmp_path / "bank")
    assert store.kept() == {"eggs@1", "eggs@2", "spam@1", "spam@2"}
    assert store.collect(keep=1, older_than=0) == 2
    left = {name: len(list((tasks / name / "packages").iterdir())) for name in store.tasks()}
    assert left == {"eggs": 1, "ham": 2, "spam": 1}
    assert len(list((tasks / "ham/records").iterdir())) == 2
    (said,) = caplog.messages
    assert said.startswith("Nothing of task 'ham' was deleted. The record of task 'ham' is damaged")


def test_a_package_swapped_for_another_good_one_is_found(local: Store, tmp_path: Path) -> None:
    put(local)
    put(local, seed=1)
    first, second = (local.find(f"spam@{v}").version.package for v in (1, 2))
    packages = tmp_path / "bank/tasks/default/spam/packages"
    shutil.rmtree(packages / first)
    shutil.copytree(packages / second, packages / first)
    with pytest.raises(PackageError, match="The manifest has digest"):
        local.load(local.find("spam@1"))
    assert mark(local) == 1
    shutil.rmtree(packages / second)
    with pytest.raises(PackageError, match=r"spam@2 has lost its manifest.json"):
        local.load(local.find("spam"))


def test_a_record_in_the_place_of_another_is_found(local: Store, tmp_path: Path) -> None:
    put(local)
    records = tmp_path / "bank/tasks/default/spam/records"
    shutil.copy(records / "00000001.json", records / "00000009.json")
    with pytest.raises(PackageError, match="is not in its place"):
        local.find("spam")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"current": 3}, "its current version is not kept"),
        ({"highest": 1}, "its versions are out of order"),
        ({"versions": (Version(2, "x", 1, ""), Version(1, "x", 1, ""))}, "out of order"),
        ({"action": "explode"}, "record.action is 'explode'"),
        ({"sequence": "1"}, "record.sequence is '1'"),
    ],
)
def test_records_that_cannot_be_are_refused(changes: dict[str, Any], problem: str) -> None:
    fine = NOTHING.publish("a" * 64, 10).publish("b" * 64, 10)
    assert Record.from_json(fine.to_json(), "spam") == fine
    with pytest.raises(PackageError, match=problem):
        Record.from_json(replace(fine, **changes).to_json(), "spam")


# --- crashes: each call that changes the disk is a point to be killed at

CALLS = ("mkdir", "fsync", "rename", "link", "unlink")
BEFORE, AFTER = 0, 9  # the package that is there, the package that is being published


class Step:
    """Stands in for an operating-system call: counts, and at one count does something else."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.left, self.act = at, act

    def watch(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == -1:
                self.act()
            return call(*args, **kwargs)

        return run


def publish_with(at: int, act: Callable[[], None], home: Path) -> None:
    """Publish, with `act` in place before the call number `at`, in a process of its own."""
    step = Step(at, act)
    for name in CALLS:
        setattr(os, name, step.watch(getattr(os, name)))
    put(Store.open(home), seed=AFTER)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_killed(at: int, home: Path) -> bool:
    """Publish in a process that is killed at a step; whether it got through."""
    process = FORK.Process(target=publish_with, args=(at, die, home))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode == 0


def test_killed_at_each_step_of_a_publish(tmp_path: Path) -> None:
    outcomes = []
    for at in range(100):
        home = tmp_path / str(at)
        store = Store.create(home, BASE)
        put(store, seed=BEFORE)
        finished = run_killed(at, home)
        found = mark(Store.open(home))
        assert found == AFTER if finished else found in (BEFORE, AFTER)
        outcomes.append(found)
        # What was left behind hinders nobody, and goes.
        assert put(store, seed=5) == store.record("spam").highest
        assert mark(store, "spam@1") == BEFORE
        store.collect(older_than=0)
        kept = {each.package for each in store.record("spam").versions}
        assert set(store.files.names("tasks/default/spam/packages")) == kept
        assert not list((home / files_module.UNFINISHED).iterdir())
        if finished:
            break
    assert outcomes.count(BEFORE) >= 8  # of steps before the record
    assert outcomes == sorted(outcomes)  # and from one step on it is the new one


def test_the_first_publish_of_a_new_bank_killed_at_each_step(tmp_path: Path) -> None:
    for at in range(100):
        home = tmp_path / str(at)
        Store.create(home, BASE)
        finished = run_killed(at, home)
        store = Store.open(home)
        if finished:
            assert mark(store) == AFTER
            break
        if list(store.tasks()):
            assert mark(store) == AFTER
        assert put(store, seed=5) in (1, 2)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_a_disk_that_refuses_at_each_step(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(number, os.strerror(number))

    refused = 0
    for at in range(100):
        home = tmp_path / str(at)
        put(Store.create(home, BASE), seed=BEFORE)
        step, problem = Step(at, refuse), None
        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, step.watch(getattr(os, name)))
            try:
                put(Store.open(home), seed=AFTER)
            except BankError as error:
                problem = error
        found = mark(Store.open(home))
        if problem is None:
            assert found == AFTER  # told that it is kept, and it is
        else:
            refused += 1
            assert os.strerror(number) in problem.message
            assert problem.hint.startswith("Nothing that was there has changed")
            assert found in (BEFORE, AFTER)
        if step.left >= 0:
            break
    assert refused >= 8


def test_a_read_only_bank_is_read_and_not_written(local: Store, monkeypatch: Any) -> None:
    put(local)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("mkdir", "link", "rename"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(Path, "open", refuse)
    assert mark(local) == 0
    with pytest.raises(BankError, match="cannot be written to: Read-only file system"):
        put(local)
    with pytest.raises(BankError, match="cannot be written to: Read-only file system"):
        local.remove("spam")


def test_a_clock_that_jumps_back_loses_nothing(local: Store, monkeypatch: Any) -> None:
    put(local)
    monkeypatch.setattr("adapterbank.store.record.now_text", lambda: "1970-01-01T00:00:00Z")
    assert put(local, seed=1) == 2
    assert mark(local) == 1
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert local.collect() == 0  # what seems younger than now stays
    assert mark(local) == 1


# --- several at once


def publish_many(home: Path, name: str, seeds: range, results: Any) -> None:
    store = Store.open(home)
    for seed in seeds:
        results.put((seed, put(store, name, seed)))


def test_publishers_of_one_name_at_once(tmp_path: Path) -> None:
    home, each = tmp_path / "bank", 8
    Store.create(home, BASE)
    results = FORK.Queue()
    workers = [
        FORK.Process(
            target=publish_many, args=(home, "spam", range(each * i, each * (i + 1)), results)
        )
        for i in range(4)
    ]
    for worker in workers:
        worker.start()
    found = dict(results.get() for _ in range(4 * each))
    for worker in workers:
        worker.join()
    store = Store.open(home)
    assert sorted(found.values()) == list(range(1, 4 * each + 1))
    assert all(mark(store, f"spam@{version}") == seed for seed, version in found.items())


def test_readers_during_publishes_see_old_or_new(tmp_path: Path) -> None:
    home = tmp_path / "bank"
    store = Store.create(home, BASE)
    put(store)
    results = FORK.Queue()
    writer = FORK.Process(target=publish_many, args=(home, "spam", range(1, 30), results))
    writer.start()
    seen = []
    while writer.is_alive() or not seen:
        seen.append(mark(store))
        assert list(store.tasks()) == ["spam"]
    writer.join()
    assert seen == sorted(seen)
    assert mark(store) == 29
    assert {results.get() for _ in range(29)} == {(seed, seed + 1) for seed in range(1, 30)}


def test_a_rollback_that_loses_a_race_is_made_on_top(store: Store, monkeypatch: Any) -> None:
    put(store)
    put(store, seed=1)
    create = store.files.create

    def race(path: str, content: bytes) -> bool:
        monkeypatch.setattr(store.files, "create", create)
        put(store, seed=2)
        return create(path, content)

    monkeypatch.setattr(store.files, "create", race)
    store.rollback("spam", 1)
    assert mark(store) == 0
    assert [each.version for each in store.record("spam").versions] == [1, 2, 3]


def test_what_is_published_as_the_task_is_purged_is_kept(store: Store, url: str) -> None:
    """Between its package and its record, and between the purge's record and its deletions."""
    put(store)
    put(store, seed=1)
    other = Store.open(url)
    add_folder, remove = other.files.add_folder, store.files.remove

    def purged_after(*content: Any) -> None:
        other.files.add_folder = add_folder
        add_folder(*content)
        store.remove("spam", purge=True)
        store.collect(older_than=0)

    other.files.add_folder = purged_after
    assert put(other, seed=2) == 3
    assert mark(Store.open(url)) == 2

    def published_before(*asked: Any) -> bool:
        store.files.remove = remove
        put(other, seed=3)
        return remove(*asked)

    store.files.remove = published_before
    store.remove("spam", purge=True)
    assert mark(Store.open(url)) == 3
    assert len(store.files.names("tasks/default/spam/packages")) == 1


DELETIONS = {
    "purge": lambda store: store.remove("spam", purge=True),
    "collect": lambda store: store.collect(keep=1, older_than=0),
}


@pytest.mark.parametrize("deletion", DELETIONS)
def test_the_same_package_that_is_published_as_it_is_deleted_is_kept(
    store: Store, url: str, deletion: str
) -> None:
    put(store)
    put(store, seed=1)
    other, remove = Store.open(url), store.files.remove

    def published_before(path: str, *asked: Any) -> bool:
        if path.endswith(first):
            store.files.remove = remove
            put(other)
        return remove(path, *asked)

    first = store.find("spam@1").version.package
    store.files.remove = published_before
    DELETIONS[deletion](store)
    assert store.files.remove == remove
    assert mark(Store.open(url), "spam@3") == 0


@pytest.mark.parametrize("deletion", DELETIONS)
@pytest.mark.parametrize("moment", ["after the first look", "while it is out of sight"])
def test_the_same_package_that_is_published_after_the_last_look_is_kept(
    local: Store, tmp_path: Path, deletion: str, moment: str
) -> None:
    put(local)
    put(local, seed=1)
    other, remove = Store.open(tmp_path / "bank"), local.files.remove
    first = local.find("spam@1").version.package
    looks: list[bool] = []

    def remove_beside(path: str, unless: Callable[[], bool] = lambda: False) -> bool:
        def look() -> bool:
            if looks and moment == "while it is out of sight":
                assert first not in local.files.names("tasks/default/spam/packages")
                put(other)
            looks.append(unless())
            if looks == [False] and moment == "after the first look":
                put(other)
            return looks[-1]

        return remove(path, look if path.endswith(first) else unless)

    local.files.remove = remove_beside
    DELETIONS[deletion](local)
    assert looks == [False, True]
    assert mark(Store.open(tmp_path / "bank"), "spam@3") == 0
    assert not list((tmp_path / "bank" / files_module.UNFINISHED).iterdir())


def test_a_folder_is_back_if_it_cannot_be_told_whether_it_is_to_stay(local: Store) -> None:
    put(local)
    looks = iter([lambda: False, lambda: 1 / 0])
    package = f"tasks/default/spam/packages/{local.find('spam').version.package}"
    with pytest.raises(ZeroDivisionError):
        local.files.remove(package, lambda: next(looks)())
    assert mark(local) == 0
    assert local.files.remove(package)
    assert not local.files.names(package)


def test_a_folder_that_goes_as_it_is_added_again_is_there(local: Store, monkeypatch: Any) -> None:
    local.files.add_folder("x", {"file": b"1"})
    utime = os.utime

    def gone(path: Path) -> None:
        monkeypatch.setattr(os, "utime", utime)
        local.files.remove("x")
        utime(path)

    monkeypatch.setattr(os, "utime", gone)
    local.files.add_folder("x", {"file": b"1"})
    assert local.files.read("x/file", 9) == b"1"


@pytest.mark.parametrize("how", ["lost", "damaged", "a link"])
def test_publishing_again_repairs_what_was_damaged(store: Store, url: str, how: str) -> None:
    if "://" in url and how == "a link":
        pytest.skip("objects are no links")
    put(store)
    place = f"tasks/default/spam/packages/{store.find('spam').version.package}/weights.safetensors"
    content = store.files.read(place, 1 << 30)
    store.files.remove(place)
    if how == "damaged":
        assert store.files.create(place, content[:-1] + b"?")
    elif how == "a link":
        (Path(url) / place).symlink_to("manifest.json")
    with pytest.raises((PackageError, BankError)):
        Store.open(url).load(Store.open(url).find("spam"))
    assert put(store) == 2
    again = Store.open(url)
    for version in (1, 2):
        assert again.load(again.find(f"spam@{version}")).manifest.max_length == 1
    assert not list((Path(url) / ".unfinished").iterdir()) if "://" not in url else True


def test_a_slow_writer_does_not_write_into_the_past(store: Store, url: str) -> None:
    put(store)
    other = Store.open(url)
    create = other.files.create

    def late(path: str, content: bytes) -> bool:
        other.files.create = create
        put(store, seed=1)
        put(store, seed=2)
        store.collect()
        return create(path, content)

    other.files.create = late
    assert put(other, seed=3) == 4
    assert mark(Store.open(url), "spam@4") == 3


# --- what nobody needs


def test_purge_deletes_what_was_collected_just_before(store: Store) -> None:
    for seed in range(3):
        put(store, seed=seed)
    assert store.collect(keep=1) == 0  # young, and nobody names it any more
    assert len(store.files.names("tasks/default/spam/packages")) == 3
    store.remove("spam", purge=True)
    assert store.files.names("tasks/default/spam/packages") == []


def test_collect_deletes_old_versions_wherever_the_bank_is(store: Store) -> None:
    for seed in range(3):
        put(store, seed=seed)
    assert store.collect(keep=1, older_than=0) == 2
    assert store.files.names("tasks/default/spam/packages") == [store.find("spam").version.package]
    assert len(store.files.names("tasks/default/spam/records")) == 1
    assert mark(store) == 2


def test_collect_keeps_what_is_named_or_young(local: Store, tmp_path: Path) -> None:
    for seed in range(5):
        put(local, seed=seed)
    local.rollback("spam", 2)
    packages = tmp_path / "bank/tasks/default/spam/packages"
    (packages / ("f" * 64)).mkdir()
    assert local.collect() == 0  # too young to go
    assert local.collect(older_than=0) == 1
    assert len(list(packages.iterdir())) == 5
    assert local.collect(keep=2, older_than=0) == 2
    assert [each.version for each in local.record("spam").versions] == [2, 4, 5]
    assert (mark(local), mark(local, "spam@5")) == (1, 4)
    assert len(list((packages.parent / "records").iterdir())) == 1
    assert put(local, seed=6) == 6


def test_the_same_package_twice_is_two_versions_of_one(local: Store, tmp_path: Path) -> None:
    assert (put(local), put(local)) == (1, 2)
    assert len(list((tmp_path / "bank/tasks/default/spam/packages").iterdir())) == 1
    assert local.collect(keep=1, older_than=0) == 0
    assert mark(local, "spam@2") == 0
