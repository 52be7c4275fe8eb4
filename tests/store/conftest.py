"""An object store with S3's semantics, on loopback."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """A server, and an environment that leads to it."""
    if find_spec("moto") is None or find_spec("s3fs") is None:
        pytest.skip("moto or s3fs is not installed")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str) -> str:
    """An empty bucket's URL."""
    import s3fs

    name = f"bank-{uuid.uuid4()}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}"
