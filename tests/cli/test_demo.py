"""The demo cleans up behind itself, and says in its exit code that something is wrong."""

from __future__ import annotations

import json

import pytest

from adapterbank import Bank
from adapterbank.cli import demo
from adapterbank.tasks.samples import load_sample
from adapterbank.verify import Verdict


def test_no_state_of_a_run_is_left(base, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.training.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("adapterbank.training.checkpoint.COST", 1e9)
    monkeypatch.setattr(demo, "EPOCHS", 1)
    home = Bank.open(tmp_path / "bank", str(base))
    assert demo._learn(home, load_sample("reviews"), 0)["version"] == 1
    assert not list((tmp_path / "bank" / ".runs").rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("verified", "unchanged", "code"), [(True, True, 0), (False, True, 1), (True, False, 1)]
)
def test_the_exit_code(cli, base, monkeypatch, verified, unchanged, code) -> None:
    monkeypatch.setattr("adapterbank.bank.MINILM", str(base))
    monkeypatch.setattr(demo, "_learn", lambda *_: {})
    monkeypatch.setattr(demo, "_ask", lambda _: [])
    monkeypatch.setattr(demo, "_unchanged", lambda *_: unchanged)
    monkeypatch.setattr(Bank, "predict", lambda *_: [])
    monkeypatch.setattr(Bank, "verify", lambda _: [Verdict("mood", 1, verified)])
    done = cli("demo", "--json")
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["verified"] == verified
