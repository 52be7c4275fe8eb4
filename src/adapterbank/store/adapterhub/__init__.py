"""Tasks to and from the folders of AdapterHub's `adapters` package, 1.x.

What crosses computes the same on both sides; what would not is refused by name, and the notes say
what was left behind. The modules: `places` (names of tensors), `settings` (of adapters), `heads`,
`reading` (files without trust), `exporting` and `importing`.
"""

from __future__ import annotations

from adapterbank.store.adapterhub.exporting import export_adapterhub
from adapterbank.store.adapterhub.importing import import_adapterhub
from adapterbank.store.adapterhub.places import BaseFacts

__all__ = ["BaseFacts", "export_adapterhub", "import_adapterhub"]
