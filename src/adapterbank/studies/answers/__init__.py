"""What studies come to. Each kind of answer is a module that computes a plain record from the files
of the runs, says it in Markdown and draws it; the last two see the record alone. A study's `figure`
names one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapterbank.studies.answers import ablation, budget, curve, fp16, rates, table, tradeoff
from adapterbank.studies.study import Study

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


def _kind(
    module: Any,
    *,
    families: bool = False,
    reference: bool = False,
    every: bool = False,
    probe: str = "",
) -> Kind:
    draw = getattr(module, "draw", None)
    return Kind(module.compute, module.markdown, draw, families, reference, every, probe)


KINDS = {
    "table": _kind(table),
    "tradeoff": _kind(tradeoff, families=True, reference=True),
    "curve": _kind(curve, families=True, every=True),
    "rates": _kind(rates, families=True, every=True),
    "ablation": _kind(ablation, every=True),
    "budget": _kind(budget),
    "fp16": _kind(fp16, probe="fp16"),
}


def kind_of(study: Study) -> Kind:
    """The one that its `figure` names."""
    return KINDS[study.figure]
