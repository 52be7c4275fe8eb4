"""The file that asks a study's question, read and checked before anything runs.

title = "Adapters against full fine-tuning"
tasks = ["mrpc", "cola", {name = "mine", train = "mine.csv"}]
seeds = 3
train_rows = 2500

[[arm]]
name = "adapters 32"
size = 32
learning_rate = [1e-3, 2e-3, 4e-3]
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapterbank.errors import ConfigError
from adapterbank.order import OF_ADAPTER, OF_METHOD, OF_RECIPE, SHORT
from adapterbank.studies.answers import KINDS
from adapterbank.studies.answers.common import FAMILIES
from adapterbank.studies.answers.curve import names_of
from adapterbank.studies.probes import PROBES
from adapterbank.studies.runs import Rows
from adapterbank.studies.study import BASELINES, SINGLE, WIDEN, Arm, Study

if TYPE_CHECKING:
    from adapterbank.streams.arrivals import Arrival

FILE = "study.toml"
WORDS: dict[type, str] = {
    str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table",
}  # fmt: skip
ENTRIES: dict[str, type] = {
    "title": str, "figure": str, "base": str, "tasks": list, "seeds": int, "train_rows": int,
    "dev_rows": int, "test_rows": int, "products": str, "choose": bool, "widen": int,
    "reference": str, "arm": list, "group": dict, "paper": dict, "place": int,
}  # fmt: skip
OF_ARM = ("name", "choose", "probe", "tries", "recipe", *SHORT, *OF_METHOD, *OF_ADAPTER,
          *(name for name in OF_RECIPE if name != "seed"))  # fmt: skip
PRODUCTS = ("fp32", "bf16")  # not auto: a run is the same on every machine


def read_study(folder: Path) -> Study:
    """The study of a folder."""
    path = folder / FILE
    found = _parse(path)
    sources = dict(_sources(path, found["tasks"]))
    for name, members in found.get("group", {}).items():
        if unknown := [str(task) for task in members if task not in sources]:
            raise ConfigError(
                f"{path}: the group {name} has {_told(unknown)}, which the study has not.",
                f"Its tasks: {', '.join(sources)}.",
            )
    choose = found.get("choose", True)
    arms = tuple(_arm(path, {"choose": choose, **arm}) for arm in found["arm"])
    _check_once(path, "arms", (arm.name for arm in arms))
    caps = [found.get(f"{split}_rows", 0) for split in ("train", "dev", "test")]
    study = Study(
        folder=folder,
        title=found["title"],
        figure=found.get("figure", "table"),
        base=found.get("base", "minilm"),
        rows=tuple(Rows(task, *caps) for task in sources),
        sources=sources,
        arms=arms,
        seeds=found.get("seeds", 1),
        products=found.get("products", SINGLE),
        widen=found.get("widen", WIDEN),
        reference=found.get("reference", ""),
        groups=found.get("group", {}),
        paper=found.get("paper", {}),
        place=found.get("place", 100),
    )
    _check_picture(path, study)
    return study


def _parse(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"There is no study in {path.parent}: {path.name} cannot be read ({error.strerror}).",
            "Name a folder with a study.toml, such as reproduction/quality.",
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}.") from error
    for name, value in found.items():
        if name not in ENTRIES:
            known = ", ".join(ENTRIES)
            raise ConfigError(f"{path}: unknown entry {name!r}.", f"Entries: {known}.")
        wanted = ENTRIES[name]
        if type(value) is not wanted:
            raise ConfigError(f"{path}: {name} is {value!r}; it is {WORDS[wanted]}.")
        least = 1 if name == "seeds" else 0
        if isinstance(value, int) and value < least:
            raise ConfigError(f"{path}: {name} is {value}; it is a number from {least}.")
    for name in ("title", "tasks", "arm"):
        if not found.get(name):
            raise ConfigError(f"{path} has no {name}.")
    if not all(isinstance(arm, dict) for arm in found["arm"]):
        raise ConfigError(f"{path}: an arm is no table.", "Begin each with a line [[arm]].")
    if not all(each and isinstance(each, list) for each in found.get("group", {}).values()):
        raise ConfigError(
            f"{path}: a group is no list of tasks.", 'Give some: [group] X = ["mrpc"].'
        )
    if not all(isinstance(each, dict) for each in found.get("paper", {}).values()):
        raise ConfigError(
            f"{path}: figures of others are no table.", 'Name their method: [paper."adapters"].'
        )
    _check_products(path, [found.get("products", SINGLE)])
    return found


def _check_products(path: Path, given: list[Any]) -> None:
    for products in given:
        if products not in PRODUCTS:
            raise ConfigError(
                f"{path}: products is {products!r}; it is {_told(PRODUCTS)}.",
                "A study multiplies the same on every machine.",
            )


def _sources(path: Path, tasks: list[Any]) -> Iterator[tuple[str, Arrival]]:
    from adapterbank.streams.arrivals import Arrival, read_arrival

    found = []
    for number, task in enumerate(tasks, 1):
        if isinstance(task, str):  # of the catalogue; its rows are looked for when they are needed
            found.append(Arrival(task, task))
        else:
            arrival = read_arrival(task, f"{path}, task {number}", path.parent)
            # The seed is of how its rows are shared out; the runs' seeds are the study's.
            if learning := [name for name in arrival.learning if name != "seed"]:
                raise ConfigError(
                    f"{path}, task {number} ({arrival.name}): {_told(learning)} is no setting of "
                    "a task.",
                    "In a study it belongs to an [[arm]].",
                )
            found.append(arrival)
    _check_once(path, "tasks", (arrival.name for arrival in found))
    yield from ((arrival.name, arrival) for arrival in found)


def _arm(path: Path, found: dict[str, Any]) -> Arm:
    if not isinstance(found.get("name"), str):
        raise ConfigError(f"{path}: an arm has no name.")
    for name in found:
        if name not in OF_ARM:
            raise ConfigError(
                f"{path}: {found['name']} has {name!r}, which no run of a study goes by.",
                f"There are: {', '.join(sorted(OF_ARM))}.",
            )
    found = {SHORT.get(name, name): value for name, value in found.items()}
    grid = {name: values for name, values in found.items() if isinstance(values, list)}
    for name, values in grid.items():
        if not values:
            raise ConfigError(f"{path}: {name} of {found['name']} is an empty list.")
    fixed = {k: v for k, v in found.items() if k not in grid and k not in ("name", "choose")}
    if not isinstance(found["choose"], bool):
        raise ConfigError(
            f"{path}: choose of {found['name']} is {found['choose']!r}; it is true or false."
        )
    _check_products(path, grid.get("products", [fixed.get("products", SINGLE)]))
    arm = Arm(found["name"], fixed, grid, found["choose"])
    _check_probe(path, arm)
    return arm


def _check_probe(path: Path, arm: Arm) -> None:
    """What cannot be measured is said before hours of training, not after."""
    probe = arm.grid.get("probe", arm.fixed.get("probe", ""))
    if probe not in ("", *PROBES):
        raise ConfigError(
            f"{path}: {arm.name} asks for the probe {probe!r}.",
            f"There are: {', '.join(PROBES)}. An arm has one of them.",
        )
    wanted = {"": arm.methods, "ablation": ["adapters"]}.get(
        probe, [method for method in arm.methods if method not in BASELINES]
    )
    if other := [method for method in arm.methods if method not in wanted]:
        raise ConfigError(f"{path}: {arm.name} trains by {_told(other)}: nothing for {probe!r}.")


def _check_once(path: Path, what: str, names: Iterable[str]) -> None:
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ConfigError(f"{path}: two {what} are called {_told(twice)}.", "Name each once.")


def _check_picture(path: Path, study: Study) -> None:
    """What the figure needs is there: after hours of runs it would be late to say so."""
    if study.figure not in KINDS:
        raise ConfigError(
            f"{path} asks for the figure {study.figure!r}.", f"There are: {', '.join(KINDS)}."
        )
    needs = KINDS[study.figure]
    if study.reference and study.reference not in (arm.name for arm in study.arms):
        raise ConfigError(f"{path}: the reference {study.reference!r} is not one of the arms.")
    if needs.reference and not study.reference:
        raise ConfigError(
            f"{path}: the figure {study.figure!r} is of gaps to one arm.",
            'Name it: reference = "full fine-tuning".',
        )
    if needs.probe and study.arms[0].fixed.get("probe") != needs.probe:
        raise ConfigError(
            f"{path}: the figure {study.figure!r} is of what the probe of that name measures, and "
            f"{study.arms[0].name} has none.",
            f'Give the arm probe = "{needs.probe}".',
        )
    shown = Counter(panel for arm in study.arms if (panel := needs.shows(arm)))
    if not shown or max(shown.values()) > needs.most:
        raise ConfigError(
            f"{path}: the figure {study.figure!r} shows {needs.of}, and there are {shown.total()}.",
            "Leave figure out for a table, or ask in several studies.",
        )
    if study.figure == "curve":
        _check_once(path, "points", (name for arm in study.arms for name in names_of(arm)))
    for arm in study.arms:
        if not (needs.every or arm.choose or len(arm.candidates()) == 1):
            raise ConfigError(
                f"{path}: {arm.name} has several settings and chooses none, and the figure "
                f"{study.figure!r} shows one of each arm.",
                "Leave choose = false out, or draw a curve or rates.",
            )
        if needs.families and set(arm.methods) & set(BASELINES):
            raise ConfigError(
                f"{path}: {arm.name} trains no parameters, and the figure {study.figure!r} is "
                "drawn by what methods train.",
                f"Methods: {', '.join(FAMILIES)}; or leave figure out for a table.",
            )


def _told(names: Iterable[str]) -> str:
    return " or ".join(names)
