"""Whatever is sent, the answer is one that is documented: by schemathesis, on a running service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from adapterbank.service.auth import Keys, Quotas
from service.conftest import make_bank
from service.server import served

UPLOADS = ("/inspect", "/train", "/package")
HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture(scope="module")
def place(tmp_path_factory, encoder) -> Iterator[tuple[str, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("fuzzed")
    store = make_bank(folder / "bank", encoder, {"plain": {}, "support": {}})
    quotas = Quotas(requests_a_second=1e6, waiting_jobs=1)
    key = Keys(store).create("default", "admin", quotas=quotas)
    with served(folder / "bank", folder) as server:
        yield server.url, {"Authorization": f"Bearer {key}"}


def fuzz(place: tuple[str, dict[str, str]], examples: int, **how: Any) -> None:
    """So many requests to each operation, right ones and wrong ones."""
    url, headers = place
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=headers)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    for operation in operations:
        # A schema cannot say what a readable file is.
        skipped = [positive_data_acceptance] if operation.path.endswith(UPLOADS) else []
        tries = settings(max_examples=examples, deadline=None, suppress_health_check=HEALTH, **how)
        tries(given(case=operation.as_strategy())(sender(headers, skipped)))()


def sender(headers: dict[str, str], skipped: list[Any]) -> Callable[[schemathesis.Case], None]:
    def send(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=headers, excluded_checks=skipped)

    return send


@schemathesis.serializer("application/gzip")
def as_it_is(_: schemathesis.SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def test_every_answer_is_documented(place) -> None:
    fuzz(place, 15, derandomize=True)


@pytest.mark.slow
def test_every_answer_is_documented_for_long(place) -> None:
    fuzz(place, 300)
