"""Imports point one way, and the light parts stay light."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import adapterbank

ROOT = Path(adapterbank.__file__).parent
# A room may import itself, `errors`, and these.
ALLOWED = {
    "errors": set(),
    "model": set(),
    "tasks": set(),
    "compute": set(),
    "training": {"model", "tasks"},
    "store": {"model", "tasks"},
    "serving": {"store", "model", "tasks"},
    "verify": {"store", "model"},
    "order": {"training", "store", "model", "tasks"},
    "events": {"training", "store", "tasks"},
    "learn": {"events", "order", "verify", "training", "store", "model", "tasks"},
    "bank": {"events", "learn", "order", "verify", "serving", "store", "model", "tasks"},
    "streams": {
        "bank",
        "compute",
        "events",
        "learn",
        "model",
        "order",
        "serving",
        "store",
        "tasks",
        "training",
        "verify",
    },
    "figures": set(),
    "ablation": {"training", "store", "model", "tasks"},
    "studies": {
        "ablation",
        "compute",
        "events",
        "figures",
        "learn",
        "model",
        "order",
        "serving",
        "store",
        "streams",
        "tasks",
        "training",
        "verify",
    },
    "sweeps": {"events", "learn", "order", "compute", "training", "store", "model", "tasks"},
    "wire": set(),
    "client": {"wire", "serving", "store", "tasks"},
    # Its jobs run modules of its own in other processes: those may learn.
    "service": {"bank", "compute", "events", "learn", "serving", "store", "tasks", "training"},
    "cli": {
        "ablation",
        "bank",
        "client",
        "compute",
        "events",
        "figures",
        "learn",
        "model",
        "order",
        "service",
        "serving",
        "store",
        "streams",
        "studies",
        "sweeps",
        "tasks",
        "training",
        "verify",
    },
}
ENTRANCES = {"__init__", "__main__"}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.stem not in ENTRANCES)


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {n.split(".")[1] for n in names if n.startswith("adapterbank.")}
    return rooms


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_rooms_import_only_what_they_may(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert imported_rooms(path) <= ALLOWED[room] | {room, "errors"}


def test_nothing_unpickles_or_runs_remote_code() -> None:
    unsafe = (
        "import pickle",
        "pickle.load",
        "torch.load",
        "joblib",
        "yaml.load",
        "trust_remote_code=True",
    )
    for path in ROOT.rglob("*.py"):
        source = path.read_text("utf-8")
        assert not [word for word in unsafe if word in source], path


@pytest.mark.parametrize("statement", ["import adapterbank", "import adapterbank.cli.main"])
def test_heavy_packages_are_imported_late(statement: str) -> None:
    heavy = ("torch", "transformers", "numpy")
    code = f"{statement}; import sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_soon_sleep_unless_told_otherwise(given: dict[str, str], spins: str) -> None:
    """The variable stands before torch can be imported."""
    code = "import adapterbank, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    rest = {name: each for name, each in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", code], env=rest | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == spins


SHAPES = """
import adapterbank
import torch
from pathlib import Path

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def products(rows):
    for n in rows:
        torch.ops.mkldnn._linear_pointwise(torch.ones(n, 384), weight, None, "none", [], "")

weight = torch.ops.mkldnn._reorder_linear_weight(torch.randn(384, 384), 64)
products(range(1, 40))
before = resident()
products(range(40, 440))
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_products_of_many_shapes_leave_little_behind() -> None:
    """Every step of packed batches has shapes of its own: 0.7 MB a shape is left by default."""
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    rest = {name: each for name, each in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", SHAPES], env=rest, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100_000_000


def test_public_names() -> None:
    expected = [
        "AdapterBankError",
        "AdapterConfig",
        "Attachment",
        "Bank",
        "Client",
        "Encoder",
        "Method",
        "Prediction",
        "apply_method",
        "attach",
        "load_adapters",
        "load_encoder",
        "save_adapters",
    ]
    assert sorted(adapterbank.__all__) == expected
    for name in expected:
        assert getattr(adapterbank, name).__name__ == name
    assert set(expected) < set(dir(adapterbank))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = adapterbank.no_such_name


def test_every_module_says_what_it_owns() -> None:
    for path in MODULES:
        tree = ast.parse(path.read_text("utf-8"))
        assert ast.get_docstring(tree) or not tree.body, path
