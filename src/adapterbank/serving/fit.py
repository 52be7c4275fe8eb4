"""Whether a package fits the base, in what a package alone cannot tell: width, layers, LayerNorms.

The rest, one tensor against another, was compared when the package was read. Tasks that changed the
base itself are compared with it when they are put on it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from adapterbank.errors import PackageError
from adapterbank.store.manifest import DAMAGED, Manifest
from adapterbank.store.package import Package

Norms = Mapping[str, tuple[int, ...]]  # the shapes of LayerNorms' tensors, by neutral name


def check_fit(package: Package, base: Norms) -> None:
    """Refuse a package whose tensors are of another shape than the base's."""
    manifest, arrays = package.manifest, package.arrays
    layers = 1 + max(_layer(name) for name in base if name.startswith("layer."))
    (width,) = base[f"layer.{layers - 1}.output.norm.weight"]
    found = arrays["head.weight"].shape[1]
    if found != width:
        raise _misfit(f"its head reads {found} numbers, and the base gives {width}")
    if manifest.method.name in ("full", "top-k"):
        return
    if manifest.adapter is not None:
        adapted = {_layer(name) for name in arrays if name.endswith(".down.weight")}
        if adapted != set(manifest.adapter.layers or range(layers)) or max(adapted) >= layers:
            raise _misfit(f"the base has {layers} layers, and it has adapters in others")
    wanted = _trained(manifest, base)
    norms = {name: array.shape for name, array in arrays.items() if ".norm." in name}
    wrong = [name for name in {*norms, *wanted} if norms.get(name) != wanted.get(name)]
    if wrong:
        raise _misfit(f"{min(wrong)!r} is missing, of another shape, or none of the base's")


def _trained(manifest: Manifest, base: Norms) -> Norms:
    """The LayerNorms that the task has of its own: none below its lowest adapters."""
    adapter = manifest.adapter
    if manifest.method.name == "head" or (adapter and not adapter.train_layer_norms):
        return {}
    lowest = adapter.layers[0] if adapter and adapter.layers else 0
    return {name: shape for name, shape in base.items() if _layer(name) >= lowest}


def _layer(name: str) -> int:
    """Where a tensor stands: what comes before or across the layers counts as in the first."""
    place, number, *_ = name.split(".")
    return int(number) if place == "layer" else sys.maxsize if place == "final" else 0


def _misfit(problem: str) -> PackageError:
    return PackageError(f"The package does not fit the base: {problem}.", DAMAGED)
