"""`adapterbank serve`: the bank as an HTTP service with a console."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from adapterbank.cli.options import BankOption, BaseOption, StateOption, ThroughOption

JobsOn = Annotated[
    str, typer.Option("--jobs-on", help="Where tasks are trained: local, ray, ray://HOST:PORT.")
]


def serve(
    bank: BankOption = "bank",
    base: BaseOption = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any.")] = 8000,
    state: StateOption = None,
    jobs: Annotated[bool, typer.Option(help="Train tasks here.")] = True,
    jobs_at_once: Annotated[int, typer.Option(min=1, help="Tasks that are trained at once.")] = 1,
    job_threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of each.", show_default="the cores shared out"),
    ] = None,
    job_nice: Annotated[
        int, typer.Option(min=0, max=19, help="How far training steps back for answers.")
    ] = 10,
    jobs_on: JobsOn = "local",
    through: ThroughOption = None,
    threads: Annotated[
        int, typer.Option(min=0, help="Threads that answer.", show_default="the cores")
    ] = 0,
    memory: Annotated[int, typer.Option(min=16, help="Room for tasks that answer, in MB.")] = 1024,
) -> None:
    """Serve the bank over HTTP: tasks answer, customers' rows become tasks, a console shows it all.

    Without keys it listens on this machine alone. Ctrl-C or SIGTERM stops it in order: requests are
    answered, jobs are kept and go on when it is back.

    [bold]Examples[/bold]

      adapterbank serve

      adapterbank keys create acme --bank /srv/bank

      adapterbank serve --bank /srv/bank --host 0.0.0.0 --port 80

      adapterbank serve --bank s3://models/bank --state /var/lib/adapterbank --no-jobs
    """
    from adapterbank.compute.open import open_compute
    from adapterbank.errors import ConfigError
    from adapterbank.serving.open import open_bank_engine

    try:
        from adapterbank.service.server import is_loopback
        from adapterbank.service.server import serve as run
        from adapterbank.service.service import Service, Settings
    except ImportError as error:
        raise ConfigError(
            f"The service needs {error.name}.", "Install it: pip install 'adapterbank[serve]'."
        ) from error

    engine = open_bank_engine(bank, base, memory=memory * 2**20, threads=threads)
    settings = Settings(
        state or engine.store.local / ".service",
        base=base,
        jobs=jobs,
        jobs_at_once=jobs_at_once,
        job_threads=job_threads,
        job_nice=job_nice,
        jobs_on=None if jobs_on == "local" else open_compute(jobs_on, through=through, bank=bank),
        loopback=is_loopback(host),
    )
    service = Service(engine, settings)

    def announce(url: str) -> None:
        print(f"The console is at {url} as soon as it is ready.", file=sys.stderr)

    run(service, host, port, announce)
