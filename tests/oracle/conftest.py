"""The environment of the packages that we are compared with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def peers_python() -> Path:
    made = subprocess.run(
        [sys.executable, Path(__file__).parents[2] / "benchmarks" / "peers.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(made.stdout.strip())
