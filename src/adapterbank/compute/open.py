"""Where work runs, by name: `local`, `ray`, or a cluster's address."""

from __future__ import annotations

from adapterbank.compute.protocol import Compute
from adapterbank.errors import ConfigError

WORK = ".work"  # in a bank at a URL: files of units on their way
LOCAL = ("file://", "local://")


def check_on(on: str) -> None:
    """Refuse a place that there is not, before anything is loaded for it."""
    if on not in ("local", "ray") and not on.startswith("ray://"):
        raise ConfigError(f"--on is {on!r}.", "Choose from: local, ray, ray://HOST:PORT.")


def open_compute(
    on: str, processes: int | None = None, *, through: str | None = None, bank: str = ""
) -> Compute:
    """`processes` at once on this machine; on a cluster as many as its cores allow.

    `through` is a URL that all its machines reach, for clusters whose machines share no folders; a
    bank at such a URL serves for it.
    """
    check_on(on)
    if on == "local":
        from adapterbank.compute.local import LocalCompute

        return LocalCompute(processes)
    from adapterbank.compute.ray import RayCompute

    if through is None and "://" in bank and not bank.startswith(LOCAL):
        through = f"{bank.rstrip('/')}/{WORK}"
    return RayCompute("" if on == "ray" else on, through=through)
