"""An encoder written down as an ONNX graph, node by node; what follows a sub-layer is left open.

`graph.py` fills that in for all tasks at once, `one_task.py` for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adapterbank.errors import UnsupportedBase
from adapterbank.model.encoder import Encoder, Pooling

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 20
IR = 10  # read by ONNX Runtime from 1.18
PAGE = 4096  # bytes: what a system maps
FUSED = "com.microsoft"  # ONNX Runtime's own operations


@dataclass(frozen=True)
class Linears:
    """Where a layer keeps its linear maps; paths relative to the layer."""

    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    attended: str = "attention.output.dense"
    inner: str = "intermediate.dense"
    outer: str = "output.dense"


# Encoders of one plan: embeddings → LayerNorm → layers of attention and feed-forward, each with its
# LayerNorm behind the sum. Others are served by torch.
LINEARS: dict[str, Linears] = {
    "bert": Linears(),
    "roberta": Linears(),
    "xlm-roberta": Linears(),
    "camembert": Linears(),
    "electra": Linears(),
    "distilbert": Linears(
        "attention.q_lin",
        "attention.k_lin",
        "attention.v_lin",
        "attention.out_lin",
        "ffn.lin1",
        "ffn.lin2",
    ),
    "albert": Linears(
        "attention.query",
        "attention.key",
        "attention.value",
        "attention.dense",
        "ffn",
        "ffn_output",
    ),
}
# Linear map and activation in one operation: the erf form of GELU, and the tanh form.
GELUS = {"gelu": "BiasGelu", "gelu_new": "FastGelu", "gelu_pytorch_tanh": "FastGelu"}


class Builder:
    """Writes an encoder down, node by node. What follows each sub-layer is left to subclasses."""

    token: type[np.generic] = np.int32

    def __init__(self, encoder: Encoder) -> None:
        config = encoder.model.config
        if config.model_type not in LINEARS:
            raise UnsupportedBase(
                f"Model type {config.model_type!r} has no ONNX graph.",
                f"Those of {', '.join(LINEARS)} have one; torch serves the others.",
            )
        activation = getattr(config, "hidden_act", None) or getattr(config, "activation", None)
        if activation not in (*GELUS, "relu"):
            raise UnsupportedBase(
                f"A base with the activation {activation!r} has no ONNX graph.",
                "torch serves it.",
            )
        self.encoder, self.config, self.activation = encoder, config, str(activation)
        self.linears = LINEARS[config.model_type]
        self.width = encoder.width
        self.eps = float(getattr(config, "layer_norm_eps", 1e-12))
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.inputs: dict[str, tuple[type[np.generic], list[str | int]]] = {}

    # --- for subclasses

    def lengths(self) -> str:
        """Tokens of each text: int32 [B]."""
        raise NotImplementedError

    def after_embeddings(self, x: str, size: int) -> str:
        """The embeddings' LayerNorm: [B, L, size]."""
        raise NotImplementedError

    def entering(self, x: str, lengths: str, index: int) -> tuple[str, str]:
        """What a layer begins with: states and lengths."""
        del index
        return x, lengths

    def grouped(self, x: str, index: int) -> str:
        """States in the shape that adapters take."""
        del index
        return x

    def ungrouped(self, x: str, like: str) -> str:
        """The same states in the shape of others."""
        del like
        return x

    def entering_site(self, x: str, path: str) -> str:
        """The linear map before a site."""
        return self.linear(x, path)

    def after_sublayer(self, x: str, residual: str, index: int, site: str) -> str:
        """Adapter, sum and LayerNorm. `site` is `layer.3.attention`."""
        raise NotImplementedError

    # --- pieces of a graph

    def op(self, kind: str, *inputs: str, fused: bool = False, **attributes: Any) -> str:
        """A node with one output."""
        from onnx import helper

        out = f"{kind}.{len(self.nodes)}"
        domain = FUSED if fused else ""
        self.nodes.append(helper.make_node(kind, inputs, [out], domain=domain, **attributes))
        return out

    def constant(self, name: str, value: Any) -> str:
        """A tensor of the graph's own."""
        self.constants.setdefault(name, np.asarray(value, order="C"))
        return name

    def integers(self, *values: int) -> str:
        """A constant list."""
        return self.constant(f"integers.{'.'.join(map(str, values))}", np.array(values, np.int64))

    def input(self, name: str, kind: type[np.generic], *shape: str | int) -> str:
        """A tensor that each run brings."""
        self.inputs.setdefault(name, (kind, list(shape)))
        return name

    def weight(self, path: str, leaf: str = "weight") -> NDArray[np.float32]:
        """A parameter of the base."""
        found: NDArray[np.float32] = (
            self.encoder.model.get_parameter(f"{path}.{leaf}").detach().float().cpu().numpy()
        )
        return found

    def product(self, x: str, path: str) -> str:
        """x · Wᵀ, without the bias."""
        return self.op("MatMul", x, self.constant(f"{path}.weight", self.weight(path).T))

    def bias(self, path: str) -> str:
        """Of a linear map of the base."""
        return self.constant(f"{path}.bias", self.weight(path, "bias"))

    def linear(self, x: str, path: str) -> str:
        """x · Wᵀ + b."""
        return self.op("Add", self.product(x, path), self.bias(path))

    def ones(self, size: int) -> tuple[str, str]:
        """The scale and shift of a LayerNorm that only normalises."""
        one = self.constant(f"ones.{size}", np.ones(size, np.float32))
        return one, self.constant(f"zeros.{size}", np.zeros(size, np.float32))

    # --- the encoder

    def encode(self) -> tuple[str, str]:
        """States [B, L, d] and lengths [B] after the last layer."""
        x, lengths = self.embeddings(), self.lengths()
        stored = self.encoder.sites.layer_paths(self.encoder.model)
        depth = int(self.config.num_hidden_layers)
        for index in range(depth):
            # ALBERT has fewer layers than depth: each is used several times over.
            own = index * len(stored) // depth
            x, lengths = self.layer(x, lengths, index, stored[own], own)
        return x, lengths

    def embeddings(self) -> str:
        """[B, L, d]"""
        model, sites, config = self.encoder.model, self.encoder.sites, self.config
        ids = self.input("input_ids", self.token, "texts", "L")
        path = sites.embeddings
        words = self.weight(f"{path}.word_embeddings")
        places = self.weight(f"{path}.position_embeddings")
        if sites.positions_after_padding:
            places = places[int(config.pad_token_id) + 1 :]
        types = getattr(model.get_submodule(path), "token_type_embeddings", None)
        if types is not None and not sites.token_types:  # every token is of the first type
            places = places + self.weight(f"{path}.token_type_embeddings")[0]
        length = self.op("Shape", ids, start=1, end=2)
        table = self.constant("places", places)
        here = self.op("Slice", table, self.integers(0), length, self.integers(0))
        x = self.op("Gather", self.constant("words", words), ids)
        if sites.token_types:
            table = self.constant("types", self.weight(f"{path}.token_type_embeddings"))
            kinds = self.input("token_type_ids", self.token, "texts", "L")
            x = self.op("Add", x, self.op("Gather", table, kinds))
        x = self.after_embeddings(self.op("Add", x, here), int(words.shape[1]))
        for projection in ("embeddings_project", "encoder.embedding_hidden_mapping_in"):
            try:  # where the embeddings are narrower than the layers
                model.get_submodule(projection)
            except AttributeError:
                continue
            x = self.linear(x, projection)
        return x

    def layer(self, x: str, lengths: str, index: int, path: str, own: int) -> tuple[str, str]:
        """One layer on [B, L, d]; `own` is its number among those that the base stores."""
        x, lengths = self.entering(x, lengths, index)
        linears = self.linears
        three = [f"{path}.{each}" for each in (linears.query, linears.key, linears.value)]
        weights = np.concatenate([self.weight(each).T for each in three], 1)
        biases = np.concatenate([self.weight(each, "bias") for each in three])
        attended = self.op(
            "Attention",
            x,
            self.constant(f"{path}.qkv", weights),
            self.constant(f"{path}.qkv.bias", biases),
            lengths,
            fused=True,
            num_heads=int(self.config.num_attention_heads),
        )
        residual = self.grouped(x, index)
        out = self.entering_site(
            self.grouped(attended, index), f"{path}.{self.before('attention')}"
        )
        residual = self.after_sublayer(out, residual, index, f"layer.{own}.attention")
        inner = self.activated(residual, f"{path}.{linears.inner}")
        out = self.entering_site(inner, f"{path}.{self.before('output')}")
        out = self.after_sublayer(out, residual, index, f"layer.{own}.output")
        return self.ungrouped(out, x), lengths

    def before(self, site: str) -> str:
        """The path, within a layer, of the linear map before a site."""
        return self.linears.attended if site == "attention" else self.linears.outer

    def activated(self, x: str, path: str) -> str:
        """f(x · Wᵀ + b)."""
        if self.activation == "relu":
            return self.op("Relu", self.linear(x, path))
        return self.op(GELUS[self.activation], self.product(x, path), self.bias(path), fused=True)

    def pooled(self, x: str, lengths: str, pooling: Pooling) -> str:
        """One vector of each text: [B, d]."""
        if pooling == "mean":
            return self.mean(x, lengths)
        first = self.op("Gather", x, self.constant("integer.0", np.array(0, np.int64)), axis=1)
        if pooling == "first":
            return first
        path = f"{self.encoder.sites.pooler}"
        if self.config.model_type != "albert":  # which keeps the activation outside
            path += ".dense"
        return self.op("Tanh", self.linear(first, path))

    def mean(self, x: str, lengths: str) -> str:
        """The mean over each row's own tokens, as a product with 1 / length there and 0 beyond."""
        count = self.op("Unsqueeze", lengths, self.integers(1, 2))
        length = self.op("Cast", self.op("Shape", x, start=1, end=2), to=onnx_type(np.int32))
        places = self.op(
            "Range",
            self.constant("int32.0", np.array(0, np.int32)),
            self.op("Squeeze", length),
            self.constant("int32.1", np.array(1, np.int32)),
        )
        real = self.op("Cast", self.op("Less", places, count), to=onnx_type(np.float32))
        share = self.op("Div", real, self.op("Cast", count, to=onnx_type(np.float32)))
        return self.op("Squeeze", self.op("MatMul", share, x), self.integers(1))

    def model(self, outputs: dict[str, str]) -> ModelProto:
        """Everything, with these values given names."""
        from onnx import helper, numpy_helper

        for name, found in outputs.items():
            self.nodes.append(helper.make_node("Identity", [found], [name]))
        described: Callable[..., Any] = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "adapterbank",
            [described(n, onnx_type(kind), shape) for n, (kind, shape) in self.inputs.items()],
            [described(n, onnx_type(np.float32), None) for n in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        made: ModelProto = helper.make_model(graph, opset_imports=versions, ir_version=IR)
        return made


def onnx_type(kind: type[np.generic]) -> int:
    """ONNX's number for a type."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def take_weights(model: ModelProto, file: str) -> bytes:
    """Take a graph's large tensors out of it: the content of a file of this name beside it."""
    from onnx.external_data_helper import set_external_data

    content = bytearray()
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) >= PAGE:
            content += bytes(-len(content) % PAGE)
            set_external_data(tensor, file, offset=len(content), length=len(tensor.raw_data))
            content += tensor.raw_data
            tensor.ClearField("raw_data")
    return bytes(content)
