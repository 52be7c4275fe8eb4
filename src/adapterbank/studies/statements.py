"""What the paper found, each statement with a test of a study's answer.

A limit is fixed. Where a statement is about a mean, one whose standard error reaches over the limit
decides nothing; the others compare means, medians or counts as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from statistics import fmean
from typing import Any

from adapterbank.studies.answers.ablation import changes
from adapterbank.training.sweep import standard_error

Answer = dict[str, Any]
Verdict = tuple[bool | None, str]  # None: the errors are too large to tell; and the figures
Test = Callable[[Answer], Verdict | None]  # None: the answer does not speak to it yet

NEAR = 0.4  # points: the gap of the paper's own table 1
ROBUST = 1e-2  # the largest start that does no harm …
STEADY = 3.0  # … where scores are within so many points of each other
LITTLE = 2  # per cent, in the paper, for one layer of its twelve
BELOW = 2.0  # points: half of what LayerNorms alone lose in the paper
PAPERS_RATE = 1e-3  # figure 7 of the paper ends here
THOUSAND = 1.5  # points: the standard error of a score on a thousand questions
LEARNT = 3  # points above the majority class


def _arm(answer: Answer, name: str) -> Answer | None:
    return next((arm for arm in answer["arms"] if arm["name"] == name), None)


def _near(name: str) -> Test:
    def test(answer: Answer) -> Verdict | None:
        gap = (_arm(answer, name) or {}).get("gap")
        if not gap or gap["error"] is None:
            return None
        tasks = f"{gap['tasks']} task{'s' * (gap['tasks'] > 1)}"
        mean, error = gap["mean"], gap["error"]
        return _at_least(mean, error, -NEAR), f"{mean:+.2f} ± {error:.2f} points on {tasks}"

    return test


def _at_least(mean: float, error: float, limit: float) -> bool | None:
    """Whether a mean is on the good side of a limit with all of its standard error, or on the bad
    side with all of it."""
    if mean - error >= limit:
        return True
    return False if mean + error < limit else None


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
    # A layer of six has twice the share of all adapters.
    held = [v >= -LITTLE * 12 / len(answer["removed"][task]["layers"]) for task, v in worst.items()]
    return all(held), "at worst " + ", ".join(f"{t} {v:+.1f} %" for t, v in worst.items())


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
        more, error = low - high, found["halves_error"]
        told.append(
            f"{task}: lower half {low:+.1f} %, upper half {high:+.1f} %, {more:.1f}"
            + ("" if error is None else f" ± {error:.1f}")
            + " apart"
        )
        held.append(None if error is None else _at_least(more, error, 0.0))
    if not held:
        return None
    return (held[0] if len(set(held)) == 1 else None), "; ".join(told)


def _starts(answer: Answer) -> Verdict | None:
    told, held = [], []
    for task, points in answer["starts"].items():
        if not points:
            continue
        small = [p["mean"] for p in points if p["std"] <= ROBUST]
        large = [p["mean"] for p in points if p["std"] > ROBUST]
        if not small or not large:
            return None
        told.append(
            f"{task}: {min(small):.1f} to {max(small):.1f} up to 0.01, {min(large):.1f} above"
        )
        held.append(max(small) - min(small) <= STEADY and min(large) < min(small) - STEADY)
    return (all(held), "; ".join(told)) if held else None


def _layer_norms(adapters: str) -> Test:
    """On figures 4 and 5, whose points are settings by task."""
    return lambda answer: _below(_points(answer), adapters)


def _points(answer: Answer) -> dict[str, dict[str, float]]:
    return {
        task: {point["name"]: point["mean"] for point in points}
        for task, points in answer["points"].items()
    }


def _on_squad(adapters: str) -> Test:
    """One seed has no error of its own; a thousand questions have."""

    def test(answer: Answer) -> Verdict | None:
        found = _points(answer)["squad"]
        if not {adapters, "full fine-tuning"} <= found.keys():
            return None
        mine, full = found[adapters], found["full fine-tuning"]
        return _at_least(mine - full, THOUSAND, -NEAR), f"F1 {mine:.1f} against {full:.1f}"

    return test


def _layer_norms_of_table(answer: Answer) -> Verdict | None:
    """On a table, whose cells are tasks by arm."""
    means: dict[str, dict[str, float]] = {}
    for arm in answer["arms"]:
        for task, cell in arm["cells"].items():
            means.setdefault(task, {})[arm["name"]] = cell["mean"]
    return _below(means, "adapters 64")


def _below(means: dict[str, dict[str, float]], adapters: str) -> Verdict | None:
    """Whether LayerNorms alone are clearly below adapters on every task."""
    pairs = {
        task: (found["LayerNorms only"], found[adapters])
        for task, found in means.items()
        if {"LayerNorms only", adapters} <= found.keys()
    }
    if not pairs:
        return None
    told = (f"{task}: {norms:.1f} against {own:.1f}" for task, (norms, own) in pairs.items())
    return all(own - norms >= BELOW for norms, own in pairs.values()), "; ".join(told)


def _rates(up_to: float) -> Test:
    """On the rates up to one: what each method loses by them, on average. Below a limit only rates
    from where all methods have some: one that was not run at low rates has lost nothing there."""

    def test(answer: Answer) -> Verdict | None:
        lost = {}
        lowest = [min(p["rate"] for p in arm["points"]) for arm in answer["arms"] if arm["points"]]
        first = 0.0 if up_to == inf else max(lowest, default=0.0)
        for arm in answer["arms"]:
            some = [point["lost"] for point in arm["points"] if first <= point["rate"] <= up_to]
            if some:
                lost[arm["family"]] = fmean(some)
        if not {"adapters", "full fine-tuning"} <= lost.keys():
            return None
        told = ", ".join(f"{family} {value:.1f}" for family, value in lost.items())
        held = lost["adapters"] <= lost["full fine-tuning"]
        return held, f"points below the best rate, on average over the rates: {told}"

    return test


def _top_layers(answer: Answer) -> Verdict | None:
    """Adapters of the usual size against the top layers that are clearly fewer than all of them:
    in the median, and on more tasks than not."""
    found = {p["name"]: p for points in answer["groups"].values() for p in points}
    if not {"adapters 32", "top 1", "top 2"} <= found.keys():
        return None
    ours = found["adapters 32"]
    told, held = [], []
    for name in ("top 1", "top 2"):
        other = found[name]
        leads = [ours["gaps"][t] - gap for t, gap in other["gaps"].items() if t in ours["gaps"]]
        ahead, behind = sum(lead > 0 for lead in leads), sum(lead < 0 for lead in leads)
        higher = ours["percentiles"][1] > other["percentiles"][1]
        held.append((higher, ahead > behind))
        times = other["parameters"] / ours["parameters"]
        told.append(
            f"{name} {other['percentiles'][1]:+.1f} with {times:.0f} times as many, "
            f"adapters ahead on {ahead} tasks and behind on {behind}"
        )
    figures = (
        f"median {ours['percentiles'][1]:+.1f} points with {ours['parameters']:,.0f} parameters; "
        + "; ".join(told)
    )
    if all(all(pair) for pair in held):
        return True, figures
    return (None if any(any(pair) for pair in held) else False), figures


def _sizes(answer: Answer) -> Verdict | None:
    """Whether sizes from 8 on are within a point of each other on average: in the paper 86.2, 85.8
    and 85.7 with 8, 64 and 256."""
    gaps = {
        p["name"].split()[-1]: p["gaps"]
        for points in answer["groups"].values()
        for p in points
        if p["family"] == "adapters" and p["name"] != "adapters 2"
    }
    if len(gaps) < 3:
        return None
    means = {size: fmean(found.values()) for size, found in gaps.items()}
    best, worst = gaps[max(means, key=means.__getitem__)], gaps[min(means, key=means.__getitem__)]
    apart = [best[task] - worst[task] for task in best if task in worst]
    told = ", ".join(f"size {size} {mean:+.1f}" for size, mean in means.items())
    error = standard_error(apart)
    if error is None:
        return None, f"mean points: {told}"
    told += f"; best and worst {fmean(apart):.1f} ± {error:.1f} apart"
    return _at_least(-fmean(apart), error, -1.0), f"mean points: {told}"


def _variants(answer: Answer) -> Verdict | None:
    gaps = {arm["name"]: arm["gap"] for arm in answer["arms"] if arm["gap"]}
    if not gaps or any(gap["error"] is None for gap in gaps.values()):
        return None
    best = max(gaps, key=lambda name: gaps[name]["mean"])
    mean, error = gaps[best]["mean"], gaps[best]["error"]
    told = f"the best of {len(gaps)}, {best}: {mean:+.2f} ± {error:.2f} points"
    # The best of several is above its true mean: two standard errors say no, not one.
    return (True if mean + error <= NEAR else False if mean - 2 * error > NEAR else None), told


def _stream(answer: Answer) -> Verdict | None:
    tasks = answer["tasks"]
    kept = answer["packages_identical"] and answer["predictions_identical"]
    same = "the same" if kept else "not the same"
    told = f"{len(tasks)} tasks, packages and answers {same} at the end"
    if answer["contrast"]:
        lost = fmean(task["shared_encoder"]["difference"] for task in tasks)
        told += f"; one encoder fine-tuned task after task: {100 * lost:+.0f} points"
    return kept, told


STATEMENTS: tuple[tuple[str, str, Test], ...] = (
    ("Adapters of size 32 lose at most 0.4 points against full fine-tuning on average",
     "quality", _near("adapters 32")),
    ("… and are above n-grams and frozen features", "quality", _above_baselines),
    ("At most 0.4 points on GLUE, of size 32", "table1-glue", _near("adapters 32")),
    ("… of size 64", "table1-glue", _near("adapters 64")),
    ("… of the size that is best on dev", "table1-glue", _near("adapters, best size")),
    ("At most 0.4 points on the further tasks, of the size that is best on dev",
     "table2-further-tasks", _near("adapters")),
    ("… of size 32", "table2-further-tasks", _near("adapters 32")),
    ("At most 0.4 points on a second encoder, of size 64", "second-encoder", _near("adapters 64")),
    ("Adapters of size 32 lose less than the top one or two layers, which train far more",
     "figure1-tradeoff", _top_layers),
    ("The size hardly matters: means from 8 to 128 are within a point", "figure1-tradeoff", _sizes),
    ("Removing one layer's adapters costs little: 4 % at most", "figure6-ablation", _one_layer),
    ("Removing all of them falls to the majority class", "figure6-ablation", _all_layers),
    ("Upper layers matter more than lower ones", "figure6-ablation", _upper_layers),
    ("One layer costs 2 % at most, on an encoder of twelve", "figure6-twelve-layers", _one_layer),
    ("… and all of them fall to the majority class", "figure6-twelve-layers", _all_layers),
    ("… and upper layers matter more than lower ones", "figure6-twelve-layers", _upper_layers),
    ("The start does not matter up to a std of 0.01, and does above",
     "figure6-initialisation", _starts),
    ("LayerNorms alone stay well below adapters of size 32: two points at least",
     "figure4-sizes", _layer_norms("adapters 32")),
    ("… of size 64, on the paper's two tasks with 4,000 rows", "figure4-with-more-rows",
     _layer_norms_of_table),
    ("… of size 64, on SQuAD", "figure5-squad", _layer_norms("adapters 64")),
    ("Adapters of size 64 lose at most 0.4 points on 1,000 questions of SQuAD", "figure5-squad",
     _on_squad("adapters 64")),
    ("… and of size 2", "figure5-squad", _on_squad("adapters 2")),
    ("Between learning rates of 2.5e-4 and 1e-3 adapters lose less than full fine-tuning",
     "figure7-learning-rates", _rates(PAPERS_RATE)),
    ("… and from an eighth to eight times each method's default", "figure7-learning-rates",
     _rates(inf)),
    ("No variant of the architecture gains anything: 0.4 points at most", "variants", _variants),
    ("No task is forgotten", "stream", _stream),
)  # fmt: skip
