"""The cheaper dropout has dropout's statistics and obeys torch's seed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from adapterbank.model.dropout import Coins, cheap_dropout, dropout, keep_mask
from adapterbank.training.loop import SEEDS_APART

SIZE = torch.Size([1000, 1001])


@pytest.mark.parametrize("p", [0.05, 0.1, 0.5, 0.9])
def test_rate_and_scale(p: float) -> None:
    torch.manual_seed(0)
    mask = keep_mask(SIZE, p)
    kept = mask != 0
    deviation = (p * (1 - p) / mask.numel()) ** 0.5
    assert abs(kept.float().mean().item() - (1 - p)) < 4 * deviation + 1 / 65536
    assert mask[kept].unique().numel() == 1
    assert mask[kept][0].item() == pytest.approx(1 / (1 - p), rel=1e-3)
    assert mask.double().mean().item() == pytest.approx(1.0, abs=5 * deviation / (1 - p))


def test_neighbours_and_masks_are_independent() -> None:
    torch.manual_seed(0)
    masks = [keep_mask(SIZE, 0.5).flatten() - 1 for _ in range(3)]
    noise = 4 / SIZE.numel() ** 0.5
    for shift in (1, 2, 3, 4, 5, 8, 16, 1001):  # four numbers share a word
        assert abs((masks[0][shift:] * masks[0][:-shift]).mean().item()) < noise
    assert abs((masks[0] * masks[1]).mean().item()) < noise
    assert abs((masks[1] * masks[2]).mean().item()) < noise


def test_seed_governs_and_masks_do_not_repeat() -> None:
    torch.manual_seed(5)
    first, second = keep_mask(SIZE, 0.1), keep_mask(SIZE, 0.1)
    torch.manual_seed(5)
    assert torch.equal(keep_mask(SIZE, 0.1), first)
    assert not torch.equal(first, second)


def test_masks_of_a_runs_steps_are_independent() -> None:
    """Every step seeds anew, with numbers that lie side by side."""
    shape = torch.Size([400, 500])
    masks = []
    for step in range(12):
        torch.manual_seed(7 * SEEDS_APART + step)
        masks += [keep_mask(shape, 0.5).flatten() - 1 for _ in range(2)]  # two layers
    together = torch.stack(masks)
    correlations = together @ together.T / shape.numel()
    beside = correlations - torch.eye(len(masks))
    assert beside.abs().max().item() < 5 / shape.numel() ** 0.5
    # Nor is a mask a shifted copy of another.
    spectrum = torch.fft.rfft(together)
    shifted = torch.fft.irfft(spectrum[0] * spectrum[2:].conj(), n=shape.numel()) / shape.numel()
    assert shifted.abs().max().item() < 7 / shape.numel() ** 0.5


def test_signs_are_the_mask_in_another_form() -> None:
    for p in (0.1, 0.5):
        torch.manual_seed(3)
        mask = keep_mask(SIZE, p)
        torch.manual_seed(3)
        coins = Coins(p)
        signs = coins.fill(torch.empty(SIZE), -1.0, 1.0)
        assert signs.abs().unique().tolist() == [1.0]
        torch.testing.assert_close(signs.relu() * coins.scale, mask)


def test_threads_do_not_matter() -> None:
    before = torch.get_num_threads()
    masks = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        masks.append(keep_mask(SIZE, 0.1))
    torch.set_num_threads(before)
    assert torch.equal(*masks)


def test_ends_of_the_range() -> None:
    x = torch.randn(7, 3)
    assert dropout(x, 0.0) is x
    assert not dropout(x, 1.0).any()


def test_gradient_is_the_mask() -> None:
    x = torch.randn(50, 50, requires_grad=True)
    y = dropout(x, 0.3)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)


def test_layers_are_swapped_within_the_block_only() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    x = torch.randn(64, 4)
    with cheap_dropout(model):
        torch.manual_seed(0)
        ours = model(x)
        torch.manual_seed(0)
        hidden = model[0](x)
        torch.testing.assert_close(ours, dropout(hidden, 0.5))
        model.eval()
        assert torch.equal(model(x), model[0](x))
    assert "forward" not in vars(model[1])
    model.train()
    torch.manual_seed(0)
    plain = model(x)
    torch.manual_seed(0)
    torch.testing.assert_close(plain, nn.functional.dropout(model[0](x), 0.5))
