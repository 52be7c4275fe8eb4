"""The client, and the command line's verbs with --server, against a real service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapterbank import Client, client
from adapterbank.errors import (
    ComputeError,
    ConfigError,
    DataError,
    ServiceError,
    TaskNotFound,
    Unauthorized,
)
from adapterbank.service import limits
from adapterbank.service.auth import Keys
from adapterbank.serving.batcher import QUEUE_TOKENS
from adapterbank.serving.open import open_bank_engine
from service.conftest import make_bank
from service.server import Server, served
from service.test_training import QUICK, rows

TEXT = "wa wb wc"


@pytest.fixture(scope="module")
def server(tmp_path_factory, encoder) -> Iterator[tuple[Server, str]]:
    folder = tmp_path_factory.mktemp("served")
    forms = {"plain": {}, "pairs": {"pair": True}, "answers": {"kind": "span"}}
    store = make_bank(folder / "bank", encoder, forms)
    key = Keys(store).create("default", "admin")
    with served(folder / "bank", folder) as made:
        yield made, key


@pytest.fixture
def far(server) -> Iterator[Client]:
    made, key = server
    with Client(made.url, key) as client:
        yield client


def test_answers_are_those_of_the_engine(server, far) -> None:
    engine = open_bank_engine(server[0].bank)
    pair = {"text_a": "wa", "text_b": "wb"}
    mixed = [("plain", TEXT), (None, TEXT), ("pairs", pair), ("plain", 5)]
    found, wanted = far.predict_mixed(mixed), engine.answer(mixed)
    assert found[0].label == wanted[0].label
    assert found[0].probabilities == pytest.approx(wanted[0].probabilities, abs=1e-4)
    assert found[1].embedding == pytest.approx(wanted[1].embedding, abs=1e-4)
    assert isinstance(found[3].error, DataError)
    bad = [float("nan"), "half \ud800", TEXT]
    for some in (bad, bad[:2]):
        alike = far.predict("plain", some), far.predict_mixed([("plain", each) for each in some])
        errors = [isinstance(each, float) or "half" in each for each in some]
        assert [[bool(each.error) for each in found] for found in alike] == [errors, errors]
    with pytest.raises(TaskNotFound):
        far.predict("unknown", [float("nan")])
    many = far.predict("plain", [TEXT] * 600)
    assert len(many) == 600
    assert {each.label for each in many} == {wanted[0].label}
    assert set(far.predict_all(TEXT, ["plain"])) == {"plain"}
    assert far.route(TEXT) == []


def test_tasks_and_packages(far, tmp_path) -> None:
    assert {"answers", "pairs", "plain"} <= {each["task"] for each in far.tasks()}
    assert far.show("plain")["kind"] == "classification"
    far.export("plain", tmp_path / "plain.tar.gz")
    assert (tmp_path / "plain.tar.gz").stat().st_size > 1000
    with pytest.raises(TaskNotFound):
        far.export("unknown", tmp_path / "unknown.tar.gz")
    assert not (tmp_path / "unknown.tar.gz").exists()


def test_learn_waits_for_what_was_learnt(far, tmp_path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(rows())
    assert far.inspect(file)["kind"] == "classification"
    found = far.learn("parity", file, **QUICK)
    assert (found["task"], found["version"]) == ("parity", 1)
    assert far.predict("parity", [TEXT])[0].label in ("odd", "even")
    far.remove("parity")
    far.rollback("parity", 1)
    table = [line.split(",") for line in rows().splitlines()[1:]]
    given = [{"text": text, "label": label} for text, label in table]
    found = far.learn("given", iter(given), learning_rate=1e-3, precision="fp16", **QUICK)
    assert (found["task"], found["version"]) == ("given", 1)
    file.write_text(rows() + ",odd\n")
    with pytest.raises(ComputeError, match="row 49"):
        far.learn("parity", file, **QUICK)


def test_errors_are_ours(server, far, tmp_path) -> None:
    for key in (f"ab_{'0' * 16}_{'x' * 43}", ""):
        with Client(server[0].url, key) as stranger, pytest.raises(Unauthorized) as refused:
            stranger.tasks()
        assert "$ADAPTERBANK_KEY" in refused.value.hint
    with Client("http://127.0.0.1:9") as nobody, pytest.raises(ServiceError, match="reached"):
        nobody.tasks()
    with pytest.raises(DataError, match="no file"):
        far.train("x", tmp_path / "missing.csv")
    with pytest.raises(DataError, match="sise"):
        far.inspect(_csv(tmp_path), sise=1)


def test_requests_are_within_the_limits_of_a_service() -> None:
    assert client.LONGEST == limits.CHARACTERS
    assert client.AT_ONCE <= limits.INPUTS
    # A tenant that is alone may have half of the queue waiting, at about four characters a token.
    assert client.CHARACTERS <= 4 * QUEUE_TOKENS // 2


def test_an_address_begins_with_its_scheme() -> None:
    for url in ("localhost:8123", "127.0.0.1:8000", "ftp://host"):
        with pytest.raises(ConfigError, match="Begin it with http://"):
            Client(url)


def _csv(folder: Path) -> Path:
    file = folder / "rows.csv"
    file.write_text(rows())
    return file


def run(server: tuple[Server, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    made, key = server
    return subprocess.run(
        [sys.executable, "-m", "adapterbank", *arguments, "--server", made.url],
        capture_output=True,
        text=True,
        env=os.environ | {"ADAPTERBANK_KEY": key},
    )


def test_the_verbs_work_far_away(server, tmp_path: Path) -> None:
    listed = run(server, "tasks", "--json")
    assert {"plain", "pairs"} <= {each["task"] for each in json.loads(listed.stdout)["tasks"]}
    assert "plain@1" in run(server, "tasks").stdout
    there = ("--bank", str(server[0].bank))
    near = subprocess.run(
        [sys.executable, "-m", "adapterbank", "predict", "plain", TEXT, "--json", *there],
        capture_output=True,
        text=True,
    )
    away = run(server, "predict", "plain", TEXT, "--json")
    here, there = json.loads(near.stdout), json.loads(away.stdout)
    assert here["label"] == there["label"]
    assert here["probabilities"] == pytest.approx(there["probabilities"], abs=1e-4)
    pair = run(server, "predict", "pairs", "wa", "wb", "--json")
    assert "label" in json.loads(pair.stdout)
    file = tmp_path / "rows.csv"
    file.write_text(rows())
    trained = run(
        server, "train", "far", "--train", str(file), "--epochs", "1", "--no-baselines", "--json"
    )
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["version"] == 1
    assert "far: done" in trained.stderr
    missing = run(server, "predict", "unknown", TEXT)
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: ")
    assert "Traceback" not in missing.stderr
