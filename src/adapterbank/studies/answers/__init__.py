"""What studies come to. Each kind of answer is a module that computes a plain record from the files
of the runs, says it in Markdown and draws it; the last two see the record alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapterbank.errors import ConfigError
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


def _kind(module: Any) -> Kind:
    return Kind(module.compute, module.markdown, getattr(module, "draw", None))


KINDS = {
    "table": _kind(table),
    "tradeoff": _kind(tradeoff),
    "curve": _kind(curve),
    "rates": _kind(rates),
    "ablation": _kind(ablation),
    "budget": _kind(budget),
    "fp16": _kind(fp16),
}


def kind_of(study: Study) -> Kind:
    """The one that its `figure` names."""
    try:
        return KINDS[study.figure]
    except KeyError:
        raise ConfigError(
            f"{study.folder.name} asks for the figure {study.figure!r}.",
            f"There are: {', '.join(KINDS)}.",
        ) from None
