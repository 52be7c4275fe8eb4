"""Attaching and detaching on every architecture: identity, exact restoration, what moves."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification, BertConfig, BertModel

from adapterbank.errors import AttachError, ConfigError, UnsupportedBase
from adapterbank.model import attach as attach_module
from adapterbank.model.adapter import Adapter
from adapterbank.model.attach import attach
from adapterbank.model.config import AdapterConfig
from adapterbank.model.encoder import fingerprint
from adapterbank.model.methods import Method, apply_method
from adapterbank.model.sites import SITES, sites_of
from tiny import ARCHITECTURES, CONFIGS, padded, roughened, rows, tiny

LENGTHS = [5, 9, 1, 7]
METHODS = [
    Method("adapters"),
    Method("full"),
    Method("top-k", top_k=1),
    Method("layer-norm"),
    Method("head"),
]


def output(model) -> torch.Tensor:
    with torch.no_grad():
        return model(**padded(model, rows(LENGTHS))).last_hidden_state


def train_a_little(model, parameters, steps: int = 2) -> None:
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    model.train()
    for _ in range(steps):
        out = model(**padded(model, rows(LENGTHS)))
        hidden = out.logits if hasattr(out, "logits") else out.last_hidden_state
        (hidden * torch.linspace(0.5, 1.5, hidden.shape[-1])).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_every_supported_architecture_is_tested() -> None:
    assert set(ARCHITECTURES) == set(SITES)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_sites_name_every_layer_norm(name: str) -> None:
    model = tiny(name)
    found = {path for path, module in model.named_modules() if isinstance(module, nn.LayerNorm)}
    assert set(sites_of(model.config).norm_paths(model).values()) == found


@pytest.mark.parametrize("insertion", ["serial", "parallel"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_zero_adapters_are_the_base_bit_for_bit(name: str, insertion) -> None:
    model = tiny(name)
    before = output(model)
    attach(model, AdapterConfig(size=4, init_std=0.0, insertion=insertion))
    assert torch.equal(output(model), before)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_both_adapters_of_every_layer_take_part(name: str) -> None:
    model = tiny(name)
    attachment = attach(model, AdapterConfig(size=4, init_std=0.0))
    before = output(model)
    adapters = [a for layer in attachment.layer.values() for a in layer.values()]
    assert len(adapters) == 2 * len(sites_of(model.config).layer_paths(model))
    for adapter in adapters:
        with torch.no_grad():
            adapter.up.bias.uniform_(0.5, 1)
        assert not torch.allclose(output(model), before)
        with torch.no_grad():
            adapter.up.bias.zero_()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_serial_adapter_stands_between_projection_and_residual(name: str) -> None:
    """Changing the adapter's output by a constant equals changing the projection's bias by it."""
    model, twin = tiny(name), tiny(name)
    attachment = attach(model, AdapterConfig(size=4, init_std=0.0))
    shift = torch.randn(32, generator=torch.Generator().manual_seed(1))
    layer = sites_of(twin.config).layer_modules(twin)[-1]
    projections = {
        "distilbert": ("attention.out_lin", "ffn.lin2"),
        "mpnet": ("attention.attn.o", "output.dense"),
        "albert": ("attention.dense", "ffn_output"),
        "modernbert": ("attn.Wo", "mlp.Wo"),
    }.get(name, ("attention.output.dense", "output.dense"))
    for site, path in zip(("attention", "output"), projections, strict=True):
        last = list(attachment.layer.values())[-1]
        with torch.no_grad():
            last[site].up.bias.copy_(shift)
            projection = layer.get_submodule(path)
            if projection.bias is None:
                projection.bias = nn.Parameter(torch.zeros(32))
            projection.bias.add_(shift)
    torch.testing.assert_close(output(model), output(twin), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_detach_gives_the_base_back_exactly(name: str, method: Method) -> None:
    model = tiny(name).train()
    model.get_input_embeddings().weight.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [p.requires_grad for p in model.parameters()]
    objects = [id(p) for p in model.parameters()]
    keys, print_before = list(model.state_dict()), fingerprint(model)
    model.eval()
    before = output(model)
    model.train()

    attachment = apply_method(model, method)
    trained = [p for group in attachment.parameter_groups().values() for p in group]
    if trained:
        train_a_little(model, trained)
        model.eval()
        assert not torch.allclose(output(model), before)
    model.eval()
    attachment.detach()

    assert [module.training for module in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == flags
    assert [id(p) for p in model.parameters()] == objects
    assert all(p.grad is None for p in model.parameters())
    assert list(model.state_dict()) == keys
    assert fingerprint(model) == print_before
    model.eval()
    assert torch.equal(output(model), before)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_one_step_moves_the_named_groups_and_nothing_else(name: str, method: Method) -> None:
    torch.manual_seed(0)
    model = roughened(AutoModelForSequenceClassification.from_config(CONFIGS[name]))
    attachment = apply_method(model, method)
    groups = attachment.named_groups()
    expected = {
        "adapters": {"adapters", "layer_norms", "head"},
        "full": {"layer_norms", "base", "head"},
        "top-k": {"layer_norms", "base", "head"},
        "layer-norm": {"layer_norms", "head"},
        "head": {"head"},
    }[method.name]
    assert set(groups) == expected

    named = {id(p) for group in groups.values() for p in group.values()}
    assert {id(p) for p in model.parameters() if p.requires_grad} == named
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    # Every parameter the model has goes to the optimiser: only the trainable ones may move.
    train_a_little(model, model.parameters(), steps=1)
    for parameter_name, parameter in model.named_parameters():
        if id(parameter) not in named:
            assert torch.equal(parameter, before[parameter_name]), parameter_name
    after = {id(p): not torch.equal(p, before[n]) for n, p in model.named_parameters()}
    for group, parameters in groups.items():
        still = [n for n, p in parameters.items() if not after[id(p)]]
        # The key's bias drops out of the softmax: the one base parameter without a gradient.
        assert not still or (group == "base" and len(still) < 0.2 * len(parameters)), still


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_layers_below_the_lowest_adapted_one_do_not_train(name: str) -> None:
    model = tiny(name)
    count = len(sites_of(model.config).layer_paths(model))
    groups = attach(model, AdapterConfig(size=4, layers=(count - 1,))).named_groups()
    names = [n for group in groups.values() for n in group]
    assert all(n.startswith((f"layer.{count - 1}.", "final.")) for n in names)
    assert any("norm" in n for n in names)


@pytest.mark.parametrize("where", ["attention", "output"])
def test_where_keeps_one_site(where) -> None:
    attachment = attach(tiny("bert"), AdapterConfig(where=where))
    assert all(list(layer) == [where] for layer in attachment.layer.values())


def test_frozen_layer_norms() -> None:
    groups = attach(tiny("bert"), AdapterConfig(train_layer_norms=False)).parameter_groups()
    assert list(groups) == ["adapters"]


def test_parallel_reads_the_sublayers_input() -> None:
    model = tiny("bert")
    attachment = attach(model, AdapterConfig(size=4, init_std=0.3, insertion="parallel"))
    seen = {}
    adapter = attachment.layer["0"]["output"]
    adapter.register_forward_pre_hook(lambda _, args: seen.update(hidden=args[0], source=args[1]))
    model.encoder.layer[0].intermediate.register_forward_pre_hook(
        lambda _, args: seen.update(input=args[0])
    )
    output(model)
    assert seen["source"] is seen["input"]
    assert seen["hidden"] is not seen["source"]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_deepcopy_is_independent(name: str) -> None:
    model = tiny(name)
    attach(model, AdapterConfig(size=4, init_std=0.3, insertion="parallel"))
    before = output(model)
    twin = copy.deepcopy(model)
    assert torch.equal(output(twin), before)
    train_a_little(twin, [p for p in twin.parameters() if p.requires_grad])
    twin.eval()
    assert not torch.allclose(output(twin), before)
    assert torch.equal(output(model), before)
    twin.base_model.adapterbank.detach()  # as the page says, which holds for models with a head
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in twin.modules())
    assert torch.equal(output(model), before)
    model.adapterbank.detach()
    assert torch.equal(output(model), output(twin))


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ("base", 8, 351_936),
        ("base", 64, 2_417_664),
        ("base", 256, 9_500_160),
        ("large", 8, 936_320),
        ("large", 64, 6_444_032),
        ("large", 256, 25_327_616),
    ],
)
def test_counts_are_the_papers(shape: str, size: int, expected: int) -> None:
    config = BertConfig()
    if shape == "large":
        config = BertConfig(
            hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
        )
    with torch.device("meta"):
        model = BertModel(config)
    groups = attach(model, AdapterConfig(size=size)).parameter_groups()
    counts = {name: sum(p.numel() for p in group) for name, group in groups.items()}
    assert sum(counts.values()) == expected
    assert counts["layer_norms"] == {"base": 38_400, "large": 100_352}[shape]


def test_tied_weights_stay_tied() -> None:
    from transformers import BertForMaskedLM

    model = BertForMaskedLM(CONFIGS["bert"])
    attachment = apply_method(model, Method("full"))
    decoder, words = model.cls.predictions.decoder, model.bert.embeddings.word_embeddings
    assert decoder.weight is words.weight
    attachment.detach()
    assert decoder.weight is words.weight


def test_attaching_twice_and_detaching_twice_are_refused() -> None:
    model = tiny("bert")
    attachment = attach(model)
    with pytest.raises(AttachError, match=r"already carries adapters.*detach"):
        attach(model)
    attachment.detach()
    with pytest.raises(AttachError, match="not on the model"):
        attachment.detach()
    attach(model).detach()


def test_a_size_in_place_of_settings_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"config is 64; it takes an AdapterConfig\."):
        attach(tiny("bert"), 64)  # type: ignore[arg-type]


def test_a_refused_attach_leaves_the_model_alone() -> None:
    model = tiny("bert")
    with pytest.raises(ConfigError, match=r"layer 7.*has 4: 0 to 3"):
        attach(model, AdapterConfig(layers=(7,)))
    assert all(p.requires_grad for p in model.parameters())


def test_an_attach_that_fails_on_the_way_leaves_the_model_alone(monkeypatch) -> None:
    model = tiny("bert")
    before = model.state_dict()
    adapters = [Adapter(model.config.hidden_size, 4) for _ in range(3)]
    monkeypatch.setattr(attach_module, "Adapter", lambda *_, **__: adapters.pop())
    with pytest.raises(IndexError):  # as where memory ends
        attach(model, AdapterConfig(size=4))
    assert all(p.requires_grad for p in model.parameters())
    assert model.state_dict().keys() == before.keys()
    monkeypatch.undo()
    attach(model, AdapterConfig(size=4))


def test_weights_that_come_as_the_model_runs_are_refused() -> None:
    from accelerate import cpu_offload

    model = cpu_offload(tiny("bert"), torch.device("cpu"))
    with pytest.raises(AttachError, match=r"weights were moved off it.*Attach first"):
        attach(model)


def test_a_copy_for_another_gpu_is_refused() -> None:
    """What DataParallel makes: hooks that still call the adapters of the first device."""
    model = tiny("bert")
    attach(model, AdapterConfig(size=4))
    for module in model.modules():
        module._is_replica = True
    with pytest.raises(AttachError, match=r"DataParallel.*torchrun"):
        output(model)


def test_adapters_take_the_mode_of_the_model() -> None:
    for mode in (True, False):
        model = tiny("bert").train(mode)
        attachment = attach(model, AdapterConfig(size=4, norm="batch", init_std=0.3))
        statistics = {name: each.clone() for name, each in attachment.named_buffers()}
        assert {module.training for module in attachment.modules()} == {mode}
        output(model)
        moved = [not torch.equal(b, statistics[n]) for n, b in attachment.named_buffers()]
        assert moved == [mode] * len(moved)


def test_quantised_layers_get_adapters_of_their_own_precision() -> None:
    model = tiny("bert", torch.float16)
    for layer in sites_of(model.config).layer_modules(model):
        query = layer.attention.self.query
        query.weight = nn.Parameter(query.weight.to(torch.int8), requires_grad=False)
    adapters = attach(model, AdapterConfig(size=4)).parameter_groups()["adapters"]
    assert {parameter.dtype for parameter in adapters} == {torch.float16}


def test_batch_statistics_come_back_from_safetensors(tmp_path) -> None:
    models = []
    for _ in range(2):
        models.append(tiny("bert"))
        attach(models[-1], AdapterConfig(size=4, norm="batch", init_std=0.3))
    train_a_little(models[0], [p for p in models[0].parameters() if p.requires_grad])
    save_file(models[0].state_dict(), tmp_path / "model.safetensors")
    models[1].load_state_dict(load_file(tmp_path / "model.safetensors"))
    for model in models:
        model.eval()
    assert torch.equal(output(models[0]), output(models[1]))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_parallel_adapters_see_the_chunks_that_the_sublayer_sees(name: str) -> None:
    model = tiny(name)
    attach(model, AdapterConfig(size=4, insertion="parallel", init_std=0.3))
    given = padded(model, rows([6, 6]))
    with torch.no_grad():
        whole = model(**given).last_hidden_state
        chunked = [m for m in model.modules() if getattr(m, "chunk_size_feed_forward", None) == 0]
        for module in chunked:
            module.chunk_size_feed_forward = 3
        assert torch.allclose(model(**given).last_hidden_state, whole, atol=1e-6)


def test_other_architectures_are_refused_with_the_list() -> None:
    from transformers import T5Config, T5EncoderModel

    shape = {"d_model": 8, "d_ff": 8, "num_layers": 1, "num_heads": 1, "d_kv": 8, "vocab_size": 9}
    with pytest.raises(UnsupportedBase, match=r"'t5'.*bert.*modernbert"):
        attach(T5EncoderModel(T5Config(**shape)))
    with pytest.raises(UnsupportedBase, match="Linear"):
        attach(nn.Linear(2, 2))


def test_the_model_follows_to_another_dtype_and_back() -> None:
    model = tiny("bert")
    attachment = attach(model, AdapterConfig(size=4))
    model.double()
    assert attachment.layer["0"]["output"].down.weight.dtype == torch.float64
    attachment.detach()
    assert {p.dtype for p in model.parameters()} == {torch.float64}


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    gradients = []
    for checkpointing in (False, True):
        model = tiny("bert")
        attachment = attach(model, AdapterConfig(size=4, init_std=0.3, insertion="parallel"))
        if checkpointing:
            model.gradient_checkpointing_enable()
            model.train()
            for module in model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
        model(**padded(model, rows(LENGTHS))).last_hidden_state.pow(2).sum().backward()
        gradients.append([p.grad for p in attachment.parameter_groups()["adapters"]])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, checkpointed)


def test_save_pretrained_of_a_detached_model_loads_as_before(tmp_path) -> None:
    model = tiny("bert")
    before = output(model)
    attach(model).detach()
    model.save_pretrained(tmp_path)
    assert torch.equal(output(AutoModel.from_pretrained(tmp_path).eval()), before)
