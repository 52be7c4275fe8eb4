"""Answers of thousands of tasks from one copy of the encoder, whatever rows come together."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from adapterbank.errors import (
    AdapterBankError,
    BankError,
    DataError,
    PackageError,
    TaskNotFound,
)
from adapterbank.serving.passes import Passes, on_cpu
from adapterbank.serving.residency import Residency, Resident
from adapterbank.serving.rows import Array, Pass, Row, Seat
from adapterbank.store.entry import Entry
from adapterbank.store.manifest import Manifest, Pooling
from adapterbank.store.names import split_reference
from adapterbank.store.store import Store
from adapterbank.tasks.batches import Encoded, encode
from adapterbank.tasks.inputs import read_input
from adapterbank.tasks.predictions import Prediction, decode, decode_spans
from adapterbank.tasks.spans import make_windows
from adapterbank.tasks.task import Example, Kind

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder

log = logging.getLogger("adapterbank.serving")
MEMORY = 2**30  # bytes for tasks
LOADERS = 4  # threads that fetch tasks from elsewhere


@dataclass(frozen=True)
class Asked:
    """Inputs of one task, tokenised: rows to run, and how their outputs become answers."""

    entry: Entry | None
    """The version that answers; None for the bare encoder."""
    rows: list[Row]
    runs_on: Pass
    places: list[AdapterBankError | None]
    """Of each input, what is wrong with it; None for those that were read."""
    answer: Callable[[Sequence[Array]], list[Prediction]]
    """From what the heads read of each row to an answer an input, errors in their places."""
    release: Callable[[], None]
    """To be called when they have run."""

    def failed(self, error: AdapterBankError) -> list[Prediction]:
        """The answers where running them came to nothing."""
        return [Prediction(error=place or error) for place in self.places]


class Engine:
    """Tasks of a store on a base. Safe to use from several threads."""

    def __init__(self, store: Store, passes: Passes, memory: int = MEMORY) -> None:
        self.store, self.passes = store, passes
        self.residency = Residency(store, passes.choose, passes.check, memory)
        self._loaders = ThreadPoolExecutor(LOADERS, "loader")

    def answer(self, inputs: Sequence[tuple[str | None, Any]]) -> list[Prediction]:
        """Answers for inputs of any tasks in any order; None for a task gives the embedding of the
        bare encoder. What goes wrong with a row or its task is that row's answer alone."""
        by_task: defaultdict[str | None, list[int]] = defaultdict(list)
        for i, (task, _) in enumerate(inputs):
            by_task[task].append(i)
        answers: dict[int, Prediction] = {}
        waiting: list[tuple[list[int], Asked]] = []
        with (
            self._loaded(task for task in by_task if task is not None) as loaded,
            _released(waiting),
        ):
            for task, rows in by_task.items():
                values = [inputs[i][1] for i in rows]
                asked = self._try_to_ask(task, values, wait=not waiting and not loaded)
                if asked is None:  # all that is in memory is in use, by those that wait
                    answers |= self._run(waiting)
                    self._release(loaded)
                    asked = self._try_to_ask(task, values, wait=True)
                if isinstance(asked, Asked):
                    waiting.append((rows, asked))
                else:
                    answers |= dict.fromkeys(rows, Prediction(error=asked))
            answers |= self._run(waiting)
        return [answers[i] for i in range(len(inputs))]

    def _try_to_ask(
        self, task: str | None, inputs: Sequence[Any], wait: bool
    ) -> Asked | AdapterBankError | None:
        try:
            return self.ask(task, inputs, wait=wait)
        except AdapterBankError as error:
            return error

    @contextmanager
    def _loaded(self, tasks: Iterable[str]) -> Iterator[list[Resident]]:
        """Tasks whose packages are elsewhere loaded side by side, as far as there is room. Those on
        this machine are quicker one after the other: threads would wait for each other's Python."""
        far = [task for task in tasks if self._is_far(task)]
        found: list[Resident] = []
        if len(far) > 1:
            with suppress(RuntimeError):  # the interpreter is going down
                found += filter(None, self._loaders.map(self._try_to_acquire, far))
        try:
            yield found
        finally:
            self._release(found)

    def _is_far(self, task: str) -> bool:
        try:
            return self.store.is_far(task)
        except AdapterBankError:  # told when it is asked
            return False

    def _try_to_acquire(self, task: str) -> Resident | None:
        try:
            return self._acquire(task, wait=False)[1]
        except Exception:  # told when it is asked; here it would leave the others in use
            return None

    def _release(self, residents: list[Resident]) -> None:
        while residents:
            self.residency.release(residents.pop())

    def _run(self, waiting: list[tuple[list[int], Asked]]) -> dict[int, Prediction]:
        with _released(waiting):
            numbers = [i for rows, _ in waiting for i in rows]
            found = self.run([asked for _, asked in waiting])
        return dict(zip(numbers, (each for some in found for each in some), strict=True))

    @contextmanager
    def using(self, task: str) -> Iterator[Using]:
        """A task in use: loaded when the block begins, free to go when it ends."""
        _, resident = self._acquire(task, wait=True)
        assert resident is not None  # noqa: S101 - it has waited for room
        try:
            yield Using(self, resident)
        finally:
            self.residency.release(resident)

    def _acquire(self, task: str, wait: bool) -> tuple[Entry, Resident | None]:
        """The task's version of this moment, in memory if there is room."""
        while True:
            entry = self._find(task)
            try:
                return entry, self.residency.acquire(entry, wait=wait)
            except PackageError:
                if self._find(task) == entry:
                    raise
                # Removed or published again since: what is there now counts.

    def _find(self, task: str) -> Entry:
        try:
            return self.store.find(task)
        except TaskNotFound:
            name = split_reference(task)[0]
            if self.store.record(name).current is None:  # else it is a version that never was
                self.residency.forget(name)
            raise

    def ask(self, task: str | None, inputs: Sequence[Any], *, wait: bool = True) -> Asked | None:
        """Make inputs of one task ready to run. Without `wait`, None if there is no room for it."""
        if task is None:
            return self._ask_encoder(inputs)
        entry, resident = self._acquire(task, wait)
        if resident is None:
            return None
        try:
            # A version that has another's package once more has its place in memory, too.
            return replace(self.ask_resident(resident, inputs), entry=entry)
        except BaseException:
            self.residency.release(resident)
            raise

    def ask_resident(self, resident: Resident, inputs: Sequence[Any]) -> Asked:
        """The same for a task that is loaded."""
        manifest = resident.manifest
        read, places = _read(inputs, lambda v: read_input(v, manifest.kind, manifest.pair))
        ready = self.ask_examples(resident, read)
        return replace(
            ready, places=places, answer=lambda found: _in_place(places, ready.answer(found))
        )

    def ask_examples(self, resident: Resident, examples: Sequence[Example]) -> Asked:
        """The same for inputs that are read."""
        manifest, (weight, bias) = resident.manifest, resident.head
        limit = min(manifest.max_length, self.passes.max_length)
        if manifest.kind == "span":
            windows = make_windows(self.passes.tokenizer, examples, limit)
            rows = _rows(windows.encoded, resident.seat, None)

            def answer(found: Sequence[Array]) -> list[Prediction]:
                states = np.concatenate([np.empty((0, weight.shape[1]), np.float32), *found])
                logits = _logits(states, weight, bias)
                if not np.isfinite(logits).all():
                    return [Prediction(error=_overflown(resident.entry))] * len(examples)
                return decode_spans(windows, logits, manifest.threshold)
        else:
            encoded = encode(self.passes.tokenizer, examples, limit)
            rows = _rows(encoded, resident.seat, manifest.pooling)

            def answer(found: Sequence[Array]) -> list[Prediction]:
                states = np.array(found, np.float32).reshape(len(found), weight.shape[1])
                logits = _logits(states, weight, bias)
                sound: list[bool] = [bool(np.isfinite(row).all()) for row in logits]
                answers = decode(
                    manifest.kind, manifest.labels, logits[sound], manifest.temperature
                )
                if all(sound):
                    return answers
                lost = _overflown(resident.entry)
                return _in_place([None if fine else lost for fine in sound], answers)

        release = partial(self.residency.release, resident)
        places: list[AdapterBankError | None] = [None] * len(examples)
        return Asked(resident.entry, rows, resident.runs_on, places, answer, release)

    def _ask_encoder(self, inputs: Sequence[Any]) -> Asked:
        examples, places = _read(inputs, read_any)
        encoded = encode(self.passes.tokenizer, examples, self.passes.max_length)

        def answer(found: Sequence[Array]) -> list[Prediction]:
            return _in_place(places, [Prediction(embedding=tuple(x.tolist())) for x in found])

        rows = _rows(encoded, None, self.passes.pooling)
        return Asked(None, rows, self.passes.bare, places, answer, lambda: None)

    def run(self, waiting: Sequence[Asked]) -> list[list[Prediction]]:
        """Run what was made ready, all of it together, and give the answers of each."""
        answers: dict[int, list[Prediction]] = {}
        for runs_on in {id(asked.runs_on): asked.runs_on for asked in waiting}.values():
            chosen = [i for i, asked in enumerate(waiting) if asked.runs_on is runs_on]
            found = _run_together(runs_on, [waiting[i] for i in chosen])
            answers |= zip(chosen, found, strict=True)
        return [answers[i] for i in range(len(waiting))]


def _run_together(runs_on: Pass, waiting: Sequence[Asked]) -> list[list[Prediction]]:
    """The answers of each; if they cannot be had, each by itself, so that one cannot spoil the
    others."""
    try:
        found = iter(runs_on.run([row for asked in waiting for row in asked.rows]))
        return [asked.answer([next(found) for _ in asked.rows]) for asked in waiting]
    except Exception as error:
        if len(waiting) > 1:
            return [_run_together(runs_on, [asked])[0] for asked in waiting]
        return [waiting[0].failed(_why(error, waiting[0].entry))]


def _why(error: Exception, entry: Entry | None) -> AdapterBankError:
    """What to say of a run that failed; None for the bare encoder's."""
    if isinstance(error, AdapterBankError):
        return error
    log.error("%s could not be run", entry or "the bare encoder", exc_info=error)
    if entry is None:
        return BankError("The base could not answer.", "The log says why.")
    return PackageError(f"{entry} could not answer.", "Publish it again, or roll it back.")


def read_any(value: Any) -> Example:
    """An input for no task: a text, a pair of texts, or a question with its context."""
    kind: Kind = "span" if isinstance(value, Mapping) and "question" in value else "classification"
    return read_input(value, kind, isinstance(value, Mapping) and len(value) > 1)


def open_engine(
    store: Store,
    load: Callable[[], Encoder],
    *,
    device: str = "auto",
    lock: threading.RLock | None = None,
    memory: int = MEMORY,
    threads: int = 0,
) -> Engine:
    """An engine on a store. `load` gives the store's base in torch; it is called if it is needed,
    perhaps several times. `lock` is held by whoever has it."""
    passes = Passes(
        store.base.fingerprint,
        load,
        lock=lock,
        memory=memory,
        threads=threads,
        onnx=on_cpu(device),
    )
    return Engine(store, passes, memory)


@dataclass(frozen=True)
class Using:
    """A task while it is in use."""

    engine: Engine
    resident: Resident

    @property
    def manifest(self) -> Manifest:
        """What it says of itself."""
        return self.resident.manifest

    def answer(self, inputs: Sequence[Any]) -> list[Prediction]:
        """Answers, one an input; one that cannot be read has its error in its place."""
        return self.engine.run([self.engine.ask_resident(self.resident, inputs)])[0]

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answers, one an example."""
        return self.engine.run([self.engine.ask_examples(self.resident, examples)])[0]


@contextmanager
def _released(waiting: list[tuple[list[int], Asked]]) -> Iterator[None]:
    """What waits at the end of the block, whatever ends it, is in use no more."""
    try:
        yield
    finally:
        while waiting:
            waiting.pop()[1].release()


def _logits(states: Array, weight: Array, bias: Array) -> Array:
    """What a head makes of states; numbers that are not finite are the caller's."""
    with np.errstate(over="ignore", invalid="ignore"):
        found: Array = states @ weight.T + bias
    return found


def _overflown(entry: Entry) -> PackageError:
    return PackageError(
        f"{entry} gives numbers that are not finite.", "Publish it again, or roll it back."
    )


def _read(
    inputs: Sequence[Any], read: Callable[[Any], Example]
) -> tuple[list[Example], list[AdapterBankError | None]]:
    """The inputs that can be read, and in each one's place None or what is wrong with it."""
    examples: list[Example] = []
    places: list[AdapterBankError | None] = []
    for value in inputs:
        try:
            examples.append(read(value))
            places.append(None)
        except DataError as error:
            places.append(error)
    return examples, places


def _in_place(
    places: Sequence[AdapterBankError | None], answers: Sequence[Prediction]
) -> list[Prediction]:
    rest = iter(answers)
    return [next(rest) if error is None else Prediction(error=error) for error in places]


def _rows(encoded: Encoded, seat: Seat | None, reads: Pooling | None) -> list[Row]:
    ids, types = encoded.take()
    return [Row(*row, seat, reads) for row in zip(ids, types, strict=True)]
