"""How a task is to be learnt: method, recipe, time, precision; from plain settings by name."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, get_args

from adapterbank.errors import ConfigError
from adapterbank.model.config import AdapterConfig, check_flag, check_number, plain
from adapterbank.model.heads import Kind
from adapterbank.model.methods import Method, make_method
from adapterbank.store.manifest import MAX_NOTE_CHARACTERS, Precision
from adapterbank.store.package import Package
from adapterbank.tasks.cells import encodable
from adapterbank.tasks.task import Task
from adapterbank.training.recipe import Recipe, RecipeName, make_recipe

DEFAULT_SIZE = 32  # of adapters, where the paper's table 1 has 64: docs/training.md
SHORT = {"lr": "learning_rate"}
OWN = ("recipe", "minutes", "baselines", "precision", "earlier", "note")
OF_METHOD = ("method", "top_k", "first_layer")
OF_ADAPTER = tuple(each.name for each in fields(AdapterConfig))
OF_RECIPE = tuple(each.name for each in fields(Recipe))


@dataclass(frozen=True)
class Earlier:
    """A version to go on from."""

    reference: str
    package: Package
    metric: str = ""
    """What both are judged by, if it was asked for; else what the earlier version was."""


@dataclass(frozen=True)
class Order:
    """How a task is to be learnt."""

    method: Method = field(default_factory=Method)
    recipe: RecipeName = "default"
    settings: dict[str, Any] = field(default_factory=dict)
    """Single settings of the recipe that differ from it."""
    minutes: float | None = None
    """Fit the run to this time."""
    baselines: bool = True
    statistics: bool = True
    """Whether `route` is to find the task; a run that is only scored needs none."""
    precision: Precision = "fp32"
    """fp16 halves the package, if the answers on dev hold."""
    earlier: Earlier | None = None
    """Go on from this version, with its method and size."""
    note: str = ""
    """What its owner has to say of the task."""

    def __post_init__(self) -> None:
        if self.precision not in get_args(Precision):
            raise ConfigError(
                f"precision is {self.precision!r}; choose one of {', '.join(get_args(Precision))}.",
                "On the command line it is --store.",
            )
        if self.minutes is not None:
            check_number("minutes", self.minutes)
            if self.minutes == 0:
                raise ConfigError("minutes is 0; it is a time above that.")
        for name in ("baselines", "statistics"):
            check_flag(name, getattr(self, name))
        if not isinstance(self.note, str) or len(self.note) > MAX_NOTE_CHARACTERS:
            raise ConfigError(f"note is a text of at most {MAX_NOTE_CHARACTERS:,} characters.")
        if not encodable(self.note):
            raise ConfigError("note has half of a character in it (a lone surrogate).")

    def recipe_for(self, task: Task, units: int) -> Recipe:
        """The recipe with all its numbers, on a base of so many `units`."""
        return self.recipe_of(len(task.train), task.kind, units)

    def recipe_of(self, rows: int, kind: Kind, units: int) -> Recipe:
        """The recipe for so many rows of a kind of task."""
        name, size = self.method.name, self.method.adapter.size
        return make_recipe(self.recipe, name, rows, kind, size=size, units=units, **self.settings)


def make_order(depth: int, /, **settings: Any) -> Order:
    """An order for a base of `depth` layers, from any fields of the method, the adapters, the
    recipe and the order itself. None means not given."""
    given = {
        SHORT.get(name, name): plain(each) for name, each in settings.items() if each is not None
    }
    known = (*OF_METHOD, *OF_ADAPTER, *OF_RECIPE, *OWN)
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise ConfigError(
                f"There is no setting {name!r}.",
                f"Did you mean {close[0]}?" if close else f"There are: {', '.join(sorted(known))}.",
            )

    def some(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: given[name] for name in names if name in given}

    of_method = some(OF_METHOD)
    method = make_method(
        of_method.pop("method", "adapters"),
        depth,
        **{"size": DEFAULT_SIZE, **of_method, **some(OF_ADAPTER)},
    )
    own = some(OWN)
    if (earlier := own.get("earlier")) is not None:
        _check_fits(earlier, {**some(OF_METHOD), **some(OF_ADAPTER)}, method)
    return Order(method=method, settings=some(OF_RECIPE), **own)


def _check_fits(earlier: Earlier, given: dict[str, Any], method: Method) -> None:
    """Going on keeps the method; what is said of it must agree."""
    manifest = earlier.package.manifest
    before: dict[str, Any] = {"method": manifest.method.name, "top_k": manifest.method.top_k}
    before |= vars(manifest.adapter) if manifest.adapter else {}
    now: dict[str, Any] = {"method": method.name, "top_k": method.top_k} | vars(method.adapter)
    for name in given:
        key = "layers" if name == "first_layer" else name
        if key in before and before[key] != now[key]:
            raise ConfigError(
                f"{earlier.reference} has {key} {before[key]}, and {key} is to be {now[key]}.",
                "A task goes on with the method it was begun with: leave the setting out.",
            )
