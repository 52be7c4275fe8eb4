"""Heads of every kind against the losses written out, and pooling."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from adapterbank.errors import ConfigError, UnsupportedBase
from adapterbank.model.encoder import load_encoder
from adapterbank.model.heads import Head
from adapterbank.model.sites import sites_of
from adapterbank.model.task_model import TaskModel
from tiny import rows, save_base, tiny

LENGTHS = torch.tensor([4, 1, 6])


def test_head_is_dropout_and_one_linear_layer() -> None:
    torch.manual_seed(0)
    head = Head("classification", 512, 200)
    assert head.dropout.p == 0.1
    assert sum(p.numel() for p in head.parameters()) == 200 * 513
    assert not head.linear.bias.any()
    assert head.linear.weight.abs().max() <= 0.04
    assert head.linear.weight.std().item() == pytest.approx(0.880 * 0.02, rel=0.02)


def test_classification_loss() -> None:
    head, logits = Head("classification", 8, 4), torch.randn(3, 4)
    targets = torch.tensor([0, 3, 1])
    expected = -torch.log_softmax(logits, -1)[range(3), targets].mean()
    torch.testing.assert_close(head.loss(logits, targets, LENGTHS), expected)


def test_multi_label_loss() -> None:
    head, logits = Head("multi-label", 8, 4), torch.randn(3, 4)
    targets = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 1]])
    p = torch.sigmoid(logits)
    expected = -(targets * p.log() + (1 - targets) * (1 - p).log()).mean()
    torch.testing.assert_close(head.loss(logits, targets, LENGTHS), expected)


def test_regression_loss() -> None:
    head, logits = Head("regression", 8), torch.randn(3, 1)
    targets = torch.tensor([0.5, 2, 5])
    expected = ((logits[:, 0] - targets) ** 2).mean()
    torch.testing.assert_close(head.loss(logits, targets, LENGTHS), expected)


def test_span_loss_stays_within_each_row() -> None:
    head, logits = Head("span", 8), torch.randn(11, 2, requires_grad=True)
    targets = torch.tensor([[0, 3], [0, 0], [2, 5]])
    loss = head.loss(logits, targets, LENGTHS)
    parts = []
    for row, (start, end) in zip(logits.split(LENGTHS.tolist()), targets, strict=True):
        parts += [F.cross_entropy(row[:, 0], start), F.cross_entropy(row[:, 1], end)]
    torch.testing.assert_close(loss, torch.stack(parts).mean())
    loss.backward()
    assert logits.grad.isfinite().all()


def test_too_few_labels() -> None:
    with pytest.raises(ConfigError, match="at least 2 labels, and got 1"):
        Head("classification", 8, 1)
    with pytest.raises(ConfigError, match="kind is 'ranking'"):
        Head("ranking", 8, 1)


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_pooler_pooling_is_the_librarys(name: str, tmp_path) -> None:
    encoder = load_encoder(str(save_base(tmp_path, name)))
    assert encoder.pooling == "pooler"
    model = TaskModel(encoder, "classification", 2).eval()
    token_rows = rows([5, 9, 3])
    with torch.no_grad():
        with model.packing():
            batch = model.collate(token_rows)
            pooled = model.pool(model.states(batch), batch.lengths)
        expected = torch.cat([encoder.model(torch.tensor([r])).pooler_output for r in token_rows])
    torch.testing.assert_close(pooled, expected, rtol=1e-4, atol=1e-5)


def test_first_and_mean_pooling(tmp_path) -> None:
    folder = str(save_base(tmp_path))
    token_rows = rows([5, 9, 3])
    for pooling in ("first", "mean"):
        encoder = load_encoder(folder, pooling=pooling)
        model = TaskModel(encoder, "classification", 2).eval()
        with torch.no_grad(), model.packing():
            batch = model.collate(token_rows)
            hidden = model.states(batch)
            pooled = model.pool(hidden, batch.lengths)
        pieces = hidden.split([5, 9, 3])
        expected = [piece[0] if pooling == "first" else piece.mean(0) for piece in pieces]
        torch.testing.assert_close(pooled, torch.stack(expected))


def test_the_frozen_pooler_does_not_train(tmp_path) -> None:
    encoder = load_encoder(str(save_base(tmp_path)))
    model = TaskModel(encoder, "classification", 2)
    assert not any(p.requires_grad for p in encoder.model.pooler.parameters())
    model.release()


def test_no_pooler_to_use() -> None:
    with pytest.raises(UnsupportedBase, match="no trained pooler"):
        sites_of(tiny("electra").config).pool(tiny("electra"), torch.randn(1, 32))
