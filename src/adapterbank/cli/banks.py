"""A bank for those verbs that only ask: without torch, as long as no task needs it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from adapterbank.serving.engine import Engine, open_engine
from adapterbank.store.store import Store

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder


def open_bank_engine(url: str, base: str | None, device: str) -> Engine:
    """What answers for a bank that is there. A base that is named is loaded and compared."""
    store = Store.open(url)

    @cache
    def load() -> Encoder:
        from adapterbank.bank import base_record
        from adapterbank.model.encoder import load_encoder

        encoder = load_encoder(base or store.base.name, device=device)
        store.check_base(base_record(encoder))
        return encoder

    if base is not None:
        load()
    return open_engine(store, load, device=device)
