"""AdapterBank: one frozen text encoder, a bank of tasks.

Public names are imported when they are first used, so that `import adapterbank` is instant.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapterbank.bank import Bank as Bank
    from adapterbank.client import Client as Client
    from adapterbank.errors import AdapterBankError as AdapterBankError
    from adapterbank.model.attach import Attachment as Attachment
    from adapterbank.model.attach import attach as attach
    from adapterbank.model.config import AdapterConfig as AdapterConfig
    from adapterbank.model.encoder import Encoder as Encoder
    from adapterbank.model.encoder import load_encoder as load_encoder
    from adapterbank.model.methods import Method as Method
    from adapterbank.model.methods import apply_method as apply_method
    from adapterbank.store.attached import load_adapters as load_adapters
    from adapterbank.store.attached import save_adapters as save_adapters
    from adapterbank.tasks.predictions import Prediction as Prediction

__version__ = "0.1.0"

# torch's threads wait for each other a thousand times a second, spinning. With another program busy
# on the machine each such wait may take a time slice, and training be ten times slower. Threads
# that lie down to sleep after so many turns cost 1.5 per cent on a quiet machine (1,000 turns: 5).
# Read when torch is first imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
# oneDNN, and torch once more, keep a program for each shape of a product: a thousand of them,
# 0.7 MB each, scattered over the heap. Packed batches have a new shape at every step, so these
# are never asked for again; with the last few alone, training takes 0.6 GB less after 40 steps and
# is up to 4 per cent faster.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "32")

_HOMES = {
    "AdapterBankError": "errors",
    "Bank": "bank",
    "Client": "client",
    "Prediction": "tasks.predictions",
    "AdapterConfig": "model.config",
    "Attachment": "model.attach",
    "attach": "model.attach",
    "Encoder": "model.encoder",
    "load_encoder": "model.encoder",
    "Method": "model.methods",
    "apply_method": "model.methods",
    "load_adapters": "store.attached",
    "save_adapters": "store.attached",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'adapterbank' has no attribute {name!r}")
    return getattr(importlib.import_module(f"adapterbank.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
