"""Before a service runs: what is another's is said in a line."""

from __future__ import annotations

import socket

import pytest

from adapterbank.errors import ConfigError
from adapterbank.service.runner import lock_state
from adapterbank.service.server import bind
from cli.conftest import call
from service.conftest import make_bank


@pytest.fixture
def taken():
    """A port that another listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_is_free_or_another_is_to_be_chosen(taken) -> None:
    with pytest.raises(ConfigError, match=f"Port {taken} is in use") as caught:
        bind("127.0.0.1", taken)
    assert caught.value.hint == "Choose another with --port."
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1, port 0: "):
        bind("192.0.2.1", 0)
    for host in ("127.0.0.1", "localhost"):
        found = bind(host, 0)
        (port,) = {each.getsockname()[1] for each in found}
        assert port > 0
        for each in found:
            each.close()


def test_what_is_in_the_way_is_one_line_and_exit_1(tmp_path, encoder, taken) -> None:
    make_bank(tmp_path / "bank", encoder, {"plain": {}})
    serve = ("serve", "--bank", tmp_path / "bank", "--port")
    done = call(*serve, taken)
    expected = f"error: Port {taken} is in use. Choose another with --port.\n"
    assert (done.returncode, done.stderr) == (1, expected)
    with lock_state(tmp_path / "bank" / ".service"):
        done = call(*serve, 0)
    assert done.returncode == 1
    assert done.stderr.startswith("error: Another service has these jobs already. Give this one")
    assert done.stderr.count("\n") == 1
