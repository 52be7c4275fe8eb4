"""Many units of work as one: each event as it comes, and at the end what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adapterbank.compute.protocol import Compute, Event, Work
from adapterbank.errors import ComputeError


def run_every(
    compute: Compute, works: list[Work], names: Mapping[str, str], what: str
) -> Iterator[Event]:
    """Run all; if some failed, an error once the others are done. `names` tell people which unit
    is meant, `what` they are called in the plural."""
    failed: list[str] = []
    for event in compute.run(works):
        yield event
        if event.kind == "failed":
            failed.append(f"{names[event.id]}: {event.payload['message']}")
    if failed:
        raise ComputeError(
            f"{len(failed)} of {len(works)} {what} failed; the first is {failed[0]}",
            "The others are kept: give the same command again to try these once more.",
        )
