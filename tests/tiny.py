"""Tiny random encoders of every supported architecture, for contracts rather than accuracy."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import torch
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    CamembertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    MPNetConfig,
    PretrainedConfig,
    PreTrainedModel,
    RobertaConfig,
    XLMRobertaConfig,
)

VOCABULARY = 120
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}

CONFIGS: dict[str, PretrainedConfig] = {
    "bert": BertConfig(**SHAPE),
    "roberta": RobertaConfig(**SHAPE, type_vocab_size=1, pad_token_id=1),
    "xlm-roberta": XLMRobertaConfig(**SHAPE, type_vocab_size=1, pad_token_id=1),
    "camembert": CamembertConfig(**SHAPE, type_vocab_size=1, pad_token_id=1),
    "electra": ElectraConfig(**SHAPE, embedding_size=16),
    "distilbert": DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=32,
        n_layers=4,
        n_heads=4,
        hidden_dim=48,
        max_position_embeddings=64,
    ),
    "mpnet": MPNetConfig(**SHAPE, pad_token_id=1),
    "albert": AlbertConfig(**SHAPE, embedding_size=16, num_hidden_groups=2, inner_group_num=1),
    "deberta-v2": DebertaV2Config(
        **SHAPE,
        relative_attention=True,
        position_buckets=8,
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        conv_kernel_size=3,
        type_vocab_size=0,
        position_biased_input=False,
        pad_token_id=0,
    ),
    "modernbert": ModernBertConfig(
        **SHAPE,
        local_attention=8,  # a window of 4 to each side, so that short texts pass it
        global_attn_every_n_layers=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
}
ARCHITECTURES = sorted(CONFIGS)


def tiny(name: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> PreTrainedModel:
    """A tiny encoder with random weights, the LayerNorms' and biases' ones too."""
    torch.manual_seed(seed)
    config = deepcopy(CONFIGS[name])  # the library writes into it: the dtype, for one
    model: PreTrainedModel = AutoModel.from_config(config)
    return roughened(model).to(dtype).eval()


def roughened(model: PreTrainedModel) -> PreTrainedModel:
    """The same model with noise on every weight: fresh ones hardly attend and have no biases."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def rows(lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Token ids clear of the special ones."""
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(5, VOCABULARY, (length,), generator=draw).tolist() for length in lengths]


def padded(model: PreTrainedModel, token_rows: list[list[int]]) -> dict[str, torch.Tensor]:
    """The padded batch that Transformers users would make."""
    longest = max(map(len, token_rows))
    filler = model.config.pad_token_id or 0
    ids = [[*row, *[filler] * (longest - len(row))] for row in token_rows]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in token_rows]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS += ["good", "bad", "fine", "poor", "great", "awful", "film", "book", "meal", "room"]
WORDS += ["the", "a", "was", "it"]


def save_base(folder: Path, name: str = "bert", model: PreTrainedModel | None = None) -> Path:
    """A tiny base on disk with a word-level tokenizer, as a person's own folder would be."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    model = model if model is not None else tiny(name)
    model.save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == name
    return folder
