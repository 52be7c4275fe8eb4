"""Well-known encoder shapes by name, for counting parameters without a checkpoint.

Numbers from the models' published configurations.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, PretrainedConfig

from adapterbank.errors import ConfigError


def _shape(layers: int, width: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        **more,
    }


_DEBERTA_V3 = {
    "vocab_size": 128100,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
_ROBERTA = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "pad_token_id": 1,
}

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "minilm": ("bert", _shape(6, 384, 12)),
    "bert-base": ("bert", _shape(12, 768, 12)),
    "bert-large": ("bert", _shape(24, 1024, 16)),
    "roberta-base": ("roberta", _shape(12, 768, 12, **_ROBERTA)),
    "roberta-large": ("roberta", _shape(24, 1024, 16, **_ROBERTA)),
    "xlm-roberta-base": ("xlm-roberta", _shape(12, 768, 12, **{**_ROBERTA, "vocab_size": 250002})),
    "electra-small": ("electra", _shape(12, 256, 4, embedding_size=128)),
    "electra-base": ("electra", _shape(12, 768, 12, embedding_size=768)),
    "electra-large": ("electra", _shape(24, 1024, 16, embedding_size=1024)),
    "distilbert-base": ("distilbert", {"n_layers": 6, "dim": 768, "n_heads": 12}),
    "mpnet-base": (
        "mpnet",
        _shape(12, 768, 12, vocab_size=30527, max_position_embeddings=514, pad_token_id=1),
    ),
    "albert-base": ("albert", _shape(12, 768, 12, embedding_size=128)),
    "albert-large": ("albert", _shape(24, 1024, 16, embedding_size=128)),
    "deberta-v3-base": ("deberta-v2", _shape(12, 768, 12, **_DEBERTA_V3)),
    "deberta-v3-large": ("deberta-v2", _shape(24, 1024, 16, **_DEBERTA_V3)),
    "modernbert-base": ("modernbert", _shape(22, 768, 12, intermediate_size=1152)),
    "modernbert-large": ("modernbert", _shape(28, 1024, 16, intermediate_size=2624)),
}


def named_config(name: str) -> PretrainedConfig:
    """The configuration of a well-known encoder."""
    if name not in SHAPES:
        raise ConfigError(f"No architecture is called {name!r}.", f"Known: {', '.join(SHAPES)}.")
    model_type, fields = SHAPES[name]
    config: PretrainedConfig = AutoConfig.for_model(model_type, **fields)
    return config
