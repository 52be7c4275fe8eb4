"""Put adapters on a model, and take them off again exactly.

What trains is a set of parameter names. The parameters behind those names are swapped for clones,
and so are the buffers of the head, so the model's own tensors are never written to, and `detach`
puts the very same objects back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from adapterbank.errors import AttachError, ConfigError
from adapterbank.model.adapter import Adapter
from adapterbank.model.config import AdapterConfig
from adapterbank.model.sites import Site, Sites, base_model, sites_of

CONTAINER = "adapterbank"  # the name of our one child in the encoder


def attach(model: nn.Module, config: AdapterConfig | None = None) -> Attachment:
    """Put the paper's adapters on a Hugging Face encoder and freeze all else.

    Trained afterwards: the adapters, the LayerNorms (`config.train_layer_norms`) and, if `model`
    has one, its head. Make the optimiser after this call. `detach()` gives the model back.
    """
    config = AdapterConfig() if config is None else config
    if not isinstance(config, AdapterConfig):
        raise ConfigError(
            f"config is {config!r}; it takes an AdapterConfig.",
            "attach(model, AdapterConfig(size=64))",
        )
    base = base_model(model)
    sites = sites_of(base.config)
    adapted = adapted_layers(config, len(sites.layer_paths(base)))
    offloaded = any(hasattr(module, "_hf_hook") for module in base.modules())
    if offloaded and any(parameter.is_meta for parameter in base.parameters()):
        raise AttachError(
            "This model's weights were moved off it, and come as it runs (Accelerate).",
            "Attach first, then dispatch or offload the model.",
        )
    attachment = Attachment(model, norms_beside(base, sites, config))
    try:
        attachment.add_adapters(config, adapted)
    except BaseException:  # there was no memory for them
        attachment.detach()
        raise
    return attachment.train(base.training)


def adapted_layers(config: AdapterConfig, count: int) -> tuple[int, ...]:
    """The layers that get adapters in an encoder of `count` layers."""
    layers = tuple(range(count)) if config.layers is None else config.layers
    if layers[-1] >= count:
        raise ConfigError(
            f"layers names layer {layers[-1]}, and this encoder has {count}: 0 to {count - 1}."
        )
    return layers


def norms_beside(base: nn.Module, sites: Sites, config: AdapterConfig) -> set[str]:
    """The LayerNorm parameters that train beside these adapters: none below the lowest of them."""
    if not config.train_layer_norms:
        return set()
    return norm_names(base, sites, config.layers[0] if config.layers else 0)


def norm_names(base: nn.Module, sites: Sites, lowest: int) -> set[str]:
    """The parameters of the LayerNorms from layer `lowest` up."""
    return {
        f"{path}.{name}"
        for path in sites.norm_paths(base, lowest).values()
        for name, _ in base.get_submodule(path).named_parameters(recurse=False)
    }


class Attachment(nn.Module):
    """What was put on a model: its adapters (as a child of the encoder) and what it trains.

    Lives in the encoder as one child, so `.to()`, optimisers, DDP and `deepcopy` see it.
    """

    def __init__(self, model: nn.Module, trained: Iterable[str]) -> None:
        """Freeze `model`, but for its head and the base parameters named in `trained`."""
        super().__init__()
        base = base_model(model)
        if hasattr(base, CONTAINER):
            raise AttachError(
                "This model already carries adapters.", "Call detach() on them first."
            )
        self.layer = nn.ModuleDict()
        self.config: AdapterConfig | None = None
        # In a tuple, so that torch does not take the parents for children of this module.
        self._hosts: tuple[nn.Module, PreTrainedModel] = (model, base)
        self._trained = frozenset(trained)
        self._handles: list[RemovableHandle] = []
        self._standing: list[_Standing] = []
        self._aside = False
        self._modes = {module: module.training for module in model.modules()}
        self._flags = {parameter: parameter.requires_grad for parameter in model.parameters()}
        self._originals: dict[str, Tensor] = {}

        prefix = next(name for name, module in model.named_modules() if module is base)
        of_base = {id(parameter) for parameter in base.parameters()}
        swapped = {f"{prefix}.{name}".lstrip(".") for name in self._trained} | {
            name for name, parameter in model.named_parameters() if id(parameter) not in of_base
        }
        unknown = swapped - {name for name, _ in model.named_parameters(remove_duplicate=False)}
        if unknown:
            raise AttachError(f"The model has no parameter {min(unknown)!r}.")
        model.requires_grad_(False)
        self._swap_in_clones(model, swapped | _head_buffers(model, base).keys())
        base.add_module(CONTAINER, self)

    def _swap_in_clones(self, model: nn.Module, names: set[str]) -> None:
        everywhere = _named_tensors(model)
        wanted = {id(everywhere[name]) for name in names}
        clones: dict[int, Tensor] = {}
        for name, original in everywhere.items():  # a tied parameter has several names
            if id(original) in wanted:
                clone = clones.setdefault(id(original), _clone(original))
                self._originals[name] = original
                _set_tensor(model, name, clone)

    def add_adapters(self, config: AdapterConfig, layers: Iterable[int]) -> None:
        """Stand adapters at their sites in these layers."""
        _, base = self._hosts
        sites = sites_of(base.config)
        modules = sites.layer_modules(base)
        for index in layers:
            here = nn.ModuleDict()
            like = _floating(modules[index])  # layers may be on several devices
            for name, site in (("attention", sites.attention), ("output", sites.output)):
                if config.where in ("both", name):
                    adapter = Adapter(
                        base.config.hidden_size,
                        config.size,
                        activation=config.activation,
                        init_std=config.init_std,
                        gate=config.gate,
                        norm=config.norm,
                        hidden_layers=config.hidden_layers,
                    )
                    # Drawn on the CPU and moved: a seed gives the same start on every device.
                    here[name] = adapter.to(like.device, like.dtype)
                    self._hook(modules[index], site, here[name], config.insertion == "parallel")
            self.layer[str(index)] = here
        self.config = config

    def _hook(self, layer: nn.Module, site: Site, adapter: nn.Module, parallel: bool) -> None:
        standing = _Standing(adapter)
        self._standing.append(standing)
        if parallel:
            source = layer.get_submodule(site.source)
            self._handles.append(
                source.register_forward_pre_hook(standing.remember, with_kwargs=True)
            )
        after = layer.get_submodule(site.after)
        self._handles.append(after.register_forward_hook(standing.adapt))

    @property
    def adapted(self) -> list[int]:
        """The layers that carry adapters."""
        return sorted(map(int, self.layer))

    @property
    def attached(self) -> bool:
        """Whether the model still carries this."""
        return getattr(self._hosts[1], CONTAINER, None) is self

    def named_groups(self) -> dict[str, dict[str, nn.Parameter]]:
        """What trains, by group and by neutral name (the same for every architecture).

        Groups: "adapters" (`layer.3.attention.down.weight`), "layer_norms"
        (`layer.3.output.norm.bias`), "base" (`base.<name in the encoder>`: what full and top-k
        training change beside the LayerNorms) and "head" (`head.<name in the model>`).
        """
        self._check_in_place()
        model, base = self._hosts
        sites = sites_of(base.config)
        parameters = dict(base.named_parameters())
        norms = {path: name for name, path in sites.norm_paths(base).items()}
        groups: dict[str, dict[str, nn.Parameter]] = {
            "adapters": dict(self.named_parameters()),
            "layer_norms": {},
            "base": {},
            "head": {},
        }
        for name in sorted(self._trained):
            path, _, leaf = name.rpartition(".")
            if path in norms:
                groups["layer_norms"][f"{norms[path]}.{leaf}"] = parameters[name]
            else:
                groups["base"][f"base.{name}"] = parameters[name]
        of_base = {id(parameter) for parameter in base.parameters()}
        groups["head"] = {
            f"head.{name}": parameter
            for name, parameter in model.named_parameters()
            if id(parameter) not in of_base
        }
        return {name: group for name, group in groups.items() if group}

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """What trains: "adapters", "layer_norms", and "head" and "base" where there is one."""
        return {name: list(group.values()) for name, group in self.named_groups().items()}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that was learnt, by neutral name: what trains, and the running statistics of
        adapters that normalise over batches and of the head."""
        groups = self.named_groups().values()
        learnt = {name: each.detach() for group in groups for name, each in group.items()}
        of_head = {f"head.{name}": each for name, each in _head_buffers(*self._hosts).items()}
        return learnt | dict(self.named_buffers()) | of_head

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Within this block the model computes what it did before: no adapters, its own LayerNorms
        and head. Nothing that was learnt is lost."""
        if self._aside:  # within such a block of a caller's
            yield
            return
        self._check_in_place()
        model, _ = self._hosts
        learnt = _named_tensors(model)
        try:
            self._stand(aside=True)
            self._put_in_place(self._originals)
            yield
        finally:
            self._stand(aside=False)
            self._put_in_place({name: learnt[name] for name in self._originals})

    def _stand(self, *, aside: bool) -> None:
        self._aside = aside
        for standing in self._standing:
            standing.aside = aside

    def _put_in_place(self, tensors: dict[str, Tensor]) -> None:
        """Give the model these for those that it has. It may have moved to another device since
        they were on it; they follow."""
        model, _ = self._hosts
        current = _named_tensors(model)
        for name, tensor in tensors.items():
            tensor.data = tensor.data.to(current[name].device, current[name].dtype)
            _set_tensor(model, name, tensor)

    def _check_in_place(self) -> None:
        """Refuse what needs the adapters on the model."""
        if not self.attached:
            raise AttachError("These adapters are not on the model any more.")
        if self._aside:
            raise AttachError(
                "These adapters are set aside: what the model has now is not what was learnt.",
                "Do it after the block of disabled().",
            )

    def detach(self) -> None:
        """Give the model back as it was: the same tensors, flags and modes, no hooks, no child."""
        self._check_in_place()
        _, base = self._hosts
        for handle in self._handles:
            handle.remove()
        delattr(base, CONTAINER)
        self._put_in_place(self._originals)
        for parameter, flag in self._flags.items():
            parameter.requires_grad_(flag)
            parameter.grad = None
        for module, mode in self._modes.items():
            module.training = mode


class _Standing:
    """An adapter at its site. Hooks are bound methods of this, so a deep copy has its own."""

    def __init__(self, adapter: nn.Module) -> None:
        self.adapter = adapter
        self.source: Tensor | None = None
        self.aside = False
        """Whether the base is to compute as if there were no adapter."""

    def remember(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before the sub-layer: keep its input for a parallel adapter."""
        del module
        self.source = args[0] if args else kwargs["hidden_states"]

    def adapt(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        """After the sub-layer, before the residual sum."""
        del args
        if getattr(module, "_is_replica", False):  # on a device where this adapter is not
            raise AttachError(
                "DataParallel copies a model without what was attached to it.",
                "Start a process for each GPU instead: torchrun, or accelerate launch.",
            )
        source, self.source = self.source, None
        if self.aside:
            return output
        adapted: Tensor = self.adapter(output, source)
        return adapted


def _floating(layer: nn.Module) -> nn.Parameter:
    """A parameter of the layer's precision: quantised weights are whole numbers."""
    return next(each for each in layer.parameters() if each.is_floating_point())


def _named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers under all their names."""
    return dict(
        chain(
            model.named_parameters(remove_duplicate=False),
            model.named_buffers(remove_duplicate=False),
        )
    )


def _head_buffers(model: nn.Module, base: nn.Module) -> dict[str, Tensor]:
    """The buffers outside the encoder that a state dictionary has."""
    of_base = {id(buffer) for buffer in base.buffers()}
    outside = {name: each for name, each in model.named_buffers() if id(each) not in of_base}
    kept = model.state_dict(keep_vars=True) if outside else {}
    return {name: each for name, each in outside.items() if name in kept}


def _clone(original: Tensor) -> Tensor:
    clone = original.detach().clone(memory_format=torch.preserve_format)
    return nn.Parameter(clone) if isinstance(original, nn.Parameter) else clone


def _set_tensor(model: nn.Module, name: str, tensor: Tensor) -> None:
    path, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(path), leaf, tensor)
