"""Every test is offline and quiet, on one thread so that workers don't fight for cores."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["ADAPTERBANK_CACHE"] = tempfile.mkdtemp(prefix="adapterbank-tests-")
atexit.register(shutil.rmtree, os.environ["ADAPTERBANK_CACHE"], ignore_errors=True)
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """A server with S3's semantics on loopback, and an environment that leads to it."""
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
