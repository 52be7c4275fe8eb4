"""Run the service under uvicorn, and stop it in order."""

from __future__ import annotations

import ipaddress
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from adapterbank.errors import ConfigError
from adapterbank.service.app import make_app
from adapterbank.service.service import Service

GRACE_SECONDS = 30  # for requests that are being answered


class Server(uvicorn.Server):
    """Lets go of those who follow a job when it is to stop: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Told to stop, it ends as one that is done: uvicorn itself would die of the signal."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; told twice, at once."""
        self.service.hang_up()
        super().handle_exit(sig, frame)


def serve(service: Service, host: str, port: int) -> None:
    """Answer until told to stop by SIGTERM or Ctrl-C."""
    if not service.settings.loopback and not service.keys.any():
        raise ConfigError(
            f"Without keys the service listens on this machine alone, and {host} is more.",
            "Make a key first: adapterbank keys create TENANT; or leave --host out.",
        )
    configure_logs()
    config = uvicorn.Config(
        make_app(service),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        limit_concurrency=2_000,
        h11_max_incomplete_event_size=64 * 2**10,
    )
    Server(config, service).run()


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def configure_logs() -> None:
    """Requests as JSON lines, everything else as text, on standard error."""
    plain = logging.StreamHandler(sys.stderr)
    plain.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[plain], force=True)
    logging.getLogger("adapterbank").setLevel(logging.INFO)
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("adapterbank.access")
    access.handlers, access.propagate = [lines], False
