"""The bank as a person holds it: one frozen base, and tasks to learn, ask, check and carry off.

bank = Bank.open("bank")
bank.learn("spam", "sms.csv")
bank.predict("spam", ["win a prize now"])
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from adapterbank.errors import AdapterBankError, BankNotFound, ConfigError, PackageError
from adapterbank.events import Event, Learnt
from adapterbank.learn import learn, publish
from adapterbank.model.config import plain
from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.model.wheel import MINILM
from adapterbank.order import Earlier, Order, make_order
from adapterbank.serving.engine import MEMORY, Engine, open_engine
from adapterbank.serving.one_task import export_onnx
from adapterbank.serving.which_task import Route, Router
from adapterbank.store.adapterhub import BaseFacts, export_adapterhub, import_adapterhub
from adapterbank.store.archive import read_archive, write_archive
from adapterbank.store.base import base_record
from adapterbank.store.entry import Entry, TaskInfo
from adapterbank.store.mount import mount
from adapterbank.store.names import check_name
from adapterbank.store.package import Package, Packed, as_arrays, pack, read_package, write_package
from adapterbank.store.store import Store
from adapterbank.tasks.inputs import check_several
from adapterbank.tasks.limit import limited
from adapterbank.tasks.load import load_task
from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.sources import Source
from adapterbank.tasks.task import Task
from adapterbank.verify import Verdict, check_probes, software, take_probes, verify

# What says how data is read; every other setting says how to learn.
OF_DATA = (
    "dev", "test", "kind", "text_column", "pair_column", "label_column", "label_names", "encoding",
    "metric", "positive", "skip_bad", "max_rows",
)  # fmt: skip
ExportFormat = Literal["adapterbank", "adapterhub", "onnx"]
# How files end. A folder of such a name would be taken for one.
OF_FILES = (".onnx", ".zip", ".7z", ".tar", ".gz", ".tgz", ".bz2", ".xz")


class Bank:
    """Tasks on one frozen base. Safe to use from several threads: one at a time has the base."""

    def __init__(
        self,
        store: Store,
        encoder: Encoder | None = None,
        device: str = "auto",
        memory: int = MEMORY,
    ) -> None:
        self.store = store
        self._encoder, self._device, self._memory = encoder, device, memory
        self._engine: Engine | None = None
        self._router: Router | None = None
        self._lock = threading.RLock()
        """Held by whoever has the encoder: while a task is learnt, all the time."""
        self._opening = threading.Lock()

    @classmethod
    def open(
        cls,
        url: str | Path = "bank",
        base: str | None = None,
        *,
        device: str = "auto",
        create: bool = True,
        memory: int = MEMORY,
    ) -> Bank:
        """The bank at a folder or URL; made if it is missing, on `minilm` unless told otherwise.

        The base itself is loaded when it is first needed. One that is named is loaded and compared
        at once. `memory` is the room for the tasks that answer, in bytes.
        """
        try:
            store = Store.open(url)
        except BankNotFound:
            if not create:
                raise
            encoder = load_encoder(base or MINILM, device=device)
            return cls(Store.create(url, base_record(encoder)), encoder, device, memory)
        if base is None:
            return cls(store, None, device, memory)
        encoder = load_encoder(base, device=device)
        store.check_base(base_record(encoder))
        return cls(store, encoder, device, memory)

    @classmethod
    def create(cls, url: str | Path, encoder: Encoder) -> Bank:
        """A new bank on a base that is loaded."""
        return cls(Store.create(url, base_record(encoder)), encoder)

    @property
    def encoder(self) -> Encoder:
        """The base."""
        if self._encoder is None:
            with self._lock:
                if self._encoder is None:
                    encoder = load_encoder(self.store.base.name, device=self._device)
                    self.store.check_base(base_record(encoder))
                    self._encoder = encoder
        return self._encoder

    # --- learning

    def learn(self, name: str, data: Source | Task, **settings: Any) -> TaskInfo:
        """Learn a task and publish it as the name's next version; nothing else is touched.

        `data` is a path, a list of dicts, a DataFrame, a `datasets.Dataset` or a Task. Settings go
        by name: how to read it (`dev`, `text_column`, …) and how to learn it (`epochs`, `size`,
        `seed`, `minutes`, …). `from_version` is a version to go on from, as in "spam@2";
        `even_if_worse` publishes it whatever came of that.
        """
        even_if_worse = settings.pop("even_if_worse", False)
        events = self.learning(name, data, **settings)
        learnt = next(event for event in events if isinstance(event, Learnt))
        entry = self.publish(name, learnt, even_if_worse=even_if_worse)
        next(events, None)  # it is kept: the run may remove its state
        for message in learnt.warnings:
            warnings.warn(message, stacklevel=2)
        return self.show(str(entry))

    def learning(
        self,
        name: str,
        data: Source | Task,
        *,
        order: Order | None = None,
        resume: bool = False,
        runs: Path | None = None,
        **settings: Any,
    ) -> Iterator[Event]:
        """The same as events, without publishing; the last is `Learnt`. `resume` goes on with a
        run that was stopped, whose state is in `runs`; an `order` takes the place of settings."""
        name = check_name(name)
        settings = {key: plain(each) for key, each in settings.items()}
        reading = {key: settings.pop(key) for key in OF_DATA if key in settings}
        metric = reading.get("metric")
        if reading.get("positive") and settings.get("from_version") is not None:
            raise ConfigError(
                "positive goes with a task that begins anew.", "A version keeps its own."
            )
        if isinstance(data, Task):
            if reading:
                raise ConfigError(f"{', '.join(reading)}: a Task has been read already.")
            task = data
        else:
            seed, most = settings.get("seed") or 0, reading.pop("max_rows", None) or 0
            task = limited(load_task(name, data, seed=seed, **reading), most, most, most, seed)
        order = order or self.order(metric=metric, **settings)
        return self._events(name, task, order, runs or self.store.runs(name), resume)

    def _events(
        self, name: str, task: Task, order: Order, runs: Path, resume: bool
    ) -> Iterator[Event]:
        with self._lock:
            yield from learn(self.encoder, task.named(name), order, runs=runs, resume=resume)

    def order(
        self, from_version: str | None = None, metric: str | None = None, **settings: Any
    ) -> Order:
        """How to learn, from settings by name; a metric takes the earlier version's place."""
        if from_version is not None:
            entry = self.store.find(from_version)
            settings["earlier"] = Earlier(str(entry), self.store.load(entry), metric or "")
        return make_order(self.encoder.layers, **settings)

    def publish(self, name: str, learnt: Learnt, *, even_if_worse: bool = False) -> Entry:
        """Put what was learnt into the bank."""
        with self._lock:
            return publish(self.store, self.encoder, name, learnt, even_if_worse=even_if_worse)

    # --- asking

    def predict(self, task: str, inputs: Sequence[Any]) -> list[Prediction]:
        """Answers of `task` or `task@3`, one an input. An input that cannot be read has its error
        in its place."""
        check_several(inputs)
        with self.engine.using(task) as using:
            return using.answer(inputs)

    def predict_mixed(self, inputs: Sequence[tuple[str | None, Any]]) -> list[Prediction]:
        """Answers for inputs of any tasks in any order, in one pass. None for a task gives the
        embedding of the bare encoder."""
        check_several(inputs)
        return self.engine.answer(inputs)

    def predict_all(self, text: Any, tasks: Iterable[str] | None = None) -> dict[str, Prediction]:
        """What every task says of one input, or those named."""
        names = list(self.store.tasks() if tasks is None else tasks)
        return dict(zip(names, self.engine.answer([(name, text) for name in names]), strict=True))

    def route(self, text: Any, tasks: Iterable[str] | None = None, most: int = 3) -> list[Route]:
        """The tasks that an input is likely meant for, the likeliest first; none if it is like no
        task's own texts."""
        self._router = self._router or Router(self.engine)
        (found,) = self._router.route([text], tasks, most)
        if isinstance(found, AdapterBankError):
            raise found
        return found

    @property
    def engine(self) -> Engine:
        """What answers: every task on one copy of the base."""
        if self._engine is None:
            with self._opening:  # not the other lock: learning would hold every answer up
                if self._engine is None:
                    self._engine = open_engine(
                        self.store,
                        lambda: self.encoder,
                        device=self._device,
                        lock=self._lock,
                        memory=self._memory,
                    )
        return self._engine

    # --- looking

    def tasks(self) -> list[TaskInfo]:
        """Every task."""
        return [self.show(name) for name in self.store.tasks()]

    def show(self, reference: str) -> TaskInfo:
        """One task, at its current version or the one named."""
        return self.store.info(reference)

    def verify(self, *references: str) -> list[Verdict]:
        """Check every version, or those named: digests, the base, probes replayed."""
        with self._lock:
            return list(verify(self.store, self.encoder, references))

    # --- changing

    def rollback(self, task: str, version: int) -> None:
        """Make another version the current one."""
        self.store.rollback(task, version)

    def remove(self, task: str, *, purge: bool = False) -> None:
        """Take a task out; with `purge` its bytes are deleted too."""
        self.store.remove(task, purge=purge)

    # --- carrying

    def export(
        self,
        reference: str,
        path: str | Path,
        form: ExportFormat = "adapterbank",
        *,
        layer_norms_beside: bool = False,
    ) -> list[str]:
        """Write a task to a folder or a .tar.gz, or with its base to one .onnx file. Returns notes
        on what could not cross."""
        path = Path(path)
        entry = self.store.find(reference)
        package = self.store.load(entry)
        if form == "onnx":
            with self._lock:
                return export_onnx(self.encoder, package, path)
        if form == "adapterhub" or not is_archive(path):
            _check_folder(path, form)
        if form == "adapterhub":
            return export_adapterhub(
                package,
                self._facts(),
                path,
                name=entry.task.rpartition("/")[2].replace(".", "-"),
                layer_norms_beside=layer_norms_beside,
            )
        if is_archive(path):
            write_archive(path, pack(package.manifest, package.tensors))
        else:
            write_package(path, package.manifest, package.tensors)
        return []

    def import_(
        self, path: str | Path, name: str | None = None, *, pair: bool = False
    ) -> tuple[Entry, list[str]]:
        """Take in a package folder, a .tar.gz or an AdapterHub folder, once it has been checked.
        Returns what it became, and notes on what could not cross.

        AdapterHub does not say whether a task reads pairs of texts: `pair` does.
        """
        path = Path(path)
        check_package(path)
        notes: list[str] = []
        if not is_archive(path) and (path / "adapter_config.json").is_file():
            packed, notes = self._from_adapterhub(path, check_name(name or _name_of(path)), pair)
        elif is_archive(path):
            packed = read_archive(path)
        else:
            package = read_package(path)
            packed = pack(package.manifest, package.tensors)
        self.store.check_base(packed.manifest.base)
        with self._lock:
            check_probes(self.encoder, packed.unpack())
        return self.store.publish_packed(name or packed.manifest.task, packed), notes

    def _from_adapterhub(self, folder: Path, task: str, pair: bool) -> tuple[Packed, list[str]]:
        manifest, tensors, notes = import_adapterhub(folder, self._facts(), task=task, pair=pair)
        with self._lock:
            made = Package(manifest, as_arrays(tensors))
            with mount(self.encoder, made) as model:
                probes = take_probes(self.encoder, model)
            manifest = replace(manifest, probes=probes, software=software(self.encoder))
        return pack(manifest, tensors), notes

    def _facts(self) -> BaseFacts:
        encoder = self.encoder
        total = encoder.model.num_parameters()
        embeddings = encoder.model.get_submodule(encoder.sites.embeddings)
        return BaseFacts(
            name=encoder.name,
            fingerprint=encoder.fingerprint,
            model_type=str(encoder.model.config.model_type),
            width=encoder.width,
            layers=encoder.layers,
            pooling=encoder.pooling,
            max_length=encoder.max_length,
            has_pooler=encoder.has_pooler,
            parameters=total,
            parameters_without_embeddings=total - sum(p.numel() for p in embeddings.parameters()),
        )


def check_package(path: Path) -> None:
    """Refuse a path at which there can be no package; nothing is read."""
    if not path.exists():
        raise PackageError(f"There is no package {path.name!r}.", "Check the path.")
    if path.is_file() and not is_archive(path):
        raise PackageError(
            f"{path.name!r} is not a package: that is a folder or a .tar.gz, as export writes it.",
            f"To learn from labelled rows: adapterbank train TASK --train {path}.",
        )


def _check_folder(path: Path, form: ExportFormat) -> None:
    """Refuse a folder that would be taken for a file."""
    ending = path.suffix.lower()
    if ending not in OF_FILES:
        return
    hint = "Name a new folder." if form == "adapterhub" else "Name a new folder, or a .tar.gz."
    if ending == ".onnx":
        hint += " A file of ONNX is written with --format onnx (form='onnx')."
    raise PackageError(f"{path.name!r} is no name for a folder.", hint)


def is_archive(path: Path) -> bool:
    """Whether a path names a .tar.gz."""
    return path.name.lower().endswith((".tar.gz", ".tgz"))


def _name_of(path: Path) -> str:
    try:
        return check_name(path.name.lower())
    except ConfigError as error:
        raise PackageError(
            f"{path.name!r} cannot be a task's name.", "Give one: --name NAME."
        ) from error
