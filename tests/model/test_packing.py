"""Packed and padded runs agree, in outputs and in gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from adapterbank.errors import PackingError
from adapterbank.model.attention import Bounds, PackedAttention
from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import Encoder
from adapterbank.model.heads import mean_pool
from adapterbank.model.methods import Method
from adapterbank.model.packing import NAME, packed_attention
from adapterbank.model.sites import SITES
from adapterbank.model.task_model import TaskModel
from tiny import ARCHITECTURES, rows, tiny

PACKING = [name for name in ARCHITECTURES if SITES[name].packs]
LONGEST = 62  # RoBERTa's positions start at 2, and the tiny models have 64
LENGTHS = {
    "ragged, with 1 and the longest": [7, 1, LONGEST, 20, 3, 33, 33, 18],
    "short and ragged": [7, 1, 12, 3, 9],
    "one length": [9, 9, 9],
    "one row": [17],
}


def task_model(name: str, dtype: torch.dtype) -> TaskModel:
    base = tiny(name, dtype)
    encoder = Encoder("tiny", base, tokenizer=None, pooling="mean", stored=frozenset())
    config = AdapterConfig(size=4, init_std=0.3)
    model = TaskModel(encoder, "classification", 3, Method(adapter=config))
    with torch.no_grad():
        model.head.linear.weight.mul_(20)
    return model


def run(model: TaskModel, token_rows: list[list[int]], packed: bool) -> list[torch.Tensor]:
    """States, logits and every gradient."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.zero_grad()
    types = [[i % 2 for i in range(len(row))] for row in token_rows]
    batch = model.collate(token_rows, types, packed=packed)
    assert (batch.bounds is not None) == packed
    if packed:
        with model.packing():
            states, logits = model.states(batch), model(batch)
    else:
        states, logits = model.states(batch), model(batch)
    targets = torch.arange(len(token_rows)) % 3
    model.head.loss(logits, targets, batch.lengths).backward()
    gradients = [p.grad.clone() for group in model.groups().values() for p in group]
    return [states.detach(), logits.detach(), *gradients]


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize("name", PACKING)
def test_packed_equals_padded_in_double_precision(name: str, lengths: list[int]) -> None:
    model = task_model(name, torch.float64)
    for packed, padded in zip(
        run(model, rows(lengths), True), run(model, rows(lengths), False), strict=True
    ):
        torch.testing.assert_close(packed, padded, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PACKING)
def test_packed_equals_padded_in_single_precision(name: str) -> None:
    model = task_model(name, torch.float32)
    token_rows = rows(next(iter(LENGTHS.values())))
    for packed, padded in zip(
        run(model, token_rows, True), run(model, token_rows, False), strict=True
    ):
        scale = padded.abs().max().clamp(min=1e-3)
        torch.testing.assert_close(packed / scale, padded / scale, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", PACKING)
def test_each_row_alone_gives_the_same(name: str) -> None:
    """An oracle that shares no batching code: the library's own run of each row by itself."""
    model = task_model(name, torch.float64).eval()
    token_rows = rows([5, 1, 40, 12])
    batch = model.collate(token_rows, [[0] * len(row) for row in token_rows])
    with torch.no_grad(), model.packing():
        packed = model.states(batch)
    with torch.no_grad():
        alone = [model.base(torch.tensor([row])).last_hidden_state[0] for row in token_rows]
    torch.testing.assert_close(packed, torch.cat(alone), rtol=1e-9, atol=1e-9)


def test_modernberts_window_is_passed() -> None:
    """The test above would prove nothing if no row were longer than the window."""
    model = tiny("modernbert")
    assert model.config.sliding_window * 2 + 1 < 40
    assert set(model.config.layer_types) == {"full_attention", "sliding_attention"}


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 200), min_size=1, max_size=40))
def test_bounds_hold_every_token_once(lengths: list[int]) -> None:
    bounds = Bounds(lengths)
    laid = torch.cat([group.tokens.flatten() for group in bounds.groups])
    assert torch.equal(laid[bounds.layout(1, torch.device("cpu")).back], torch.arange(sum(lengths)))
    held = sum(
        int(group.real.sum()) if group.real is not None else group.tokens.numel()
        for group in bounds.groups
    )
    assert held == sum(lengths)


@pytest.mark.parametrize("window", [None, 3])
def test_the_written_out_backward_pass_is_the_gradient(window: int | None) -> None:
    bounds = Bounds([5, 40, 1, 33, 7])
    torch.manual_seed(0)
    q, k, v = (torch.randn(86, 2, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def function(q, k, v):
        torch.manual_seed(1)  # the same dropout in every call
        return PackedAttention.apply(q, k, v, bounds, 0.7, 0.2, window)

    assert torch.autograd.gradcheck(function, (q, k, v), fast_mode=True)


def test_attention_without_bounds_raises() -> None:
    model = tiny("bert")
    with packed_attention(model), pytest.raises(PackingError, match=r"without the bounds.*bounds="):
        model(torch.tensor([[5, 6, 7]]))


def test_a_padded_batch_within_the_block_raises() -> None:
    model = tiny("bert")
    ids = torch.tensor([[5, 6, 7], [5, 0, 0]])
    with packed_attention(model), pytest.raises(PackingError, match="no attention mask"):
        model(ids, attention_mask=(ids != 0).long(), bounds=Bounds([3, 1]))
    with packed_attention(model), pytest.raises(PackingError, match="one row of 4 tokens"):
        model(ids, bounds=Bounds([3, 1]))


def test_the_setting_is_put_back() -> None:
    model = tiny("bert")
    before = model.config._attn_implementation
    with packed_attention(model):
        assert model.config._attn_implementation == NAME
    assert model.config._attn_implementation == before
    with pytest.raises(ZeroDivisionError), packed_attention(model):
        _ = 1 / 0
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - set(PACKING)))
def test_bases_with_their_own_attention_take_padded_batches(name: str) -> None:
    with pytest.raises(PackingError, match="padded batches only"), packed_attention(tiny(name)):
        pass
    model = task_model(name, torch.float64).eval()
    token_rows = rows([5, 1, 40, 12])
    with torch.no_grad(), model.packing():
        batch = model.collate(token_rows)
        assert batch.bounds is None
        together = model.states(batch)
        alone = [model.base(torch.tensor([row])).last_hidden_state[0] for row in token_rows]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-6, atol=1e-6)


def test_dropout_acts_in_packed_training_and_not_in_evaluation() -> None:
    model = task_model("bert", torch.float32)
    batch = model.collate(rows([5, 9]))
    with torch.no_grad(), model.packing():
        model.train()
        assert not torch.equal(model.states(batch), model.states(batch))
        torch.manual_seed(3)
        first = model.states(batch)
        torch.manual_seed(3)
        assert torch.equal(model.states(batch), first)
        model.eval()
        assert torch.equal(model.states(batch), model.states(batch))


def test_attention_dropout_alone_acts() -> None:
    model = task_model("bert", torch.float32).train()
    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout) and not name.endswith("attention.self.dropout"):
            module.p = 0.0
    batch = model.collate(rows([5, 9]))
    with torch.no_grad(), model.packing():
        assert not torch.equal(model.states(batch), model.states(batch))


def test_mean_pooling_leaves_other_rows_out() -> None:
    hidden = torch.randn(9, 4)
    pooled = mean_pool(hidden, torch.tensor([2, 6, 1]))
    expected = torch.stack([hidden[:2].mean(0), hidden[2:8].mean(0), hidden[8]])
    torch.testing.assert_close(pooled, expected)
