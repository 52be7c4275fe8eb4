"""The service on Ray Serve: replicas of it wherever a cluster has room, behind Ray's own proxy.

    serve run adapterbank.service.ray_serve:app bank=s3://models/bank replicas=4

A replica is the whole service but for jobs: the same routes, keys and console, and one engine whose
batches hold whatever tasks are asked for. So Ray sends it many requests at once and batches none
itself: its multiplexing would load a model for each task and split batches by them.

Other deployments ask by handle, for any tenant's task by its full name:

    await serve.get_app_handle("default").predict.remote("acme/support", ["where is my parcel"])
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from ray import serve

from adapterbank.errors import ConfigError
from adapterbank.service.answers import prediction
from adapterbank.service.app import make_app
from adapterbank.service.limits import ANSWER_SECONDS
from adapterbank.service.server import configure_logs
from adapterbank.service.service import Service, Settings
from adapterbank.serving.open import open_bank_engine
from adapterbank.store.names import split_name, split_reference

AT_ONCE = 512  # requests that a replica may hold: the engine queues them, fairly between tenants


class Options(BaseModel):
    """What `serve run` takes, as NAME=VALUE."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bank: str
    base: str | None = None
    replicas: int = Field(1, ge=1)
    threads: int = Field(1, ge=1, description="Cores of each replica.")
    memory: int = Field(1024, ge=16, description="Room for tasks in each replica, in MB.")


def app(arguments: Options | dict[str, Any]) -> serve.Application:
    """The application, for `serve run` and configuration files, which give plain values."""
    options = Options.model_validate(arguments)

    def build() -> FastAPI:
        return make_app(open_service(options))

    replica = serve.ingress(build)(Replica)
    deployment = serve.deployment(
        name="adapterbank",
        num_replicas=options.replicas,
        max_ongoing_requests=AT_ONCE,
        ray_actor_options={"num_cpus": options.threads},
    )
    return deployment(replica).bind(options)


class Replica:
    """One process that answers."""

    def __init__(self, options: Options) -> None:
        self._service = open_service(options)

    async def predict(self, task: str | None, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Answers as over HTTP, for code within the cluster: it is trusted with every task. None
        for embeddings by the bare encoder."""
        tenant = "" if task is None else split_name(split_reference(task)[0])[0]
        future = await asyncio.to_thread(
            self._service.batcher.submit, task, inputs, tenant=tenant, seconds=ANSWER_SECONDS
        )
        answered = await asyncio.wrap_future(future)
        return [prediction(each) for each in answered.predictions]


@cache
def open_service(options: Options) -> Service:
    """The one service of this process. Ray's proxy can be reached from elsewhere, so that a bank
    without keys is refused."""
    engine = open_bank_engine(
        options.bank, options.base, memory=options.memory * 2**20, threads=options.threads
    )
    state = tempfile.mkdtemp(prefix="adapterbank-")
    atexit.register(shutil.rmtree, state, ignore_errors=True)
    service = Service(engine, Settings(Path(state), options.base, jobs=False, loopback=False))
    if not service.keys.any():
        raise ConfigError(
            "On Ray Serve every request needs a key, and the bank has none.",
            f"Make one: adapterbank keys create TENANT --bank {options.bank}.",
        )
    configure_logs()
    return service
