"""A sample's name is no trap: what is not the user's own is said, and never follows what is."""

from __future__ import annotations

import pytest

from cli.conftest import QUICK


def test_a_bundled_sample_is_called_one(cli, base) -> None:
    done = cli("train", "support", "--base", base, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "support is a bundled sample; for your own rows: --train F." in done.stderr


@pytest.fixture
def own(cli, base, data):
    """A bank with a task of the user's own that has a sample's name."""
    done = cli("train", "support", "--train", data / "rows.csv", "--base", base, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "bundled" not in done.stderr
    return cli


def test_a_sample_does_not_follow_ones_own_task(own) -> None:
    for verb in ("train", "sweep"):
        done = own(verb, "support")
        assert done.returncode == 1
        assert "support is a bundled sample, and the bank has a task of that name" in done.stderr
        assert "--train F" in done.stderr
    assert "support@1" in own("tasks").stdout


def test_ones_own_task_is_not_scored_on_the_sample(own, data) -> None:
    done = own("show", "support", "--ablation")
    assert done.returncode == 1
    assert "has other labels than the known task of that name" in done.stderr
    assert "--data F" in done.stderr
    assert own("show", "support", "--ablation", "--data", data / "rows.csv").returncode == 0
