"""A bank for those that only ask: without torch, as long as no task needs it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from adapterbank.serving.engine import MEMORY, Engine, open_engine
from adapterbank.serving.once import Once
from adapterbank.store.base import base_record
from adapterbank.store.files import LocalFiles
from adapterbank.store.store import Store

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder

PATIENCE = 1.0  # seconds after which a change in an object store is seen at the latest


def open_bank_engine(
    url: str | Path,
    base: str | None = None,
    device: str = "auto",
    *,
    memory: int = MEMORY,
    threads: int = 0,
) -> Engine:
    """What answers for a bank that is there. A base that is named is loaded and compared. `memory`
    is the room for tasks in bytes; of `threads` there are as many as cores unless given."""
    store = Store.open(url)
    if not isinstance(store.files, LocalFiles):
        store.log.patience = PATIENCE

    def read_base() -> Encoder:
        from adapterbank.model.encoder import load_encoder

        encoder = load_encoder(base or store.base.name, device=device)
        store.check_base(base_record(encoder))
        return encoder

    lock = threading.RLock()
    load = Once(read_base, lock)
    if base is not None:
        load()
    return open_engine(store, load, device=device, lock=lock, memory=memory, threads=threads)
