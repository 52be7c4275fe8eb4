"""A Ray cluster of two nodes on this machine, all of it on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapterbank.compute import protocol

HERE = Path(__file__).parent
MEMORY = 80 * 2**20  # of each node's object store: nothing large travels
LOOPBACK = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # addresses are not turned into the machine's own
    "PYTHONPATH": str(HERE),
}


def let_toys_work() -> None:
    """In every worker: `toy_work` of this folder may be work, too."""
    from adapterbank.compute import protocol

    protocol.PACKAGE = ("toy_", "adapterbank.")  # type: ignore[assignment]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOOPBACK.items():
            patch.setenv(name, value)
        import ray  # not before: it reads the environment
        from ray.cluster_utils import Cluster

        patch.setattr(protocol, "PACKAGE", ("toy_", protocol.PACKAGE))
        head = {"num_cpus": 1, "include_dashboard": False, "node_ip_address": "127.0.0.1",
                "object_store_memory": MEMORY}  # fmt: skip
        made = Cluster(initialize_head=True, head_node_args=head)
        made.add_node(num_cpus=1, node_ip_address="127.0.0.1", object_store_memory=MEMORY)
        ray.init(
            address=made.address,
            runtime_env={"worker_process_setup_hook": let_toys_work},
            log_to_driver=False,
        )
        yield made
        ray.shutdown()
        made.shutdown()
