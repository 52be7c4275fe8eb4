"""Labelled rows in, a job that learns them."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from adapterbank.errors import DataError
from adapterbank.service.answers import answer, with_options
from adapterbank.service.auth import Caller
from adapterbank.service.jobs import Job
from adapterbank.service.routes.parts import (
    JobPath,
    Reader,
    Running,
    TaskName,
    Trainer,
    Training,
    gives,
    passing_folder,
    takes_form,
)
from adapterbank.service.runner import Jobs
from adapterbank.service.schemas import Inspection, JobList, JobView, TrainOptions, parse
from adapterbank.service.service import Service
from adapterbank.service.uploads import save_form
from adapterbank.store.names import check_name

ROWS = "Labelled rows: csv, tsv, jsonl, parquet, or SQuAD's json."
PING_SECONDS = 15.0  # between two signs of life of a stream that has nothing to tell
router = APIRouter(tags=["training"])


@router.post("/v1/inspect", **takes_form(file=ROWS), **gives(Inspection, 408, 413))
async def inspect(caller: Trainer, service: Running, request: Request) -> Response:
    """What a file holds, and what would be learnt from it. Nothing is kept."""
    async with passing_folder(service) as folder:
        files, options = await _uploaded(caller, request, folder, ["file"])
        reading = options.reading()
        reading.pop("skip_bad", None)
        arguments = {"file": str(folder / files["file"]), "reading": reading}
        found = await run_in_threadpool(
            service.apart.call, "adapterbank.service.inspect_work", arguments, caller.tenant
        )
    if found["error"]:
        found["error"]["hint"] = with_options(found["error"]["hint"])
    return answer(found)


@router.post(
    "/v1/tasks/{task}/train",
    **takes_form(file=ROWS, dev="Rows to select by.", test="Rows that only the last score sees."),
    **gives(JobView, 404, 408, 413, status=202),
)
async def train(
    caller: Trainer, service: Running, jobs: Training, task: TaskName, request: Request
) -> Response:
    """Learn a task from labelled rows, as a job. The rows are deleted when it has ended."""
    check_name(task)
    await run_in_threadpool(jobs.check_room, caller)
    await run_in_threadpool(service.check_room, caller, task)
    folder = await run_in_threadpool(jobs.new_folder)
    try:
        files, options = await _uploaded(caller, request, folder, ["file", "dev", "test"])
        learning = options.learning()
        if options.from_version is not None:
            if options.positive:
                raise DataError(
                    "positive goes with a task that begins anew.", "A version keeps its own."
                )
            reference = service.reference(caller, options.from_version)
            learning["from_version"] = str(await run_in_threadpool(service.store.find, reference))
        wanted = {
            "files": {"train" if name == "file" else name: at for name, at in files.items()},
            "reading": options.reading(),
            "learning": learning,
            "even_if_worse": options.even_if_worse,
            "max_rows": options.max_rows,
            "keep_data": options.keep_data,
        }
        names = await run_in_threadpool(service.names, caller)
        job = await run_in_threadpool(jobs.add, folder, caller, task, wanted, names)
    except BaseException:
        await asyncio.shield(run_in_threadpool(shutil.rmtree, folder, ignore_errors=True))
        raise
    return answer(view(job), 202, {"Location": f"/v1/jobs/{job.id}"})


@router.get("/v1/jobs", **gives(JobList))
async def list_jobs(caller: Reader, jobs: Training) -> Response:
    """The tenant's jobs, the newest first."""
    found = await run_in_threadpool(jobs.table.of, caller.tenant)
    return answer({"jobs": [view(job) for job in found]})


@router.get("/v1/jobs/{job}", **gives(JobView, 404))
async def show_job(caller: Reader, jobs: Training, job: JobPath) -> Response:
    """One job."""
    return answer(view(await run_in_threadpool(jobs.table.get, job, caller.tenant)))


@router.post("/v1/jobs/{job}/cancel", **gives(JobView, 404))
async def cancel_job(caller: Trainer, jobs: Training, job: JobPath) -> Response:
    """End a job. One that is over stays as it is."""
    return answer(view(await run_in_threadpool(jobs.cancel, job, caller.tenant)))


@router.get("/v1/jobs/{job}/events", **gives(None, 404, media="text/event-stream"))
async def follow_job(
    caller: Reader,
    service: Running,
    jobs: Training,
    request: Request,
    job: JobPath,
    after: Annotated[int, Query(ge=-1, le=2**53)] = -1,
) -> Response:
    """What happens to a job, as server-sent events, from the beginning or after a number."""
    await run_in_threadpool(jobs.table.get, job, caller.tenant)
    service.streams.check(caller.tenant)
    last = request.headers.get("last-event-id", "")
    start = int(last) if last.isdecimal() and len(last) < 16 else after
    return StreamingResponse(
        _events(service, jobs, caller.tenant, job, start), media_type="text/event-stream"
    )


def view(job: Job) -> dict[str, Any]:
    """A job for its owner."""
    failed = job.state == "failed"
    return {
        "id": job.id,
        "task": job.task,
        "state": job.state,
        "created": job.created,
        "started": job.started,
        "ended": job.ended,
        "result": job.outcome if job.state == "done" else None,
        "error": {"code": "failed", **(job.outcome or {})} if failed else None,
    }


async def _uploaded(
    caller: Caller, request: Request, folder: Path, names: list[str]
) -> tuple[dict[str, str], TrainOptions]:
    """The files of a form, now in the folder, and its options."""
    limit = caller.quotas.upload_bytes
    form = await save_form(request, folder, limit, files=names, texts=["options"])
    if names[0] not in form.files:
        raise DataError("There is no file.", f"Send one as the form's field `{names[0]}`.")
    return form.files, parse(TrainOptions, form.texts.get("options") or "{}", "options")


async def _events(
    service: Service, jobs: Jobs, tenant: str, id: str, after: int
) -> AsyncIterator[str]:
    """A job's events until it is over, and its state whenever that changes."""
    state = ""
    with service.streams.place(tenant), service.hearing(id) as news:
        while True:
            news.clear()
            job = await run_in_threadpool(jobs.table.find, id)
            if job is None:
                return
            while some := await run_in_threadpool(jobs.table.events, id, after):
                for number, event in some:
                    yield f"id: {number}\ndata: {event}\n\n"
                after = some[-1][0]
            if job.state != state:
                state = job.state
                yield f"event: job\ndata: {json.dumps(view(job))}\n\n"
            if job.over or service.closing:
                return
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await news.wait()
            except TimeoutError:
                yield ": still here\n\n"
