"""The paper's findings as statements, tested on our own answers: true, false, or not known yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from adapterbank.studies.answers.ablation import changes
from adapterbank.studies.answers.common import lines

Answer = dict[str, Any]
Verdict = tuple[bool, str]
NEAR = 0.4  # points: the gap of the paper's own table 1
ROBUST = 1e-2
LEARNT = 3  # points above the majority class


@dataclass(frozen=True)
class Finding:
    """One statement, and what became of it."""

    statement: str
    study: str
    holds: bool | None
    """None while runs of the study are missing."""
    figures: str


def findings_of(folder: Path) -> list[Finding]:
    """Every statement that the studies of a folder can speak to."""
    found = []
    for statement, study, test in STATEMENTS:
        path = folder / study / "answer.json"
        if not (folder / study / "study.toml").is_file():
            continue
        answer = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        verdict = test(answer) if answer.get("runs_done") else None
        holds, figures = verdict or (None, "not run yet")
        if verdict and answer["runs_done"] < answer["runs_known"]:  # too early to judge
            holds, figures = None, f"so far: {figures}"
        found.append(Finding(statement, study, holds, figures))
    return found


def markdown(findings: list[Finding]) -> str:
    """One line a statement."""
    words = {True: "yes", False: "**no**", None: ""}
    return lines(
        ["the paper's finding", "here?", "figures", "study"],
        [[f.statement, words[f.holds], f.figures, f.study] for f in findings],
    )


def _arm(answer: Answer, name: str) -> Answer | None:
    return next((arm for arm in answer["arms"] if arm["name"] == name), None)


def _near(name: str) -> Callable[[Answer], Verdict | None]:
    def test(answer: Answer) -> Verdict | None:
        gap = (_arm(answer, name) or {}).get("gap")
        if not gap or gap["error"] is None:
            return None
        tasks = f"{gap['tasks']} task{'s' * (gap['tasks'] > 1)}"
        told = f"{gap['mean']:+.2f} ± {gap['error']:.2f} points on {tasks}"
        return gap["mean"] >= -(NEAR + gap["error"]), told

    return test


def _above_baselines(answer: Answer) -> Verdict | None:
    ours = _arm(answer, "adapters 32")
    others = [_arm(answer, name) for name in ("n-grams", "frozen features")]
    means = [each["mean"] for each in (ours, *others) if each and each["mean"] is not None]
    if len(means) < 3:
        return None
    mine, *theirs = means
    return mine > max(theirs), f"{mine:.1f} against {theirs[0]:.1f} and {theirs[1]:.1f}"


def _learnt(answer: Answer) -> dict[str, Any]:
    """The tasks that adapters learnt: of others there is nothing to remove."""
    return {
        task: found
        for task, found in answer["removed"].items()
        if 100 * (found["whole"] - (found["constant"] or 0)) >= LEARNT
    }


def _one_layer(answer: Answer) -> Verdict | None:
    worst = {t: min(v for (i, j), v in changes(found).items() if i == j)
             for t, found in _learnt(answer).items()}  # fmt: skip
    if not worst:
        return None
    told = ", ".join(f"{task} {value:+.1f} %" for task, value in worst.items())
    # The paper has 24 adapters of which two go; here they are twelve.
    return all(value >= -4 for value in worst.values()), f"at worst {told}"


def _all_layers(answer: Answer) -> Verdict | None:
    gaps = {}
    for task, found in _learnt(answer).items():
        layers = found["layers"]
        bare = next(s for i, j, s in found["without"] if (i, j) == (layers[0], layers[-1]))
        gaps[task] = (100 * bare, 100 * (found["constant"] or 0))
    if not gaps:
        return None
    told = ", ".join(
        f"{task} {bare:.1f} (majority {most:.1f})" for task, (bare, most) in gaps.items()
    )
    return all(bare - most <= 5 for bare, most in gaps.values()), told


def _upper_layers(answer: Answer) -> Verdict | None:
    told, held = [], []
    for task, found in _learnt(answer).items():
        change, layers = changes(found), found["layers"]
        half = len(layers) // 2
        low, high = change[layers[0], layers[half - 1]], change[layers[half], layers[-1]]
        told.append(f"{task}: lower half {low:+.1f} %, upper half {high:+.1f} %")
        held.append(high < low)
    return (all(held), "; ".join(told)) if held else None


def _starts(answer: Answer) -> Verdict | None:
    told, held = [], []
    for task, points in answer["starts"].items():
        if not points:
            continue
        small = [p["mean"] for p in points if p["std"] <= ROBUST]
        large = [p["mean"] for p in points if p["std"] > ROBUST]
        if not small or not large:
            return None
        errors = fmean(p["error"] or 0 for p in points if p["std"] <= ROBUST)
        told.append(
            f"{task}: {min(small):.1f} to {max(small):.1f} up to 0.01, {min(large):.1f} above"
        )
        held.append(max(small) - min(small) <= 2 + 3 * errors and min(large) < min(small))
    return (all(held), "; ".join(told)) if held else None


def _layer_norms(answer: Answer) -> Verdict | None:
    """On figure 4, whose points are settings by task."""
    means = {
        task: {point["name"]: point["mean"] for point in points}
        for task, points in answer["points"].items()
    }
    return _below(means, "adapters 32")


def _layer_norms_of_table(answer: Answer) -> Verdict | None:
    """On a table, whose cells are tasks by arm."""
    means: dict[str, dict[str, float]] = {}
    for arm in answer["arms"]:
        for task, cell in arm["cells"].items():
            means.setdefault(task, {})[arm["name"]] = cell["mean"]
    return _below(means, "adapters 64")


def _below(means: dict[str, dict[str, float]], adapters: str) -> Verdict | None:
    """Whether LayerNorms alone are two points and more below adapters on every task."""
    pairs = {
        task: (found["LayerNorms only"], found[adapters])
        for task, found in means.items()
        if {"LayerNorms only", adapters} <= found.keys()
    }
    if not pairs:
        return None
    told = (f"{task}: {norms:.1f} against {own:.1f}" for task, (norms, own) in pairs.items())
    return all(own - norms >= 2 for norms, own in pairs.values()), "; ".join(told)


def _rates(answer: Answer) -> Verdict | None:
    lost = {
        arm["family"]: fmean(point["lost"] for point in arm["points"])
        for arm in answer["arms"]
        if arm["points"]
    }
    if len(lost) < 2:
        return None
    told = ", ".join(f"{family} {value:.1f}" for family, value in lost.items())
    held = lost["adapters"] <= lost["full fine-tuning"]
    return held, f"points below the best rate, on average over the rates: {told}"


def _top_layers(answer: Answer) -> Verdict | None:
    """Small adapters against the top layers that are clearly fewer than all of them."""
    medians = {
        point["name"]: (point["percentiles"][1], point["parameters"])
        for points in answer["groups"].values()
        for point in points
    }
    if not {"adapters 8", "top 1", "top 2"} <= medians.keys():
        return None
    (ours, few), *others = (medians[name] for name in ("adapters 8", "top 1", "top 2"))
    told = " and ".join(f"{gap:+.1f} with {trained / few:.0f} times" for gap, trained in others)
    held = all(ours > gap for gap, _ in others)
    return held, f"median {ours:+.1f} points with {few:,.0f} parameters; {told} as many"


def _variants(answer: Answer) -> Verdict | None:
    gaps = {arm["name"]: arm["gap"] for arm in answer["arms"] if arm["gap"]}
    if not gaps or any(gap["error"] is None for gap in gaps.values()):
        return None
    best = max(gaps, key=lambda name: gaps[name]["mean"])
    gap = gaps[best]
    # The best of several is above its true mean: two standard errors, not one.
    held = gap["mean"] <= 2 * gap["error"]
    return held, f"the best, {best}: {gap['mean']:+.2f} ± {gap['error']:.2f} points"


STATEMENTS: tuple[tuple[str, str, Callable[[Answer], Verdict | None]], ...] = (
    ("Adapters of size 32 are within 0.4 points + 1 s.e.m. of full fine-tuning on average",
     "quality", _near("adapters 32")),
    ("… and above n-grams and frozen features", "quality", _above_baselines),
    ("The same on GLUE", "table1-glue", _near("adapters 32")),
    ("The same on the further tasks", "table2-further-tasks", _near("adapters")),
    ("The same on a second encoder, with size 64", "second-encoder", _near("adapters 64")),
    ("Adapters of size 8 lose less than the top one or two layers, which train far more",
     "figure1-tradeoff", _top_layers),
    ("Removing one layer's adapters costs little", "figure6-ablation", _one_layer),
    ("Removing all of them falls to the majority class", "figure6-ablation", _all_layers),
    ("Upper layers matter more than lower ones", "figure6-ablation", _upper_layers),
    ("The start does not matter up to a std of 0.01, and does above",
     "figure6-initialisation", _starts),
    ("LayerNorms alone stay well below adapters of size 32", "figure4-sizes", _layer_norms),
    ("… of size 64, on the paper's two tasks with 4,000 rows", "figure4-with-more-rows",
     _layer_norms_of_table),
    ("Adapters depend less on the learning rate than full fine-tuning",
     "figure7-learning-rates", _rates),
    ("No variant of the architecture is better than the paper's", "variants", _variants),
)  # fmt: skip
