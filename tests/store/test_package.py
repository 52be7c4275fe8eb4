"""Packages: exact round trips, whole or nothing, and every damage found."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import resource
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save
from torch import Tensor

from adapterbank.errors import PackageError
from adapterbank.model import encoder, methods
from adapterbank.model.adapter import Adapter
from adapterbank.model.config import AdapterConfig
from adapterbank.model.methods import Method, apply_method
from adapterbank.store import manifest as manifest_module
from adapterbank.store import weights as weights_module
from adapterbank.store.manifest import Manifest, MethodRecord
from adapterbank.store.package import (
    read_manifest,
    read_package,
    unpack_manifest,
    write_package,
)
from adapterbank.store.sealed import seal, unseal
from adapterbank.store.weights import (
    MAX_HEADER,
    adapter_shapes,
    check_tensors,
    read_header,
    read_weights,
)
from store.samples import D, M, manifest, tensors
from tiny import ARCHITECTURES, tiny


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_package(tmp_path / "3", manifest(), tensors())
    return tmp_path / "3"


def forge(folder: Path, weights: bytes, **changes: Any) -> None:
    """A package with other weights whose digests are all right."""
    folder.mkdir(exist_ok=True)
    text = replace(
        manifest(**changes),
        weights_sha256=hashlib.sha256(weights).hexdigest(),
        weights_bytes=len(weights),
    ).to_json()
    (folder / "manifest.json").write_bytes(text)
    (folder / "weights.safetensors").write_bytes(weights)


# --- round trips


def test_round_trip_is_exact(tmp_path: Path) -> None:
    given_tensors = tensors()
    given_tensors["head.weight"] = torch.tensor([[-0.0, 1e-45, 3e38, 1 / 3], [0, 1, 2, 3]])
    written = write_package(tmp_path / "3", manifest(), given_tensors)
    package = read_package(tmp_path / "3")
    assert package.manifest == written == read_manifest(tmp_path / "3")
    assert package.tensors.keys() == given_tensors.keys()
    for name, tensor in given_tensors.items():
        assert package.tensors[name].dtype == torch.float32
        assert package.tensors[name].numpy().tobytes() == tensor.numpy().tobytes(), name
    package.tensors["head.bias"] += 1  # a reader's own memory
    assert read_package(tmp_path / "3").tensors["head.bias"].equal(given_tensors["head.bias"])


def test_the_manifest_comes_back_whole(folder: Path) -> None:
    weights = (folder / "weights.safetensors").read_bytes()
    expected = manifest(
        dev={"accuracy": 0.9375, "f1": 1.0},
        weights_sha256=hashlib.sha256(weights).hexdigest(),
        weights_bytes=len(weights),
    )
    assert read_manifest(folder) == expected
    assert expected.to_json() == (folder / "manifest.json").read_bytes()


def test_the_weights_are_a_common_safetensors_file(folder: Path) -> None:
    loaded = load_file(folder / "weights.safetensors")
    assert all(loaded[name].equal(tensor) for name, tensor in tensors().items())
    header = (folder / "weights.safetensors").read_bytes()[8:]
    names = list(json.loads(header[: header.index(b"}}") + 2]))
    assert names == sorted(tensors())


@pytest.mark.parametrize(("labels", "times"), [(2, 1), (400, 2)])
def test_small_manifests_are_decoded_once(labels: int, times: int, monkeypatch: Any) -> None:
    """Large ones, each time: they would fill the memory."""
    made = manifest(labels=tuple(f"{i:0500}" for i in range(labels)), positive="")
    raw = replace(made, weights_sha256="c" * 64, weights_bytes=1).to_json()
    decoded, real = [], manifest_module.decode

    def decode(kind: Any, *rest: Any) -> Any:
        decoded.append(kind)
        return real(kind, *rest)

    monkeypatch.setattr(manifest_module, "decode", decode)
    for _ in range(2):
        unpack_manifest(lambda _: io.BytesIO(raw), hashlib.sha256(raw).hexdigest())
    assert decoded == [Manifest] * times


def test_other_types_and_layouts_are_stored_as_plain_floats(tmp_path: Path) -> None:
    given_tensors = tensors()
    whole = torch.randn(D, 2, dtype=torch.bfloat16, requires_grad=True)
    given_tensors["head.weight"] = whole.t()
    given_tensors["head.bias"] = given_tensors["layer.0.output.down.bias"]  # shared memory
    write_package(tmp_path / "3", manifest(), given_tensors)
    found = read_package(tmp_path / "3").tensors
    assert found["head.weight"].equal(whole.detach().t().float())
    assert found["head.bias"].equal(found["layer.0.output.down.bias"])


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9)


@settings(max_examples=30, deadline=None)
@given(
    labels=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
        min_size=2,
        unique=True,
    ),
    scores=st.dictionaries(st.text("ab_1"), st.floats(allow_nan=False, allow_infinity=False)),
    layers=st.none() | st.lists(st.integers(0, 99), min_size=1).map(tuple),
    recipe=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])),
        PLAIN | st.lists(PLAIN | st.dictionaries(st.text("xyz"), PLAIN | st.lists(PLAIN))),
    ),
)
def test_any_manifest_comes_back(labels: Any, scores: Any, layers: Any, recipe: Any) -> None:
    made = manifest(
        labels=tuple(labels),
        positive=labels[-1],
        dev=scores,
        adapter=AdapterConfig(size=M, layers=layers),
        recipe=recipe,
        weights_sha256="c" * 64,
        weights_bytes=1,
    )
    assert Manifest.from_json(made.to_json()) == made


# --- the tensors that a manifest implies


METHODS = [
    Method(),
    Method(adapter=AdapterConfig(size=3, layers=(2,))),
    Method(adapter=AdapterConfig(size=3, layers=(1, 3), where="output")),
    Method(adapter=AdapterConfig(size=3, layers=(0,), where="attention", hidden_layers=3)),
    Method(adapter=AdapterConfig(size=3, train_layer_norms=False)),
    Method(adapter=AdapterConfig(size=3, norm="layer")),
    Method(adapter=AdapterConfig(size=3, norm="batch", train_layer_norms=False)),
    Method("full"),
    Method("top-k", top_k=1),
    Method("top-k", top_k=2),
    Method("layer-norm"),
    Method("head"),
]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_every_method_trains_fits_its_manifest(name: str) -> None:
    for method in METHODS:
        base = tiny(name)
        count = len(methods.sites_of(base.config).layer_paths(base))
        if method.adapter.layers and method.adapter.layers[-1] >= count:
            continue
        attachment = apply_method(base, method)
        shapes = {"head.weight": (2, 32), "head.bias": (2,)}
        for group, members in attachment.named_groups().items():
            for key, tensor in members.items():
                # An adapter's own norm must not take the name of its site's.
                own = key.replace(".norm.", ".inner_norm.") if group == "adapters" else key
                shapes[own] = tuple(tensor.shape)
        for key, tensor in attachment.named_buffers():
            shapes[key.replace(".norm.", ".inner_norm.")] = tuple(tensor.shape)
        made = manifest(
            method=MethodRecord(method.name, method.top_k),
            adapter=method.adapter if method.name == "adapters" else None,
        )
        check_tensors(made, shapes)
        # Take any tensor of the task's own away, and something is missed; full and top-k may
        # train any part of the base.
        for gone in sorted(shapes):
            fewer = {key: shape for key, shape in shapes.items() if key != gone}
            other_norm = gone.split(".")[0] in ("final", "relative", "convolution")
            first_norm = gone == "layer.0.attention.norm.weight"
            if gone.startswith("base.") or other_norm or first_norm or gone.endswith("norm.bias"):
                continue
            with pytest.raises(PackageError):
                check_tensors(made, fewer)


@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
@pytest.mark.parametrize("hidden_layers", [1, 3])
def test_adapter_shapes_are_those_of_the_module(norm: Any, hidden_layers: int) -> None:
    state = Adapter(5, 3, norm=norm, hidden_layers=hidden_layers).state_dict()
    own = {
        name.replace("norm.", "inner_norm.") if name.startswith("norm.") else name: tensor
        for name, tensor in state.items()
    }
    config = AdapterConfig(size=3, norm=norm, hidden_layers=hidden_layers)
    assert adapter_shapes(config, 5) == {name: tuple(t.shape) for name, t in own.items()}


def test_choices_are_those_of_the_model() -> None:
    assert get_args(manifest_module.MethodName) == get_args(methods.MethodName)
    assert get_args(manifest_module.Pooling) == get_args(encoder.Pooling)


@pytest.mark.parametrize(
    ("kind", "labels", "outputs"),
    [
        ("classification", ("a", "b", "c"), 3),
        ("multi-label", ("a",), 1),
        ("regression", (), 1),
        ("span", (), 2),
    ],
)
def test_the_head_has_an_output_for_each_label(
    tmp_path: Path, kind: Any, labels: tuple[str, ...], outputs: int
) -> None:
    made = manifest(
        kind=kind, labels=labels, positive="", method=MethodRecord("head"), adapter=None
    )
    head = {"head.weight": torch.ones(outputs, D), "head.bias": torch.ones(outputs)}
    write_package(tmp_path / "1", made, head)
    assert read_package(tmp_path / "1").tensors.keys() == head.keys()
    head = {"head.weight": torch.ones(outputs + 1, D), "head.bias": torch.ones(outputs + 1)}
    with pytest.raises(PackageError, match=r"head.weight' with shape \[\d, 4\], not \[\d, 4\]"):
        write_package(tmp_path / "2", made, head)


WRONG_TENSORS: dict[str, tuple[Callable[[dict[str, Tensor]], object], str]] = {
    "extra": (
        lambda t: t.update({"layer.0.attention.side.weight": torch.ones(D)}),
        "holds 'layer.0.attention.side.weight', which the manifest doesn't account for",
    ),
    "of the base": (lambda t: t.update({"base.x": torch.ones(D)}), "holds 'base.x'"),
    "another layer, in part": (
        lambda t: t.update({"layer.2.output.down.weight": torch.ones(M, D)}),
        "lacks 'layer.2.attention.down.bias'",
    ),
    "norm of a layer too many": (
        lambda t: t.update({"layer.3.output.norm.weight": torch.ones(D)}),
        "lacks 'layer.2.attention.norm.bias'",
    ),
    "leading zero": (lambda t: t.update({"layer.01.output.norm.bias": torch.ones(D)}), "holds"),
    "no head": (lambda t: t.pop("head.weight"), "has no matrix head.weight"),
    "no bias of the head": (lambda t: t.pop("head.bias"), "lacks 'head.bias'"),
    "no adapter bias": (
        lambda t: t.pop("layer.1.output.up.bias"),
        "lacks 'layer.1.output.up.bias'",
    ),
    "no norm": (lambda t: t.pop("layer.1.output.norm.bias"), "lacks 'layer.1.output.norm.bias'"),
    "no embeddings norm": (
        lambda t: t.pop("embeddings.norm.weight"),
        "lacks 'embeddings.norm.weight'",
    ),
    "wide bottleneck": (
        lambda t: t.update({"layer.1.output.down.weight": torch.ones(M + 1, D)}),
        r"holds 'layer.1.output.down.weight' with shape \[3, 4\], not \[2, 4\]",
    ),
    "transposed": (
        lambda t: t.update({"layer.1.output.up.weight": torch.ones(M, D)}),
        r"with shape \[2, 4\], not \[4, 2\]",
    ),
    "short norm": (
        lambda t: t.update({"layer.1.output.norm.bias": torch.ones(1)}),
        r"with shape \[1\], not \[4\]",
    ),
    "matrix norm": (
        lambda t: t.update({"embeddings.norm.bias": torch.ones(2, 2)}),
        r"with shape \[2, 2\], not one dimension",
    ),
    "NaN": (
        lambda t: t["layer.0.output.up.weight"].fill_(float("nan")),
        "holds 'layer.0.output.up.weight' with values that are not finite",
    ),
    "infinity": (
        lambda t: t["head.bias"][1:].fill_(float("-inf")),
        "holds 'head.bias' with values",
    ),
}


@pytest.mark.parametrize("case", WRONG_TENSORS)
def test_wrong_tensors_are_refused_by_both_sides(tmp_path: Path, case: str) -> None:
    change, message = WRONG_TENSORS[case]
    wrong = tensors()
    change(wrong)
    with pytest.raises(PackageError, match=message):
        write_package(tmp_path / "3", manifest(), wrong)
    assert not list(tmp_path.iterdir())
    forge(tmp_path / "3", save(wrong))
    with pytest.raises(PackageError, match=message):
        read_package(tmp_path / "3")


def test_settings_that_would_imply_endless_tensors_are_refused(tmp_path: Path) -> None:
    deep = AdapterConfig(size=M, hidden_layers=10**12)
    with pytest.raises(PackageError, match="cannot hold that many adapters"):
        write_package(tmp_path / "3", manifest(adapter=deep), tensors())
    high = MethodRecord("top-k", 10**12)
    with pytest.raises(PackageError, match="lacks some of the top 1000000000000 layers"):
        write_package(tmp_path / "3", manifest(method=high, adapter=None), tensors())


# --- damage


def flips(whole: bytes) -> Iterator[bytes]:
    for place, value in enumerate(whole):
        yield whole[:place] + bytes([value ^ (1 << place % 8)]) + whole[place + 1 :]


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    written = write_package(tmp_path / "3", manifest(), tensors(layers=1))
    for flipped in flips((tmp_path / "3" / "manifest.json").read_bytes()):
        with pytest.raises(PackageError):
            Manifest.from_json(flipped)
    weights = tmp_path / "3" / "weights.safetensors"
    for flipped in flips(weights.read_bytes()):
        weights.write_bytes(flipped)
        with weights.open("rb") as file, pytest.raises(PackageError):
            read_weights(file, written)


@pytest.mark.parametrize("name", ["weights.safetensors", "manifest.json"])
@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100, -1])
def test_a_file_that_was_cut_short_is_found(folder: Path, name: str, length: int) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:length])
    with pytest.raises(PackageError):
        read_package(folder)
    (folder / name).write_bytes(whole + b"\n")
    with pytest.raises(PackageError):
        read_package(folder)


def test_damage_is_named(folder: Path) -> None:
    weights = folder / "weights.safetensors"
    whole = weights.read_bytes()
    size = len(whole)
    weights.write_bytes(whole[:-4])
    with pytest.raises(PackageError) as caught:
        read_package(folder)
    assert caught.value.message == (
        f"weights.safetensors has {size - 4:,} bytes, and the manifest says {size:,}."
    )
    assert caught.value.hint == (
        "Get the package again from where it came, or train the task again."
    )
    weights.write_bytes(whole[:-1] + b"\0")
    with pytest.raises(PackageError, match=r"weights.safetensors has digest [0-9a-f]{64}, not "):
        read_package(folder)
    text = (folder / "manifest.json").read_text("utf-8")
    (folder / "manifest.json").write_text(text.replace("0.9375", "0.9376"), "utf-8")
    with pytest.raises(PackageError, match="The manifest is not in order: it was changed"):
        read_package(folder)


def weights_file(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def entry(shape: Any, begin: Any, end: Any, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": 1, "a": 1}', "a field stands there twice"),
        (b"\xff", "cannot be read"),
        (b"[]", "no list of at most 100,000 tensors"),
        ({"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, "overlap before 'b'"),
        ({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, "gap or an overlap before 'b'"),
        ({"a": entry([1], -4, 0)}, "gap or an overlap before 'a'"),
        ({"a": entry([2], 0, 8)}, "has 12 bytes of values where its header says 8"),
        ({"a": entry([4], 0, 16)}, "has 12 bytes of values where its header says 16"),
        ({"a": entry([2**40, 2**40], 0, 12)}, "describes 'a'"),
        ({"a": entry([-1, -3], 0, 12)}, "describes 'a'"),
        ({"a": entry([3, True], 0, 12)}, "describes 'a'"),
        ({"a": entry([3.0], 0, 12)}, "describes 'a'"),
        ({"a": entry([3], 0, 12, "F16")}, "describes 'a'"),
        ({"a": entry([3], 0, 12) | {"more": 1}}, "describes 'a'"),
        ({"a": entry([1] * 5 + [3], 0, 12)}, "describes 'a'"),
        ({"a": entry(3, 0, 12)}, "describes 'a'"),
        ({"a": None}, "describes 'a'"),
        ({"__metadata__": {"code": "os.system"}, "a": entry([3], 0, 12)}, "describes '__metadata"),
    ],
)
def test_headers_that_lie_are_refused(header: Any, message: str) -> None:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    with pytest.raises(PackageError, match=message):
        read_header(raw, 12, "fp32")


def test_a_huge_header_is_refused_unread(tmp_path: Path, monkeypatch: Any) -> None:
    for claimed in (2**63, MAX_HEADER + 1, 10**6):
        forge(tmp_path / "3", struct.pack("<Q", claimed) + bytes(100))
        with pytest.raises(PackageError, match=f"has a header of {claimed:,} bytes"):
            read_package(tmp_path / "3")
    write_package(tmp_path / "4", manifest(), tensors())
    monkeypatch.setattr(weights_module, "MAX_HEADER", 100)
    with pytest.raises(PackageError, match=r"has a header of \d,\d{3} bytes"):
        read_package(tmp_path / "4")
    many = {f"t{i}": 0 for i in range(100_001)}
    with pytest.raises(PackageError, match="no list of at most 100,000 tensors"):
        read_header(json.dumps(many).encode(), 0, "fp32")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda t: weights_file(t.encode())))
def test_noise_in_place_of_weights_is_refused(tmp_path_factory: Any, noise: bytes) -> None:
    folder = tmp_path_factory.mktemp("noise")
    noise = noise or b"\0"
    forge(folder, noise)
    with pytest.raises(PackageError):
        read_package(folder)
    shutil.rmtree(folder)


# --- manifests


def values() -> dict[str, Any]:
    return unseal(manifest(weights_sha256="c" * 64, weights_bytes=9).to_json())


DATA = {"rows": {}, "sha256": "a" * 64, "balance": {}}
CONFUSED = {"label": "no", "predicted": "yes", "rows": 1}
PROBE = {"tokens": [1, 2], "outputs": [0.5], "sha256": "a" * 64}
WRONG_VALUES: list[tuple[str, Any, str]] = [
    ("extra", 1, "manifest has an unknown field, 'extra'"),
    ("format", 0, "format is 0, and must be 1"),
    ("format", "1", "manifest.format is '1', and must be a whole number"),
    ("format", True, "manifest.format is True, and must be a whole number"),
    ("task", "../spam", "'../spam' is not a task's name"),
    ("task", "a%2fb", "is not a task's name"),
    ("task", 3, "manifest.task is 3, and must be a text"),
    ("created", "yesterday", "created is not a time like"),
    ("created", "2026-1-31T12:00:00Z", "created is not a time like"),
    ("created", "2026-02-31T12:00:00Z", "created is not a time like"),
    ("created", "2026-01-31T12:00:00+01:00", "created is not a time like"),
    ("kind", "oracle", "manifest.kind is 'oracle', and must be one of classification"),
    ("labels", "no", "manifest.labels is 'no', and must be a list"),
    ("labels", ["no", 1], r"manifest.labels\[1\] is 1, and must be a text"),
    ("labels", ["no", "no"], "a label stands there twice"),
    ("labels", ["no"], "classification with 1 labels"),
    ("labels", ["no", ""], "a label is empty or longer than 512"),
    ("labels", ["no", "y" * 513], "a label is empty or longer than 512"),
    ("labels", [str(i) for i in range(10_001)], "it has more than 10,000 labels"),
    ("pair", 1, "manifest.pair is 1, and must be true or false"),
    ("columns", {"text": 1}, "manifest.columns.text is 1, and must be a text"),
    ("columns", {"txt": "a"}, "columns has a name other than text, pair and label"),
    ("metric", "", "metric is empty"),
    ("positive", "maybe", "positive is not one of the labels"),
    ("dev", {"f1": "1"}, "manifest.dev.f1 is '1', and must be a number"),
    ("dev", {"f1": True}, "manifest.dev.f1 is True, and must be a number"),
    ("dev", {"f1": 10**400}, r"manifest.dev.f1 is 1000+\.\.\., and must be a number"),
    ("dev", [], r"manifest.dev is \[\], and must be an object"),
    ("method", {"name": "adapters"}, "manifest.method lacks the field top_k"),
    ("method", {"name": "os.system", "top_k": 1}, "manifest.method.name is 'os.system', and must"),
    ("method", {"name": "head", "top_k": 1}, "adapter must be there for the method of that name"),
    ("adapter", None, "adapter must be there for the method of that name"),
    ("adapter", [], r"manifest.adapter is \[\], and must be an object"),
    ("pooling", None, "manifest.pooling is None, and must be one of pooler, mean, first"),
    ("pooling", ["mean"], r"manifest.pooling is \['mean'\]"),
    ("max_length", 0, "max_length, parameters.trained and method.top_k count from 1"),
    ("recipe", None, "manifest.recipe is None, and must be an object"),
    ("recipe", {"x": [{}] * 1_000}, "recipe holds more than 1,000 values"),
    ("recipe", {"x": [[[[]]]]}, "or nests them deeper than 4"),
    ("software", {str(i): "1" for i in range(1_000)}, "software holds more than 1,000 values"),
    ("statistics", {"x": [0] * 1_000}, "statistics holds more than 1,000 values"),
    ("probes", [PROBE | {"tokens": [1] * 50_000}], "it holds more than 50,000 values"),
    ("data", DATA | {"rows": {"train": -1}}, "data has a negative number of rows, or"),
    ("data", DATA | {"balance": {"no": -1}}, "data has a negative number of rows, or"),
    ("data", DATA | {"balance": {"perhaps": 1}}, "names what is not one of the labels"),
    ("data", DATA | {"sha256": "A" * 64}, "64 hexadecimal digits"),
    ("confusion", [CONFUSED | {"predicted": "perhaps"}], "names what is not one of the labels"),
    ("confusion", [CONFUSED | {"rows": 0}], "or confusion one below 1"),
    ("confusion", [CONFUSED, CONFUSED], "confusion has a pair twice"),
    ("confusion", [CONFUSED | {"rows": 0.5}], r"confusion\[0\].rows is 0.5, and must be a whole"),
    ("precision", "fp8", "manifest.precision is 'fp8', and must be one of fp32, fp16"),
    ("probes", [PROBE | {"sha256": ""}], "64 hexadecimal digits"),
    ("probes", [PROBE | {"tokens": ["a"]}], r"probes\[0\].tokens\[0\] is 'a', and must be"),
    ("note", "y" * 10_001, "note is longer than 10,000 characters"),
    ("origin", None, "manifest.origin is None, and must be a text"),
    ("base", {"name": "minilm", "fingerprint": "b" * 63}, "64 hexadecimal digits"),
    ("base", {"name": "x", "fingerprint": "b" * 64, "class": "y"}, "unknown field, 'class'"),
    ("temperature", 0, "temperature is 0, and must be from 1e-06 to 1e"),
    ("temperature", 1e-300, "temperature is 1e-300, and must be from 1e-06 to 1e"),
    ("temperature", 1e7, "temperature is 1e"),
    ("temperature", None, "manifest.temperature is None, and must be a number"),
    ("threshold", "0", "manifest.threshold is '0', and must be a number"),
    ("probes", {}, "manifest.probes is {}, and must be a list"),
    ("statistics", [], r"manifest.statistics is \[\], and must be an object"),
    ("baselines", {"a": 1.0}, "manifest.baselines.a is 1.0, and must be an object"),
    ("software", {"torch": 2}, "manifest.software.torch is 2, and must be a text"),
    ("weights_sha256", "", "64 hexadecimal digits"),
    ("weights_bytes", 0, "weights_bytes must be above 0"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG_VALUES)
def test_wrong_manifests_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(PackageError, match=message) as caught:
        Manifest.from_json(seal(values() | {name: value}))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", list(values()))
def test_a_missing_field_is_named(name: str) -> None:
    found = values()
    del found[name]
    with pytest.raises(PackageError, match=f"manifest lacks the field {name}"):
        Manifest.from_json(seal(found))


@pytest.mark.parametrize("name", sorted(values()["adapter"]))
def test_the_adapters_settings_are_checked_too(name: str) -> None:
    for wrong in ([[]], -1, "x"):
        found = values()
        found["adapter"][name] = wrong
        with pytest.raises(PackageError, match=name):
            Manifest.from_json(seal(found))
    del found["adapter"][name]
    with pytest.raises(PackageError, match=f"manifest.adapter lacks the field {name}"):
        Manifest.from_json(seal(found))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The manifest is not in order"),
        ("[]", "it is not an object"),
        ("null", "it is not an object"),
        ('{"a": 1, "a": 1}', "a field stands there twice"),
        ("[" * 100_000, "it is nested too deeply"),
        (b"\xff\xfe", "The manifest is not in order"),
        (" " * (4 * 2**20 + 1), "it is longer than 4,194,304 bytes"),
        ("9" * 5000, "The manifest is not in order"),
    ],
)
def test_other_texts_are_no_manifests(text: str | bytes, message: str) -> None:
    with pytest.raises(PackageError, match=message):
        Manifest.from_json(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("field", ['"accuracy": 0.9375', '"learning_rate": 0.001'])
def test_numbers_are_finite(number: str, field: str) -> None:
    text = manifest(weights_sha256="c" * 64, weights_bytes=9).to_json().decode()
    assert field in text
    with pytest.raises(PackageError):
        Manifest.from_json(text.replace(field, f"{field.split(':')[0]}: {number}").encode())


def test_a_manifest_that_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    for changes, message in [
        ({"dev": {"f1": float("nan")}}, "what JSON cannot: Out of range float"),
        ({"recipe": {"x": torch.ones(1)}}, "what JSON cannot: Object of type Tensor"),
        ({"dev": {"f1": np.float32(1)}}, "what JSON cannot: Object of type float32"),
        ({"task": "A B"}, "is not a task's name"),
        ({"recipe": {"x": "y" * 2**22}}, "it is longer than"),
    ]:
        with pytest.raises(PackageError, match=message):
            write_package(tmp_path / "3", manifest(**changes), tensors())
    assert not list(tmp_path.iterdir())


def test_one_text_a_manifest() -> None:
    text = manifest(weights_sha256="c" * 64, weights_bytes=9).to_json().decode()
    assert Manifest.from_json(text.encode()).to_json().decode() == text
    for other in (json.dumps(json.loads(text)), text + " ", text.replace(" 3,", " 3 ,", 1)):
        assert json.loads(other) == json.loads(text)
        with pytest.raises(PackageError, match="was changed after it was written"):
            Manifest.from_json(other.encode())


def test_a_newer_format_asks_for_an_upgrade() -> None:
    with pytest.raises(PackageError) as caught:
        Manifest.from_json(seal({"format": 2, "whatever": []}))
    assert caught.value.message == (
        "This package has format 2, written by a newer AdapterBank; this one reads up to 1."
    )
    assert caught.value.hint == "Upgrade AdapterBank."


# --- folders


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="There is no package 'nowhere': No such file"):
        read_package(tmp_path / "nowhere")
    with pytest.raises(PackageError, match=r"There is no package 'manifest.json': Not a directory"):
        read_package(folder / "manifest.json")
    (folder / "weights.safetensors").unlink()
    with pytest.raises(PackageError, match=r"'3' is not a package: it has no weights.safetensors"):
        read_package(folder)
    read_manifest(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(PackageError, match=r"'3' is not a package: it has no manifest.json"):
        read_manifest(folder)


@pytest.mark.parametrize("name", ["pytorch_adapter.bin", "head.pt", "a.PKL", "b.pth", "c.ckpt"])
def test_files_that_can_run_code_are_refused(folder: Path, name: str) -> None:
    (folder / "README.md").write_text("a card beside it is fine")
    read_package(folder)
    (folder / name).write_bytes(b"")
    with pytest.raises(PackageError) as caught:
        read_manifest(folder)
    assert caught.value.message == (
        f"The package '3' holds {name}; loading such a file can run code."
    )
    assert "re-saved with safetensors" in caught.value.hint


@pytest.mark.parametrize("name", ["weights.safetensors", "manifest.json"])
def test_links_pipes_and_folders_are_not_followed(folder: Path, name: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(PackageError, match=f"{name} of the package '3' cannot be read: Too many"):
        read_package(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(PackageError, match=f"{name} of the package '3' cannot be read: it is not"):
        read_package(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(PackageError, match=f"{name} of the package '3' "):
        read_package(folder)


def test_an_existing_package_is_not_overwritten(folder: Path) -> None:
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(PackageError, match="There is already something called '3'"):
        write_package(folder, manifest(max_length=4), tensors())
    assert (folder / "manifest.json").read_bytes() == before


def test_replace_swaps(folder: Path) -> None:
    write_package(folder, manifest(max_length=4), tensors(layers=3), replace=True)
    package = read_package(folder)
    assert package.manifest.max_length == 4
    assert package.tensors.keys() == tensors(layers=3).keys()
    assert [path.name for path in folder.parent.iterdir()] == ["3"]
    write_package(folder.parent / "new", manifest(), tensors(), replace=True)
    read_package(folder.parent / "new")


def test_replace_spares_what_is_no_package(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-mum.txt").write_text("dear mum")
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(folder)
    for name in ("letters", "file", "link"):
        with pytest.raises(PackageError, match=f"'{name}' is not a package, so it is not replaced"):
            write_package(tmp_path / name, manifest(), tensors(), replace=True)
    assert (tmp_path / "letters" / "to-mum.txt").read_text() == "dear mum"
    read_package(folder)


# --- whole or nothing


class Killed(BaseException):
    """The process ends here: nothing after this point runs."""


CALLS = ("mkdir", "fsync", "rename")


class Faults:
    """Counts the calls that change the disk, and fails at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.fail_at = -1
        self.error: BaseException = Killed()
        self.dead = False
        for name in CALLS:
            monkeypatch.setattr(os, name, self.watched(name, getattr(os, name)))
        monkeypatch.setattr(shutil, "rmtree", self.alive(shutil.rmtree))

    def watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.log.append(name)
            if self.dead:
                raise Killed
            if len(self.log) - 1 == self.fail_at:
                self.dead = isinstance(self.error, Killed)
                raise self.error
            return call(*args, **kwargs)

        return run

    def alive(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            return call(*args, **kwargs)

        return run


NEW = ["mkdir", "fsync", "fsync", "fsync", "rename", "fsync"]
SWAP = [*NEW[:4], "rename", "rename", "fsync"]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    with monkeypatch.context() as patch:
        yield Faults(patch)


def visible(folder: Path) -> list[str]:
    """What a reader of the folder sees."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_everything_is_on_the_disk_before_it_is_seen(tmp_path: Path, faults: Faults) -> None:
    write_package(tmp_path / "3", manifest(), tensors())
    assert faults.log == NEW
    faults.log.clear()
    write_package(tmp_path / "3", manifest(), tensors(), replace=True)
    assert faults.log == SWAP


@pytest.mark.parametrize("step", range(len(NEW)))
def test_a_failure_at_any_step_leaves_nothing(tmp_path: Path, faults: Faults, step: int) -> None:
    faults.fail_at, faults.error = step, OSError(errno.EIO, "Input/output error")
    with pytest.raises(PackageError, match="The package '3' could not be written: Input/output"):
        write_package(tmp_path / "3", manifest(), tensors())
    assert not list(tmp_path.iterdir())
    write_package(tmp_path / "3", manifest(), tensors())
    read_package(tmp_path / "3")


@pytest.mark.parametrize("step", range(len(SWAP)))
def test_a_failure_at_any_step_of_a_swap_leaves_the_old(
    folder: Path, faults: Faults, step: int
) -> None:
    faults.fail_at, faults.error = step, OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(PackageError, match="No space left on device"):
        write_package(folder, manifest(max_length=4), tensors(), replace=True)
    assert [path.name for path in folder.parent.iterdir()] == ["3"]
    assert read_package(folder).manifest.max_length == 128


@pytest.mark.parametrize("step", range(len(NEW)))
def test_killed_at_any_step_there_is_no_half_package(
    tmp_path: Path, faults: Faults, step: int
) -> None:
    faults.fail_at = step
    with pytest.raises(Killed):
        write_package(tmp_path / "3", manifest(), tensors())
    seen = visible(tmp_path)
    assert seen == (["3"] if step > NEW.index("rename") else [])
    for name in seen:
        read_package(tmp_path / name)


@pytest.mark.parametrize("step", range(len(SWAP)))
def test_killed_at_any_step_of_a_swap_no_package_is_lost(
    folder: Path, faults: Faults, step: int
) -> None:
    faults.fail_at = step
    with pytest.raises(Killed):
        write_package(folder, manifest(max_length=4), tensors(), replace=True)
    if step <= 4:
        assert read_package(folder).manifest.max_length == 128
    elif step == 5:  # between the two renames: the old one stands beside, whole
        assert visible(folder.parent) == []
        (old,) = folder.parent.glob(".3.*.old")
        assert read_package(old).manifest.max_length == 128
    else:
        assert read_package(folder).manifest.max_length == 4
    assert set(visible(folder.parent)) <= {"3"}


def test_interrupted_by_the_user_it_cleans_up(tmp_path: Path, faults: Faults) -> None:
    faults.fail_at, faults.error = 2, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        write_package(tmp_path / "3", manifest(), tensors())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("limit", [0, 100, 1000])
def test_a_file_that_cannot_grow_leaves_nothing(tmp_path: Path, limit: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(PackageError) as caught:
            write_package(tmp_path / "3", manifest(), tensors())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.message == "The package '3' could not be written: File too large."
    assert "Nothing was changed." in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path, faults: Faults) -> None:
    faults.fail_at, faults.error = 0, OSError(errno.EROFS, "Read-only file system")
    with pytest.raises(PackageError, match="could not be written: Read-only file system"):
        write_package(tmp_path / "3", manifest(), tensors())
    with pytest.raises(PackageError, match="could not be written: No such file or directory"):
        write_package(tmp_path / "missing" / "3", manifest(), tensors())


@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_two_writers_of_one_name_do_not_mix(tmp_path: Path, monkeypatch: Any, moment: str) -> None:
    call = getattr(os, moment)

    def racing(*args: Any) -> Any:
        monkeypatch.undo()
        write_package(
            tmp_path / "3", manifest(max_length=9), tensors()
        )  # another process is quicker
        return call(*args)

    monkeypatch.setattr(os, moment, racing)
    with pytest.raises(PackageError, match="could not be written: Directory not empty"):
        write_package(tmp_path / "3", manifest(), tensors())
    assert read_package(tmp_path / "3").manifest.max_length == 9
    assert [path.name for path in tmp_path.iterdir()] == ["3"]


def test_config_errors_do_not_leak_from_manifests() -> None:
    found = values()
    found["adapter"]["size"] = 0
    with pytest.raises(PackageError, match=r"size is 0; it must be a whole number from 1\. G"):
        Manifest.from_json(seal(found))
