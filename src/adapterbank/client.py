"""A bank behind an HTTP service, with the verbs of one at hand.

bank = Client("http://localhost:8000", key="ab_…")
bank.learn("spam", "sms.csv")
bank.predict("spam", ["win a prize now"])
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Self, TypeVar

from adapterbank.errors import (
    AdapterBankError,
    Busy,
    ComputeError,
    ConfigError,
    DataError,
    JobNotFound,
    ServiceError,
)
from adapterbank.serving.which_task import Route
from adapterbank.store.names import check_name, split_reference
from adapterbank.tasks.as_file import as_file, plain
from adapterbank.tasks.cells import counted
from adapterbank.tasks.inputs import check_several, sendable
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.sources import Source
from adapterbank.wire import PATIENCE, SECONDS, Wire, described

AT_ONCE = 256  # inputs a request
# … and characters: about 8,000 tokens, a second or two of work. A service lets a tenant have twice
# that waiting, and a request that takes half a minute beside others is given up.
CHARACTERS = 32_000
LONGEST = 100_000  # characters of a text that a service reads
# Settings that `Bank.learn` has other names for.
THEIRS = {"learning_rate": "lr", "precision": "store", "from_version": "from"}
TRIES = 60  # to reach a service that is gone, a second apart
CHECK_ADDRESS = "Check the address: adapterbank serve prints it."
T = TypeVar("T")
_JOB = re.compile(r"[0-9a-f]{24}")


class Client:
    """A service and a key for it (else $ADAPTERBANK_KEY).

    An answer may take so many `seconds`. While the service is busy, questions are asked again for
    as many seconds as `patience` has: it may be 0.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        seconds: float = SECONDS,
        patience: float = PATIENCE,
    ) -> None:
        self._wire = Wire(url, key, seconds, patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._wire.close()

    # --- asking

    def predict(self, task: str, inputs: Iterable[Any]) -> list[Prediction]:
        """Answers of `task` or `task@3`, one an input. An input that cannot be read has its error
        in its place. If the service fails when some are answered, the others have that error."""
        check_several(inputs)
        inputs = list(inputs)
        return _whole(self.predicting(task, inputs), len(inputs))

    def predicting(self, task: str, inputs: Iterable[Any]) -> Iterator[list[Prediction]]:
        """The same as they come, a request's at a time; an error of the service ends it."""
        return self._answers(f"{_version_path(task)}/predict", (_ready(each) for each in inputs))

    def predict_mixed(self, inputs: Iterable[tuple[str | None, Any]]) -> list[Prediction]:
        """Answers for inputs of any tasks in any order. None for a task gives the embedding of the
        bare encoder. Errors stand as those of `predict` do."""
        check_several(inputs)
        rows = [_ready_for(task, each) for task, each in inputs]
        return _whole(self._answers("/v1/predict", rows), len(rows))

    def _answers(
        self, path: str, inputs: Iterable[Any | AdapterBankError]
    ) -> Iterator[list[Prediction]]:
        """Answers of one request after the other; an input that is an error is its own answer."""
        for some in _cut(inputs):
            sent = [each for each in some if not isinstance(each, AdapterBankError)]
            answer = self._wire.json("POST", path, json={"inputs": sent}, again=True)
            found = iter(_predictions(answer, len(sent)))
            yield [
                Prediction(error=each)
                if isinstance(each, AdapterBankError)
                else _prediction(next(found))
                for each in some
            ]

    def predict_all(self, text: Any, tasks: Iterable[str] | None = None) -> dict[str, Prediction]:
        """What every task says of one input, or those named."""
        names = [each["task"] for each in self.tasks()] if tasks is None else list(tasks)
        return dict(zip(names, self.predict_mixed([(n, text) for n in names]), strict=True))

    def route(self, text: Any, most: int = 3, *, tasks: None = None) -> list[Route]:
        """The tasks that an input is likely meant for, the likeliest first; none if it is like no
        task's own texts. A service looks at all of the key's tasks, never at some."""
        if tasks is not None:
            raise ConfigError(
                "tasks is given, and a service looks at all tasks of the key's tenant.",
                "Leave it out, or ask the bank itself: Bank.open(…).route(text, tasks=…).",
            )
        asked = {"inputs": [sendable(text, LONGEST)], "most": most}
        answer = self._wire.json("POST", "/v1/route", json=asked, again=True)
        (found,) = answer["routes"]
        if isinstance(found, Mapping):
            raise described(found["error"])
        return [Route(**each) for each in found]

    # --- learning

    def inspect(self, data: Source, **options: Any) -> dict[str, Any]:
        """What rows hold, and what would be learnt from them."""
        with _form({"file": data}, options) as form:
            return self._wire.json("POST", "/v1/inspect", **form)

    def train(
        self,
        task: str,
        data: Source,
        *,
        dev: Source | None = None,
        test: Source | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Send labelled rows; the job that learns them.

        They are a path, a list of dicts, a DataFrame or a `datasets.Dataset`. Options go by name:
        those of `adapterbank train`, or as `Bank.learn` calls them (`learning_rate` for `lr`,
        `precision` for `store`, `from_version` for `from`).
        """
        path = f"{_task_path(task)}/train"
        with _form({"file": data, "dev": dev, "test": test}, options) as form:
            return self._wire.json("POST", path, **form)

    def learn(self, task: str, data: Source, **options: Any) -> dict[str, Any]:
        """The same, and wait for its end: what was learnt."""
        job = self.train(task, data, **options)
        for event in self.follow(job["id"]):
            if event["event"] == "job":
                job = event
        return finished(job)

    def jobs(self) -> list[dict[str, Any]]:
        """The tenant's jobs, the newest first."""
        found: list[dict[str, Any]] = self._wire.json("GET", "/v1/jobs")["jobs"]
        return found

    def job(self, id: str) -> dict[str, Any]:
        """One job."""
        return self._wire.json("GET", _job_path(id))

    def follow(self, id: str) -> Iterator[dict[str, Any]]:
        """What happens to a job until its end, as it happens. A connection that is lost is made
        again."""
        path, last, lost = f"{_job_path(id)}/events", "", 0
        while lost < TRIES:
            headers = {"Last-Event-ID": last} if last else {}
            lost += 1
            try:
                for number, kind, data in self._wire.events(path, headers):
                    last, lost = number or last, 0
                    yield {"event": kind, **data} if kind else data
                    if kind == "job" and data["state"] not in ("queued", "running"):
                        return
            except (Busy, ServiceError):
                if lost == TRIES:
                    raise
            time.sleep(1.0)
        raise ServiceError(
            f"What answers says nothing of job {id}, however often it is asked.", CHECK_ADDRESS
        )

    def cancel(self, id: str) -> dict[str, Any]:
        """End a job."""
        return self._wire.json("POST", f"{_job_path(id)}/cancel")

    # --- looking and changing

    def tasks(self) -> list[dict[str, Any]]:
        """Every task of the tenant."""
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = self._wire.json("GET", "/v1/tasks", params={"after": after}, again=True)
            found += page["tasks"]
            after = page["next"]
        return found

    def show(self, task: str) -> dict[str, Any]:
        """Everything that is known of a task."""
        return self._wire.json("GET", _version_path(task), again=True)

    def rollback(self, task: str, version: int) -> None:
        """Make another version the current one."""
        self._wire.json("POST", f"{_task_path(task)}/rollback", json={"version": version})

    def remove(self, task: str, *, purge: bool = False) -> None:
        """Take a task out; with `purge` its bytes are deleted too."""
        self._wire.json("DELETE", _task_path(task), params={"purge": str(purge).lower()})

    # --- carrying

    def export(self, task: str, path: str | Path) -> None:
        """A task as a .tar.gz."""
        package, path = f"{_version_path(task)}/package", Path(path)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file, self._wire.sent("GET", package) as got:
                for piece in got.iter_bytes():
                    file.write(piece)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def import_(self, path: str | Path, task: str) -> int:
        """Take in a .tar.gz as the task's next version; its number."""
        package = f"{_task_path(task)}/package"
        with Path(path).open("rb") as file:
            answer = self._wire.json("POST", package, content=file)
        return int(answer["version"])


def _ready(value: Any) -> Any | AdapterBankError:
    """An input as it is sent, or what is wrong with it."""
    try:
        return sendable(value, LONGEST)
    except DataError as error:
        return error


def _ready_for(task: object, value: Any) -> Any | AdapterBankError:
    """The same with the task that is to answer."""
    try:
        if task is not None:
            split_reference(task)
            _of_the_key(task)
    except ConfigError as error:
        return error
    ready = _ready(value)
    return ready if isinstance(ready, AdapterBankError) else {"task": task, "input": ready}


def _cut(inputs: Iterable[T]) -> Iterator[list[T]]:
    """Inputs as requests that are soon answered."""
    some: list[T] = []
    size = 0
    for each in inputs:
        length = _length(each)
        if some and (len(some) == AT_ONCE or size + length > CHARACTERS):
            yield some
            some, size = [], 0
        some.append(each)
        size += length
    if some:
        yield some


def _length(value: object) -> int:
    """The characters of what is sent."""
    if isinstance(value, Mapping):
        return sum(map(_length, value.values()))
    return len(value) if isinstance(value, str) else 0


def _whole(answers: Iterator[list[Prediction]], count: int) -> list[Prediction]:
    """All answers; an error that ends them stands in place of the rest, unless nothing came."""
    found: list[Prediction] = []
    try:
        for some in answers:
            found += some
    except AdapterBankError as error:
        if all(each.error is not None for each in found):
            raise
        found += [Prediction(error=error)] * (count - len(found))
    return found


def finished(job: Mapping[str, Any]) -> dict[str, Any]:
    """What a job that is over has learnt; its error, if it has failed."""
    if job["state"] == "done":
        return dict(job["result"])
    if job["state"] == "cancelled":
        raise ComputeError("The job was cancelled.")
    raise ComputeError(job["error"]["message"], job["error"]["hint"])


def _task_path(task: object) -> str:
    """Where a task is."""
    check_name(task)
    return f"/v1/tasks/{_of_the_key(task)}"


def _version_path(reference: object) -> str:
    """Where `task` or `task@3` is."""
    split_reference(reference)
    return f"/v1/tasks/{_of_the_key(reference)}"


def _of_the_key(name: object) -> str:
    """A name that has been checked, if it leaves the tenant to the key."""
    tenant, _, task = str(name).rpartition("/")
    if tenant:
        raise ConfigError(
            f"{name!r} names a tenant, and on a service the key decides that.",
            f"Ask for {task!r} with a key of {tenant}.",
        )
    return task


def _job_path(id: object) -> str:
    """Where a job is."""
    if not isinstance(id, str) or not _JOB.fullmatch(id):
        raise JobNotFound(
            f"{id!r} is not a job's id: 24 of 0-9 and a-f.", "Client.jobs() lists the jobs."
        )
    return f"/v1/jobs/{id}"


@contextmanager
def _form(sources: Mapping[str, Source | None], options: Mapping[str, Any]) -> Iterator[Any]:
    """Rows and options as a form, its files open meanwhile."""
    given = {THEIRS.get(name, name): each for name, each in options.items() if each is not None}
    skip_bad, encoding = bool(given.get("skip_bad")), str(given.get("encoding", "utf-8"))
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(as_file(source, skip_bad=skip_bad, encoding=encoding))
            for name, source in sources.items()
            if source is not None
        }
        yield {"files": files, "data": {"options": json.dumps(given, default=plain)}}


def _predictions(answer: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Those of an answer, as many as there were inputs."""
    found = answer.get("predictions")
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ServiceError("The service answered without predictions.", CHECK_ADDRESS)
    if len(found) != count:
        raise ServiceError(
            f"The service answered {counted(count, 'input')} with "
            f"{counted(len(found), 'prediction')}.",
            CHECK_ADDRESS,
        )
    return found


def _prediction(found: dict[str, Any]) -> Prediction:
    if "error" in found:
        return Prediction(error=described(found["error"]))
    known = {each.name for each in fields(Prediction)}
    values = {name: value for name, value in found.items() if name in known}
    for name in ("labels", "embedding"):
        if name in values:
            values[name] = tuple(values[name])
    return Prediction(**values)
