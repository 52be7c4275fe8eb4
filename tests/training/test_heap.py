"""Free memory goes back before a batch that is larger than any so far, and at no other time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from adapterbank.training import heap
from adapterbank.training.heap import Heap, give_back


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_only_larger_batches_give_back(monkeypatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(heap, "give_back", lambda: asked.append(batch))
    room = Heap()
    for batch in (50, 40, 50, 90, 10, 91):
        room.expect(batch)
    assert asked == [50, 90, 91]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_what_was_freed_between_others_goes_back() -> None:
    give_back()
    tensors = [torch.ones(16_000) for _ in range(2_000)]  # 64 KB each: from the heap
    before = resident()
    del tensors[::2]  # holes
    give_back()
    assert before - resident() > 30_000_000
    assert len(tensors) == 1_000
