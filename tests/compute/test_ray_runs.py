"""Sweeps, studies and streams on a cluster: the same records as on one machine."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from adapterbank.bank import Bank
from adapterbank.streams.arrivals import Arrival
from adapterbank.streams.stream import Stream
from adapterbank.studies.run import run_study
from adapterbank.studies.study import Study
from adapterbank.studies.study_file import read_study
from adapterbank.sweeps import Sweep
from adapterbank.tasks.limit import limited
from adapterbank.tasks.samples import load_sample
from adapterbank.training.sweep import trials
from compute.conftest import MEMORY
from in_process import InProcess
from tiny import save_base

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]
TASK = limited(load_sample("support"), 60, 30, 30)
STUDY = """
title = "Small"
base = "{base}"
tasks = ["support"]
seeds = 2
train_rows = 60
dev_rows = 30
test_rows = 30
widen = 0

[[arm]]
name = "adapters"
size = 2
epochs = 1
learning_rate = [1e-3, 1e-2]
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def compute(cluster) -> Any:
    from adapterbank.compute.ray import RayCompute

    return RayCompute()


def sweep(folder: Path, base: Path) -> Sweep:
    grid = {"size": [2, 4], "epochs": [1], "batch_size": [16]}
    made = Sweep(folder, str(base), "cpu", trials(grid, 2))
    made.open(TASK)
    return made


def plain(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def test_a_sweep_gives_the_same_records(compute, base, tmp_path) -> None:
    here, there = sweep(tmp_path / "here", base), sweep(tmp_path / "there", base)
    list(here.run(InProcess()))
    list(there.run(compute))
    assert plain(there.records()) == plain(here.records())
    assert [c.best_trial for c in there.winner("accuracy")] == [
        c.best_trial for c in here.winner("accuracy")
    ]


def test_a_sweep_whose_files_travel(cluster, base, tmp_path) -> None:
    """Machines without a common folder: trials and packages come through the store."""
    from adapterbank.compute.ray import RayCompute

    here, there = sweep(tmp_path / "here", base), sweep(tmp_path / "there", base)
    list(here.run(InProcess()))
    list(there.run(RayCompute(through=f"file://{tmp_path}/store")))
    assert plain(there.records()) == plain(here.records())
    for trial in there.trials:
        weights = [s.package_of(trial.id) / "weights.safetensors" for s in (here, there)]
        assert weights[0].read_bytes() == weights[1].read_bytes()


def study(folder: Path, base: Path) -> Study:
    home = folder / "small"
    home.mkdir(parents=True)
    (home / "study.toml").write_text(STUDY.format(base=base))
    return read_study(home)


def records(made: Study) -> dict[str, Any]:
    found = {}
    for path in made.store.folder.glob("*.json"):
        found[path.name] = {**json.loads(path.read_text()), "seconds": 0, "commit": ""}
    return found


def test_a_study_goes_on_when_a_node_is_lost(cluster, compute, base, tmp_path) -> None:
    here, there = study(tmp_path / "here", base), study(tmp_path / "there", base)
    list(run_study(here, InProcess()))
    lost = cluster.add_node(num_cpus=2, node_ip_address="127.0.0.1", object_store_memory=MEMORY)
    ended: list[str] = []
    started = 0
    for _, event in run_study(there, compute):
        started += event.kind == "started"
        if event.kind == "done":
            ended.append(event.id)
        if started == 2 and lost is not None:
            cluster.remove_node(lost, allow_graceful=False)
            lost = None
    assert lost is None
    assert len(ended) == len(set(ended)) == len(records(here))  # each once
    assert records(there) == records(here)


def test_a_stream_learns_elsewhere(compute, base, tmp_path) -> None:
    found = {}
    for name, where in (("here", None), ("there", compute)):
        bank = Bank.open(tmp_path / name, str(base))
        settings = {"epochs": 1, "size": 2, "baselines": False}
        arrivals = [
            Arrival(each, each, learning=settings, max_rows=60) for each in ("support", "reviews")
        ]
        source = tmp_path / f"{name}.toml"
        stream = Stream(bank, source, arrivals, 20, compute=InProcess(), learn_on=where)
        list(stream.run())
        report = stream.report()
        assert report["packages_identical"]
        assert report["predictions_identical"]
        found[name] = {
            task: replace(bank.store.find(task).version, published="").package
            for task in bank.store.tasks()
        }
        weights = {
            task: {k: v.tobytes() for k, v in bank.store.load(bank.store.find(task)).arrays.items()}
            for task in bank.store.tasks()
        }
        found[f"{name} weights"] = weights
    assert found["here"].keys() == {"support", "reviews"}
    assert found["here weights"] == found["there weights"]
