"""Run the service under uvicorn, and stop it in order."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

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


def serve(
    service: Service, host: str, port: int, announce: Callable[[str], None] = lambda _: None
) -> None:
    """Answer until told to stop by SIGTERM or Ctrl-C. `announce` is called with the URL once it is
    clear that neither the port nor the jobs are another's."""
    if not service.settings.loopback and not service.keys.any():
        raise ConfigError(
            f"Without keys the service listens on this machine alone, and {host} is more.",
            "Make a key first: adapterbank keys create TENANT; or leave --host out.",
        )
    with ExitStack() as closing:
        sockets = [closing.enter_context(each) for each in bind(host, port)]
        service.open_jobs()
        announce(f"http://{host}:{sockets[0].getsockname()[1]}/")
        configure_logs()
        Server(_configured(service), service).run(sockets)


def _configured(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        limit_concurrency=2_000,
        h11_max_incomplete_event_size=64 * 2**10,
    )


def bind(host: str, port: int) -> list[socket.socket]:
    """The sockets of an address, which do not listen yet. Of several addresses of a
    name, one that this machine lacks (localhost's ::1, perhaps) is left out."""
    found: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            chosen = port or (found[0].getsockname()[1] if found else 0)
            try:
                found.append(_bound(family, (address[0], chosen, *address[2:])))
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = error
        if missing is not None and not found:
            raise missing
    except OSError as error:
        for made in found:
            made.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"Port {port} is in use.", "Choose another with --port.") from error
        raise ConfigError(
            f"The service cannot listen on {host}, port {port}: {error.strerror}.",
            "Choose others with --host and --port.",
        ) from error
    return found


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let two have the port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


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
