"""What the service counts, in Prometheus' form. A tenant sees its own counters and the totals."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from adapterbank.service.jobs import STATES, State
from adapterbank.serving.batcher import Batch
from adapterbank.serving.engine import Engine

SPACE = "adapterbank"
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests answered", "method", "route", "status")
        self.seconds = self._histogram("request_seconds", "Time to answer", SECONDS, "route")
        self.batch_rows = self._histogram("batch_rows", "Rows in a batch", SIZES)
        self.batch_tasks = self._histogram("batch_tasks", "Tasks in a batch", SIZES)
        self.batch_tokens = self._counter("tokens", "Tokens that went through the encoder")
        self.batch_seconds = self._counter("batch_seconds", "Time that batches took")
        self._texts: Tally[str] = Tally()
        self._requests: Tally[str] = Tally()

    def _counter(self, name: str, said: str, *labels: str) -> Counter:
        return Counter(name, said, labels, namespace=SPACE, registry=self.registry)

    def _histogram(self, name: str, said: str, steps: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, said, labels, namespace=SPACE, registry=self.registry, buckets=steps)

    def _gauge(self, name: str, said: str, *labels: str) -> Gauge:
        return Gauge(name, said, labels, namespace=SPACE, registry=self.registry)

    def see_batch(self, batch: Batch) -> None:
        """Count a batch in."""
        self.batch_rows.observe(batch.rows)
        self.batch_tasks.observe(batch.tasks)
        self.batch_tokens.inc(batch.tokens)
        self.batch_seconds.inc(batch.seconds)

    def see_request(
        self, method: str, route: str, status: int, seconds: float, tenant: str | None
    ) -> None:
        """Count a request in. `route` is a template, so that no client can make new names."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        if tenant is not None:
            self._requests[tenant] += 1

    def see_texts(self, tenant: str, texts: int) -> None:
        """Count what a tenant has asked."""
        self._texts[tenant] += texts

    def watch_engine(self, engine: Engine, waiting: Callable[[], int]) -> None:
        """Show the engine's own numbers."""
        residency = engine.residency
        for name, said, read in (
            ("queue_rows", "Rows that wait", waiting),
            ("resident_tasks", "Tasks in memory", lambda: len(residency)),
            ("resident_bytes", "Memory of the tasks in it", lambda: residency.bytes),
            ("task_loads", "Tasks loaded", lambda: residency.counts.loads),
            ("task_hits", "Requests whose task was there", lambda: residency.counts.hits),
            ("task_evictions", "Tasks that had to go", lambda: residency.counts.evictions),
        ):
            self._gauge(name, said).set_function(read)

    def watch_jobs(self, counts: Callable[[], Mapping[State, int]]) -> None:
        """Show how many jobs are in each state."""
        gauge = self._gauge("jobs", "Training jobs", "state")
        for state in STATES:
            gauge.labels(state).set_function(partial(_count, counts, state))

    def text(self, tenant: str) -> bytes:
        """Everything, with the counters of this tenant alone."""
        own = "".join(
            f"# HELP adapterbank_tenant_{name}_total {said}\n"
            f"# TYPE adapterbank_tenant_{name}_total counter\n"
            f'adapterbank_tenant_{name}_total{{tenant="{tenant}"}} {tally[tenant]}\n'
            for name, said, tally in (
                ("requests", "Requests of the tenant", self._requests),
                ("texts", "Texts that the tenant has asked about", self._texts),
            )
        )
        return generate_latest(self.registry) + own.encode()


def _count(counts: Callable[[], Mapping[State, int]], state: State) -> int:
    return counts().get(state, 0)
