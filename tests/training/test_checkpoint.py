"""A run's state on disk: whole or not at all, at bounded cost, refused when damaged."""

from __future__ import annotations

import pytest
import torch

from adapterbank.errors import CheckpointError
from adapterbank.model.encoder import load_encoder
from adapterbank.training import checkpoint as module
from adapterbank.training.checkpoint import Checkpoint
from adapterbank.training.recipe import Recipe
from tiny import save_base
from training.toy import started

RECIPE = Recipe(1e-2, epochs=2, batch_size=16)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(str(save_base(tmp_path_factory.mktemp("base"))), pooling="mean")


def finished(run) -> dict[str, torch.Tensor]:
    list(run.events())
    return {name: tensor.clone() for name, tensor in run.model.tensors().items()}


def test_a_saved_run_goes_on_to_the_same_tensors(encoder, tmp_path) -> None:
    place = Checkpoint(tmp_path / "deep" / "run.safetensors")
    with started(encoder, RECIPE) as (_, run):
        events = run.events()
        for _ in range(3):
            next(events)
        place.save(run)
        events.close()
    with started(encoder, RECIPE) as (_, run):
        whole = finished(run)
    with started(encoder, RECIPE) as (_, run):
        assert place.restore(run)
        assert run.step == 3
        again = finished(run)
    assert all(torch.equal(again[name], whole[name]) for name in whole)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run.safetensors"]
    left = place.path.with_suffix(".4711.partial")  # by a process killed as it wrote
    left.mkdir()
    (left / ".tmpAb12").write_bytes(b"half")
    place.remove()
    assert not list(place.path.parent.glob(f"{place.path.stem}*"))


def test_nothing_saved_is_a_fresh_start(encoder, tmp_path) -> None:
    with started(encoder, RECIPE) as (_, run):
        assert not Checkpoint(tmp_path / "none.safetensors").restore(run)
        assert run.step == 0


@pytest.mark.parametrize("damage", ["cut", "other", "empty"])
def test_a_damaged_state_is_refused(encoder, tmp_path, damage) -> None:
    place = Checkpoint(tmp_path / "run.safetensors")
    with started(encoder, RECIPE) as (_, run):
        place.save(run)
        content = place.path.read_bytes()
        new = {"cut": content[:-8], "other": b"PK" + content, "empty": b""}[damage]
        place.path.write_bytes(new)
        with pytest.raises(CheckpointError, match=r"cannot be read: .*without --resume"):
            place.restore(run)


def test_a_place_that_cannot_be_written_is_an_error_and_leaves_nothing(
    encoder, tmp_path, monkeypatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "save_file", full)
    with (
        started(encoder, RECIPE) as (_, run),
        pytest.raises(CheckpointError, match="No space left") as caught,
    ):
        Checkpoint(tmp_path / "run.safetensors").save(run)
    assert not list(tmp_path.iterdir())
    assert str(tmp_path) in caught.value.hint
    assert "--runs" not in caught.value.hint  # no verb has it


def test_slow_writes_are_made_less_often(monkeypatch, tmp_path) -> None:
    """A write that takes two seconds is followed by a hundred seconds without one."""
    now = 0.0
    saves = []

    class Slow(Checkpoint):
        def save(self, run) -> None:
            nonlocal now
            saves.append(now)
            now += 2.0

    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    place = Slow(tmp_path / "run")
    for _ in range(400):
        now += 1.0
        place.save_if_due(None)
    assert len(saves) == 4
    assert (400 + 2 * len(saves)) * module.COST >= 2 * len(saves) - 2
