"""Count what a method trains, on the meta device: no weights are loaded or made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from transformers import AutoModel, PretrainedConfig

from adapterbank.model.heads import Kind, head_outputs
from adapterbank.model.methods import Method, apply_method
from adapterbank.model.sites import sites_of


@dataclass(frozen=True)
class Count:
    """Parameters of one task on one base, and of many."""

    adapters: int
    layer_norms: int
    base_trained: int
    """Other parameters of the base that the method trains (full, top-k)."""
    head: int
    base: int
    base_without_embeddings: int
    tasks: int

    @property
    def trained(self) -> int:
        """Everything that one task trains and keeps."""
        return self.adapters + self.layer_norms + self.base_trained + self.head

    @property
    def percent_of_base(self) -> float:
        """Of all the base's parameters."""
        return 100 * self.trained / self.base

    @property
    def percent_without_embeddings(self) -> float:
        """Of the parameters outside the embeddings: the denominator of the paper's percentages."""
        return 100 * self.trained / self.base_without_embeddings

    @property
    def total_for_tasks(self) -> int:
        """One base and every task's own parameters."""
        return self.base + self.tasks * self.trained

    @property
    def times_one_model(self) -> float:
        """The same in units of one base."""
        return self.total_for_tasks / self.base

    def as_dict(self) -> dict[str, int | float]:
        """Every figure by name."""
        names = (
            "adapters", "layer_norms", "base_trained", "head", "trained", "base",
            "base_without_embeddings", "percent_of_base", "percent_without_embeddings",
            "tasks", "total_for_tasks", "times_one_model",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def count(
    config: PretrainedConfig,
    method: Method,
    *,
    labels: int = 0,
    kind: Kind = "classification",
    tasks: int = 1,
    with_pooler: bool = True,
) -> Count:
    """Count for a base of this configuration. `labels` 0 counts no head."""
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    base = total(model.parameters())
    embeddings = total(model.get_submodule(sites_of(config).embeddings).parameters())
    with torch.device("meta"):
        groups = apply_method(model, method, with_pooler=with_pooler).parameter_groups()
    width = int(config.hidden_size)
    return Count(
        adapters=total(groups.get("adapters", [])),
        layer_norms=total(groups.get("layer_norms", [])),
        base_trained=total(groups.get("base", [])),
        head=head_outputs(kind, labels) * (width + 1) if labels else 0,
        base=base,
        base_without_embeddings=base - embeddings,
        tasks=tasks,
    )


def total(parameters: Iterable[nn.Parameter]) -> int:
    """The number of values in these parameters."""
    return sum(parameter.numel() for parameter in parameters)
