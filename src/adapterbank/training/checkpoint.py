"""Checkpoints: where a run stands, in one file, at bounded cost.

One safetensors file with the plain values in its header, written beside its place and renamed onto
it: there is an old state or a new one, never half.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from adapterbank.errors import CheckpointError
from adapterbank.training.loop import Run

COST = 0.02  # of the run's time, at most, goes into writing states
PARTIAL = ".partial"  # a folder for what is being written: the library has a file of its own there
EVERY = 5.0  # seconds between two states, at least


class Checkpoint:
    """The file that holds a run's state."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next = time.monotonic() + EVERY

    def save_if_due(self, run: Run) -> None:
        """Save the run's state, if enough time has passed to pay for it."""
        if time.monotonic() >= self._next:
            began = time.monotonic()
            self.save(run)
            took = time.monotonic() - began
            self._next = time.monotonic() + max(EVERY, took / COST)

    def save(self, run: Run) -> None:
        """Save the run's state now."""
        tensors, facts = run.state()
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        place = self.path.with_suffix(f".{os.getpid()}{PARTIAL}")
        fresh = place / self.path.name
        try:
            place.mkdir(parents=True, exist_ok=True)
            save_file(tensors, fresh, {"facts": json.dumps(facts)})
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            fresh.replace(self.path)
        except OSError as error:
            raise CheckpointError(
                f"The state of the run could not be saved: {error}.",
                f"Make room for {self.path.parent}. It lies in the bank, or of one at a URL in "
                "$ADAPTERBANK_CACHE: another place for that will do, too.",
            ) from error
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def restore(self, run: Run) -> bool:
        """Bring the run to its saved state. False if none was saved."""
        if not self.path.is_file():
            return False
        try:
            with safe_open(self.path, "pt") as file:
                facts = json.loads(file.metadata()["facts"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            run.restore(tensors, facts)
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"The saved state of this run cannot be read: {error}.",
                "Start anew without --resume.",
            ) from error
        return True

    def remove(self) -> None:
        """The run is over: its state is not needed any more, nor what a killed process left of
        one that it was writing."""
        self.path.unlink(missing_ok=True)
        for left in self.path.parent.glob(f"{self.path.stem}.*{PARTIAL}"):
            shutil.rmtree(left, ignore_errors=True)
