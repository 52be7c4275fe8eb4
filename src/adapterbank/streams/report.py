"""The record of a stream as one plain document, and as tables for people.

Everything is computed from what is on disk, so a report can be made at any moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from adapterbank.store.manifest import BaseRecord
from adapterbank.streams.state import Document, State
from adapterbank.tasks.metrics import LOWER_IS_BETTER


@dataclass(frozen=True)
class Problem:
    """Something that is not as it was when a task was first checked."""

    task: str
    what: str
    """packages or predictions."""
    after: str
    """The task that had been learnt when it showed."""
    message: str

    def __str__(self) -> str:
        return f"{self.task}, after {self.after}: {self.message}"


def problems(learnt: Sequence[Document], checks: Sequence[Document]) -> list[Problem]:
    """What differs from the first check of each task; each thing once, where it showed first.

    Logits are compared with the first that were computed by the same software on the same
    processor; where that has changed, bits may differ without a fault.
    """
    titles = {record["number"]: title(record) for record in learnt}
    first: dict[Any, str] = {}
    found: dict[tuple[int, str], Problem] = {}

    def report(arrival: int, what: str, after: int, message: str) -> None:
        problem = Problem(titles[arrival], what, titles[after], message)
        found.setdefault((arrival, what), problem)

    for check in checks:
        made_with = tuple(sorted(check["software"].items()))
        for task in check["tasks"]:
            arrival, after = task["arrival"], check["after"]
            if task["problem"]:
                report(arrival, "packages", after, task["problem"])
                report(arrival, "predictions", after, "It could not be asked.")
                continue
            if first.setdefault((arrival, "packages"), task["package"]) != task["package"]:
                report(arrival, "packages", after, "Its package has other bytes than before.")
            if first.setdefault((arrival, made_with), task["logits"]) != task["logits"]:
                report(arrival, "predictions", after, "Its answers have other bits than before.")
    return list(found.values())


def make_report(
    state: State, *, source: str, bank: str, base: BaseRecord, parameters: int
) -> Document:
    """The whole record."""
    learnt, checks, contrasts = state.learnt(), state.checks(), state.contrasts()
    wrong = problems(learnt, checks)
    places = {record["number"]: place for place, record in enumerate(learnt, 1)}
    bank_scores = _scores(checks, "tasks", places)
    shared_scores = _scores(contrasts, "scores", places)
    return {
        "source": source,
        "bank": bank,
        "base": asdict(base),
        "tasks": [
            {
                "place": places[record["number"]],
                "task": record["name"],
                "version": record["version"],
                "kind": record["kind"],
                "metric": record["metric"],
                "higher_is_better": record["metric"] not in LOWER_IS_BETTER,
                "trained_parameters": record["trained_parameters"],
                "seconds": record["seconds"],
                "bank": _course(bank_scores.get(record["number"], {})),
                "shared_encoder": (
                    _course(shared_scores.get(record["number"], {})) if contrasts else None
                ),
            }
            for record in learnt
        ],
        "checked": bool(checks) and checks[-1]["after"] == learnt[-1]["number"],
        "packages_identical": not [each for each in wrong if each.what == "packages"],
        "predictions_identical": not [each for each in wrong if each.what == "predictions"],
        "problems": [asdict(problem) for problem in wrong],
        "set_aside": [
            {"task": each["name"], "from": each["key"], "reason": each["problem"]}
            for each in {each["key"]: each for each in state.arrivals()}.values()
            if "problem" in each  # its last try
        ],
        "parameters": _account(learnt, parameters),
        "arrivals": state.arrivals(),
        "checks": checks,
        "contrast": contrasts,
    }


def title(record: Document) -> str:
    """An arrival's name and version."""
    return f"{record['name']}@{record['version']}"


def _scores(
    documents: Sequence[Document], key: str, places: dict[int, int]
) -> dict[int, dict[int, list[float]]]:
    """Scores by arrival, then by the place of the arrival that they come after."""
    found: dict[int, dict[int, list[float]]] = {}
    for document in documents:
        for each in document[key]:
            if each["score"] is not None:
                by_place = found.setdefault(each["arrival"], {})
                by_place.setdefault(places[document["after"]], []).append(each["score"])
    return found


def _course(scores: dict[int, list[float]]) -> Document:
    """How a task's score went, from the first after it was learnt to the last."""
    every = [score for place in sorted(scores) for score in scores[place]]
    first, last = (every[0], every[-1]) if every else (None, None)
    return {
        "after_learning": first,
        "at_the_end": last,
        "difference": None if first is None or last is None else last - first,
        "scores": [[place, scores[place][-1]] for place in sorted(scores)],
    }


def _account(learnt: Sequence[Document], base: int) -> Document:
    """Parameters of the bank, and of a whole model for each task; of a task its last version."""
    trained = {record["name"]: record["trained_parameters"] for record in learnt}
    bank, apart = base + sum(trained.values()), base * len(trained)
    return {
        "base": base,
        "tasks": len(trained),
        "trained": sum(trained.values()),
        "bank": bank,
        "one_model_per_task": apart,
        "times_smaller": apart / bank,
    }


# --- for people


def heading(report: Document) -> str:
    """Over the table of tasks."""
    several = f"{len(report['tasks'])} task{'s'[: len(report['tasks']) != 1]}"
    shared = "; then of one shared encoder fine-tuned task after task" if report["contrast"] else ""
    return f"{several}: scores on held-out rows, right after learning and at the end{shared}"


def columns(report: Document) -> tuple[str, ...]:
    """Of the table of tasks."""
    shared = ("shared", "end", "change") if report["contrast"] else ()
    return ("task", "metric", "learnt", "end", "change", *shared)


def rows(report: Document) -> list[tuple[str, ...]]:
    """The table of tasks."""
    return [
        (
            f"{task['task']}@{task['version']}",
            task["metric"],
            *_cells(task["bank"]),
            *(_cells(task["shared_encoder"]) if report["contrast"] else ()),
        )
        for task in report["tasks"]
    ]


def _cells(course: Document) -> tuple[str, str, str]:
    first, last, difference = (
        course[name] for name in ("after_learning", "at_the_end", "difference")
    )
    if first is None:
        return ("–", "–", "–")
    # A difference that only rounds to zero is not shown as none.
    shown = "0" if difference == 0 else f"{difference:+.3f}"
    return f"{first:.3f}", f"{last:.3f}", shown


def sentences(report: Document) -> list[str]:
    """What the table comes to."""
    if not report["tasks"]:
        return ["No task was learnt."]
    checked = ("packages", "predictions") if report["checks"] else ()
    found = [_identity(report, what) for what in checked]
    if not report["checked"]:
        found.append("The last task was not checked yet: the same command goes on from here.")
    account = report["parameters"]
    tasks = f"{account['tasks']} task{'s'[: account['tasks'] != 1]}"
    found.append(
        f"Parameters: the base's {account['base']:,} and {account['trained']:,} of {tasks} are "
        f"{account['bank']:,}; a whole model for each task would be "
        f"{account['one_model_per_task']:,}, {account['times_smaller']:.1f} times as many."
    )
    return found


def _identity(report: Document, what: str) -> str:
    held = {"packages": "package", "predictions": "prediction"}[what]
    same = {"packages": "byte", "predictions": "bit"}[what]
    if report[f"{what}_identical"]:
        return f"Every earlier {held} is {same}-identical: yes."
    wrong = [each for each in report["problems"] if each["what"] == what]
    which = "; ".join(f"{each['task']} after {each['after']}: {each['message']}" for each in wrong)
    return f"Every earlier {held} is {same}-identical: NO. {which}"


def markdown(report: Document, picture: str = "") -> str:
    """The report as a page, with a picture beside it if there is one."""
    lines = [f"# A stream of tasks on {report['base']['name']}", ""]
    if report["tasks"]:
        heads = columns(report)
        lines += [f"{heading(report)}.", ""]
        lines += [_line(heads), _line(["---", "---", *["--:"] * (len(heads) - 2)])]
        lines += [*map(_line, rows(report)), ""]
        lines += [f"![Scores as tasks are learnt]({picture})", ""] if picture else []
    lines += [f"- {sentence}" for sentence in sentences(report)]
    if report["set_aside"]:
        lines += ["", "## Set aside", ""]
        lines += [_line(("task", "from", "reason")), _line(["---"] * 3)]
        lines += [_line(each.values()) for each in report["set_aside"]]
    return "\n".join(lines) + "\n"


def _line(cells: Any) -> str:
    return (
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    )
