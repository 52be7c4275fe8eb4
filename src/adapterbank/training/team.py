"""Several processes that train one task together, a share of every batch each.

    accelerate launch --num_processes 2 -m adapterbank train helpdesk --train messages.csv

Every process has the whole model and takes its share of a batch's rows. Losses are divided by the
rows of the whole batch and gradients are added up, so the step is the one that a single process
would take. Orders of rows and seeds are the same everywhere; only the first process writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from torch import nn

T = TypeVar("T")


class Team:
    """One process among `size`."""

    def __init__(self, size: int = 1, rank: int = 0) -> None:
        self.size, self.rank = size, rank

    @property
    def first(self) -> bool:
        """Whether this process writes, publishes and speaks."""
        return self.rank == 0

    def share(self, batch: Sequence[int]) -> list[int]:
        """This process's rows of a batch: as many as the others have, give or take one."""
        return list(batch[self.rank :: self.size])

    def add_up(self, parameters: Iterable[nn.Parameter], loss: float) -> float:
        """Add the gradients of all processes, and their shares of the loss."""
        if self.size == 1:
            return loss
        parameters = list(parameters)
        # One message in place of dozens: adapters are small, and a message costs as much as they.
        parts = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        flat = torch.cat([part.reshape(-1) for part in parts] + [parts[0].new_tensor([loss])])
        torch.distributed.all_reduce(flat)
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.grad = flat[start:end].view_as(parameter)
            start = end
        return float(flat[-1])

    def agree(self, value: T) -> T:
        """What the first process says, for all: clocks differ."""
        if self.size == 1:
            return value
        values = [value]
        torch.distributed.broadcast_object_list(values)
        return values[0]

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            torch.distributed.barrier()


def team() -> Team:
    """The processes that a launcher has started, or this one alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return Team()
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available())
    return Team(state.num_processes, state.process_index)
