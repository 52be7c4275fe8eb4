"""What studies come to. Each kind of answer is a module that computes a plain record from the files
of the runs, says it in Markdown and draws it; the last two see the record alone. A study's `figure`
names one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from adapterbank.studies.answers import ablation, budget, curve, fp16, rates, table, tradeoff
from adapterbank.studies.study import RATE, Arm, Study

Answer = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of answer."""

    compute: Callable[[Study], Answer]
    markdown: Callable[[Answer], str]
    draw: Callable[[Answer, Path], None] | None
    """None where there is nothing to look at."""
    families: bool
    """Whether arms are drawn by what their methods train: baselines train nothing."""
    reference: bool
    """Whether it is of gaps to one arm."""
    every: bool
    """Whether it shows every setting of an arm that chooses none."""
    probe: str
    """What has to be measured on the packages of its first arm."""
    shows: Callable[[Arm], str]
    """The panel that an arm is shown in; none if there is nothing to show of it …"""
    most: float
    """… each of so many arms at most …"""
    of: str
    """… in words."""


def _kind(
    module: Any,
    *,
    families: bool = False,
    reference: bool = False,
    every: bool = False,
    probe: str = "",
    shows: Callable[[Arm], str] = lambda _: "all",
    most: float = inf,
    of: str = "arms",
) -> Kind:
    return Kind(
        module.compute, module.markdown, getattr(module, "draw", None),
        families, reference, every, probe, shows, most, of,
    )  # fmt: skip


def _varies_rate(arm: Arm) -> str:
    return "rates" if RATE in arm.grid else ""


KINDS = {
    "table": _kind(table),
    "tradeoff": _kind(tradeoff, families=True, reference=True),
    "curve": _kind(curve, families=True, every=True),
    "rates": _kind(
        rates,
        families=True,
        every=True,
        shows=_varies_rate,
        of="arms with a list of learning rates",
    ),
    "ablation": _kind(
        ablation,
        every=True,
        shows=ablation.shows,
        most=1,
        of="an arm with the probe ablation, or one with a list of init_std alone",
    ),
    "budget": _kind(budget),
    "fp16": _kind(fp16, probe="fp16", most=1, of="one arm"),
}


def kind_of(study: Study) -> Kind:
    """The one that its `figure` names."""
    return KINDS[study.figure]
