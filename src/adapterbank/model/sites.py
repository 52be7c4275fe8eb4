"""Where things are in an encoder: one row of attribute paths per model type.

A new architecture is one row here and one parameter in the tests. Paths are relative to the base
model (`BertModel`, not `BertForSequenceClassification`), those of a site relative to its layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from adapterbank.errors import UnsupportedBase


@dataclass(frozen=True)
class Site:
    """One of the two places in a layer where an adapter stands (figure 2 of the paper)."""

    after: str
    """The module whose output the adapter changes: the last one before the residual sum."""
    source: str
    """The module whose first argument is the sub-layer's input, for parallel insertion."""
    norm: str
    """The sub-layer's LayerNorm."""


@dataclass(frozen=True)
class Sites:
    """A map of one kind of encoder."""

    layers: str
    """The list of layers. `*` stands for every member of a list."""
    attention: Site
    output: Site
    embeddings: str = "embeddings"
    embeddings_norm: str = "embeddings.LayerNorm"
    lower_norms: dict[str, str] = field(default_factory=dict)
    """LayerNorms beside the embeddings' one that act before or across the layers, by their name."""
    upper_norms: dict[str, str] = field(default_factory=dict)
    """LayerNorms above the last layer, by their name."""
    pooler: str | None = "pooler"
    pooler_trained: bool = False
    """The architecture's pre-training uses the pooler, so a checkpoint's pooler is worth using."""
    packs: bool = True
    """Attention goes through Transformers' attention interface, so batches can be packed."""
    token_types: bool = False
    """The encoder takes token types (which of a pair's texts a token belongs to)."""
    positions_after_padding: bool = False
    """Positions count from the padding id + 1, not from 0."""

    def layer_modules(self, base: nn.Module) -> list[nn.Module]:
        """The layers, first to last. Layers that share weights (ALBERT) count once."""
        return [base.get_submodule(path) for path in self.layer_paths(base)]

    def layer_paths(self, base: nn.Module) -> list[str]:
        """The path of each layer, first to last."""
        paths = [""]
        for part in self.layers.split("."):
            if part == "*":
                paths = [
                    f"{path}.{name}"
                    for path in paths
                    for name, _ in base.get_submodule(path).named_children()
                ]
            else:
                paths = [f"{path}.{part}".lstrip(".") for path in paths]
        return paths

    def norm_paths(self, base: nn.Module, lowest: int = 0) -> dict[str, str]:
        """Every LayerNorm from layer `lowest` up, as {our name: path}.

        With `lowest` 0 these are all LayerNorms of the encoder, the embeddings' one included.
        """
        paths = {}
        if lowest == 0:
            paths["embeddings.norm"] = self.embeddings_norm
            paths.update({f"{name}.norm": path for name, path in self.lower_norms.items()})
        for index, layer in enumerate(self.layer_paths(base)):
            if index >= lowest:
                paths[f"layer.{index}.attention.norm"] = f"{layer}.{self.attention.norm}"
                paths[f"layer.{index}.output.norm"] = f"{layer}.{self.output.norm}"
        paths.update({f"{name}.norm": path for name, path in self.upper_norms.items()})
        # Some are absent by configuration (ModernBERT's first, DeBERTa's of relative positions).
        return {name: path for name, path in paths.items() if _has_weight(base, path)}

    def pool(self, base: nn.Module, first: Tensor) -> Tensor:
        """The base's own pooler on the first token's state: [rows, d] → [rows, d]."""
        pooler = getattr(base, self.pooler or "", None)
        if pooler is None:
            raise UnsupportedBase(
                "This base has no trained pooler.", "Use mean or first-token pooling."
            )
        if isinstance(pooler, nn.Linear):  # ALBERT keeps the activation outside
            pooled: Tensor = base.pooler_activation(pooler(first))  # type: ignore[operator]
        else:
            pooled = pooler(first.unsqueeze(1))
        return pooled


def _has_weight(base: nn.Module, path: str) -> bool:
    try:
        return getattr(base.get_submodule(path), "weight", None) is not None
    except AttributeError:
        return False


_BERT = Sites(
    layers="encoder.layer.*",
    attention=Site("attention.output.dropout", "attention", "attention.output.LayerNorm"),
    output=Site("output.dropout", "intermediate", "output.LayerNorm"),
    pooler_trained=True,  # next-sentence prediction
    token_types=True,
)
_ROBERTA = replace(_BERT, pooler_trained=False, token_types=False, positions_after_padding=True)

SITES: dict[str, Sites] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": replace(_BERT, pooler=None, pooler_trained=False),
    "distilbert": Sites(
        layers="transformer.layer.*",
        attention=Site("attention.out_lin", "attention", "sa_layer_norm"),
        output=Site("ffn.dropout", "ffn.lin1", "output_layer_norm"),
        pooler=None,
    ),
    "mpnet": replace(
        _BERT,
        attention=Site("attention.dropout", "attention", "attention.LayerNorm"),
        pooler_trained=False,
        token_types=False,
        positions_after_padding=True,
        packs=False,  # its own attention, with relative positions
    ),
    # ALBERT uses one layer many times. Its adapters and LayerNorms are shared in the same way:
    # one pair of adapters per stored layer, acting at every depth where that layer is used.
    "albert": Sites(
        layers="encoder.albert_layer_groups.*.albert_layers.*",
        attention=Site("attention.output_dropout", "attention", "attention.LayerNorm"),
        output=Site("ffn_output", "ffn", "full_layer_layer_norm"),
        pooler_trained=True,  # sentence-order prediction
        token_types=True,
    ),
    "deberta-v2": replace(
        _BERT,
        lower_norms={"relative": "encoder.LayerNorm", "convolution": "encoder.conv.LayerNorm"},
        pooler=None,
        pooler_trained=False,
        packs=False,  # its own attention, with relative positions
    ),
    # Pre-norm: the sub-layer's input is already normalised, and a last norm stands on top.
    "modernbert": Sites(
        layers="layers.*",
        attention=Site("attn.out_drop", "attn", "attn_norm"),
        output=Site("mlp", "mlp", "mlp_norm"),
        embeddings_norm="embeddings.norm",
        upper_norms={"final": "final_norm"},
        pooler=None,
    ),
}


def sites_of(config: PretrainedConfig) -> Sites:
    """The row for a model's configuration, or an error that lists what is supported."""
    model_type = getattr(config, "model_type", None)
    if model_type in SITES:
        return SITES[model_type]
    raise UnsupportedBase(
        f"No adapter sites are known for model type {model_type!r}.",
        f"Supported: {', '.join(sorted(SITES))}. A new encoder is one row in model/sites.py.",
    )


def base_model(model: nn.Module) -> PreTrainedModel:
    """The encoder inside a Hugging Face model with a head, or the encoder itself."""
    if not isinstance(model, PreTrainedModel):
        raise UnsupportedBase(
            f"Adapters go on a Hugging Face encoder; this is a {type(model).__name__}.",
            "Pass the model that AutoModel or AutoModelForSequenceClassification returned.",
        )
    base: PreTrainedModel = model.base_model  # type: ignore[assignment]
    return base
