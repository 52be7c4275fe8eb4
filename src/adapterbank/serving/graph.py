"""The frozen base as one ONNX graph that serves every task: tasks are inputs, not constants.

The tensors of many tasks lie end to end in a few arrays, each task in its slot, and a run says
which slots its rows belong to. So a new task needs no export, and one run answers many tasks.

Rows of a run form groups of equal size, and each group has one slot. Before each layer the rows
are taken by number, so that a text which several tasks read can run once through the layers that
none of them changes, and fan out where the first of them begins.

Inputs, with B rows of L tokens in G groups, S slots, K sites and d the base's width:

    input_ids, token_type_ids [B, L]    lengths [B]
    slots.embeddings [G]                slots.0, slots.1, … [G]     rows.0, rows.1, … [B]
    down.weight [S·K, m, d]             down.bias [S·K, 1, m]
    up.weight   [S·K, d, m]             up.bias   [S·K, 1, d]
    norm.weight, norm.bias [S·K, 1, d]  embeddings.norm.weight, embeddings.norm.bias [S, 1, …]

Outputs: hidden [B, L, d]; mean, first and, where the base has one, pooler [B, d].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adapterbank.model.encoder import Encoder, Pooling
from adapterbank.serving.arena import SITES
from adapterbank.serving.graph_builder import Builder

if TYPE_CHECKING:
    from onnx import ModelProto

NORM_INPUTS = ("norm.weight", "norm.bias")
EMBEDDINGS_NORM = ("embeddings.norm.weight", "embeddings.norm.bias")


def build_graph(encoder: Encoder) -> ModelProto:
    """The base as such a graph, its weights inside; but not the biases before the sites."""
    return _Mixed(encoder).build()


def biases_of(encoder: Encoder) -> dict[str, NDArray[np.float32]]:
    """The bias of the linear map before each site, which tasks take into their own."""
    builder, found = Builder(encoder), {}
    for number, path in enumerate(encoder.sites.layer_paths(encoder.model)):
        for site in SITES:
            found[f"layer.{number}.{site}.bias"] = builder.weight(
                f"{path}.{builder.before(site)}", "bias"
            )
    return found


class _Mixed(Builder):
    """The graph of all tasks."""

    def build(self) -> ModelProto:
        x, lengths = self.encode()
        poolings: list[Pooling] = ["mean", "first"]
        if self.encoder.has_pooler:
            poolings.append("pooler")
        outputs = {str(each): self.pooled(x, lengths, each) for each in poolings}
        return self.model({"hidden": x, **outputs})

    def lengths(self) -> str:
        return self.input("lengths", np.int32, "texts")

    def after_embeddings(self, x: str, size: int) -> str:
        normal = self.op("LayerNormalization", x, *self.ones(size), axis=-1, epsilon=self.eps)
        slots = self.input("slots.embeddings", np.int64, "groups")
        grouped = self.op("Reshape", normal, self.by_group(slots, size))
        return self.ungrouped(self.scaled(grouped, EMBEDDINGS_NORM, slots, size), x)

    def entering(self, x: str, lengths: str, index: int) -> tuple[str, str]:
        rows = self.input(f"rows.{index}", np.int64, f"rows.{index}")
        return self.op("Gather", x, rows, axis=0), self.op("Gather", lengths, rows, axis=0)

    def slots(self, index: int) -> str:
        return self.input(f"slots.{index}", np.int64, f"groups.{index}")

    def grouped(self, x: str, index: int) -> str:
        return self.op("Reshape", x, self.by_group(self.slots(index), self.width))

    def ungrouped(self, x: str, like: str) -> str:
        return self.op("Reshape", x, self.op("Shape", like))

    def by_group(self, slots: str, width: int) -> str:
        """The shape [G, tokens, width]."""
        return self.op("Concat", self.op("Shape", slots), self.integers(-1, width), axis=0)

    def entering_site(self, x: str, path: str) -> str:
        return self.product(x, path)

    def after_sublayer(self, x: str, residual: str, index: int, site: str) -> str:
        _, own, kind = site.split(".")
        first = self.op("Mul", self.slots(index), self.integers(2 * self.encoder.layers))
        place = self.op("Add", first, self.integers(2 * int(own) + (kind == "output")))
        total = self.op("Add", self.adapted(x, place), residual)
        normal = self.op(
            "LayerNormalization", total, *self.ones(self.width), axis=-1, epsilon=self.eps
        )
        return self.scaled(normal, NORM_INPUTS, place, self.width)

    def of_task(self, name: str, place: str, *shape: str | int) -> str:
        """A tensor of each group's task: [G, …]."""
        return self.op("Gather", self.input(name, np.float32, "slots", *shape), place, axis=0)

    def vector(self, name: str, place: str, size: str | int) -> str:
        """A vector of each group's task: [G, 1, size]."""
        return self.of_task(name, place, 1, size)

    def scaled(self, x: str, names: tuple[str, str], place: str, size: int) -> str:
        """The task's scale and shift, after x was normalised."""
        weight, bias = (self.vector(name, place, size) for name in names)
        return self.op("Add", self.op("Mul", x, weight), bias)

    def times(self, x: str, weight: str) -> str:
        """x · Wᵀ of each group: weights as packages hold them, so that a task is copied, not turned
        around, when it is loaded."""
        return self.op("FusedMatMul", x, weight, fused=True, transB=1)

    def adapted(self, x: str, place: str) -> str:
        """x + W2·f(W1·x + b1) + b2 of each group's task: [G, tokens, d]. The base's bias, which is
        not in x yet, is part of b1 and b2: see `Arena`."""
        down = self.times(x, self.of_task("down.weight", place, "m", self.width))
        inner = self.op(
            "FastGelu", self.op("Add", down, self.vector("down.bias", place, "m")), fused=True
        )
        up = self.times(inner, self.of_task("up.weight", place, self.width, "m"))
        return self.op("Add", self.op("Add", up, self.vector("up.bias", place, self.width)), x)
