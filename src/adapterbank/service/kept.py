"""What a service keeps of a task in its state folder, deleted while it is not running."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from adapterbank.errors import BankError
from adapterbank.service.jobs import TABLE, JobTable
from adapterbank.service.runner import lock_state


def purge_kept(state: Path, tenant: str, task: str) -> bool:
    """Delete a task's jobs and the rows that were sent; whether there were any. A running service
    that has some is an error."""
    if not (state / TABLE).is_file():
        return False
    with closing(JobTable(state / TABLE)) as table:
        known = [job for job in table.of(tenant, most=-1) if job.task == task]
        if not known:
            return False
        try:
            lock = lock_state(state)
        except BankError as error:
            raise BankError(
                "A running service has jobs of this task, and may keep the rows that were sent.",
                f"Purge it there: DELETE /v1/tasks/{task}?purge=true; or stop the service first.",
            ) from error
        with lock:
            for job in known:
                table.end(job.id, "cancelled")
            for id in table.purge(tenant, task):
                shutil.rmtree(state / "data" / id, ignore_errors=True)
    return True
