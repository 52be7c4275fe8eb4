"""Several processes take the steps of one: `accelerate launch` on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from adapterbank.training.team import Team
from tiny import save_base

WORK = Path(__file__).parent / "team_work.py"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def launch(processes: int, *words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script or module in so many processes, as a person would."""
    environment = {
        **os.environ,
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "HF_HOME": str(folder / "home"),  # no settings of this machine
        "OMP_NUM_THREADS": "1",
    }
    command = [
        sys.executable, "-m", "accelerate.commands.launch", "--num_machines", "1",
        # Its way to start several processes on one machine has this name, whatever they run on.
        "--multi_gpu" if processes > 1 else "--cpu",
        "--num_processes", str(processes), "--mixed_precision", "no", "--dynamo_backend", "no",
        "--main_process_ip", "127.0.0.1", "--main_process_port", str(free_port()),
    ]  # fmt: skip
    return subprocess.run(
        [*command, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
        cwd=folder,
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adapters", "full"])
def test_two_processes_equal_one(tmp_path, method) -> None:
    base = save_base(tmp_path / "base")
    found = {}
    for processes in (1, 2):
        out = tmp_path / f"{processes}"
        done = launch(processes, WORK, base, method, out, folder=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(out.with_suffix(".json").read_text())
        assert told["processes"] == processes
        found[processes] = (told["losses"], load_file(out.with_suffix(".safetensors")))
    losses, tensors = zip(*found.values(), strict=True)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[0][0] != losses[0][5]
    for name, tensor in tensors[0].items():
        torch.testing.assert_close(tensors[1][name], tensor, atol=2e-5, rtol=1e-4)


@pytest.mark.slow
def test_the_verb_in_two_processes_publishes_once(tmp_path) -> None:
    base = save_base(tmp_path / "base")
    rows = tmp_path / "rows.csv"
    lines = [f"{'good' if i % 2 else 'bad'} thing number {i},{i % 2}" for i in range(60)]
    rows.write_text("\n".join(["text,label", *lines]) + "\n")
    done = launch(
        2, "-m", "adapterbank", "train", "mood", "--train", rows, "--base", base,
        "--bank", tmp_path / "bank", "--epochs", "2", "--size", "4", "--json", folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["version"] == 1  # one document on stdout
    assert done.stderr.count("Loading the base") == 1


def test_a_share_is_every_row_once() -> None:
    batch = list(range(11))
    shares = [Team(3, rank).share(batch) for rank in range(3)]
    assert sorted(row for share in shares for row in share) == batch
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert Team(3, 2).share([1, 2]) == []
    assert Team().share(batch) == batch
