"""Where work runs, by name: `local`, `ray`, or a cluster's address."""

from __future__ import annotations

from adapterbank.compute.protocol import Compute
from adapterbank.errors import ConfigError

ON_HELP = "Where runs take place: local, ray, or ray://HOST:PORT of a cluster."


def open_compute(
    on: str, processes: int | None = None, *, nice: int = 0, through: str | None = None
) -> Compute:
    """`processes` at once on this machine; on a cluster as many as its cores allow. `through` is a
    URL that all its machines reach, for clusters whose machines share no folders."""
    if on == "local":
        from adapterbank.compute.local import LocalCompute

        return LocalCompute(processes, nice=nice)
    if on == "ray" or on.startswith("ray://"):
        from adapterbank.compute.ray import RayCompute

        return RayCompute("" if on == "ray" else on, through=through)
    raise ConfigError(f"--on is {on!r}.", "Choose from: local, ray, ray://HOST:PORT.")
