"""The card of a task: one HTML page made from its manifest alone, to read, keep or publish.

Nothing in a manifest is trusted: all of it goes through `markup`, and the page holds no script and
asks for nothing from elsewhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from adapterbank.store.confusion import confusion_svg, most_confused
from adapterbank.store.manifest import Manifest
from adapterbank.store.markup import count, digest, name, rounded, size, table, text
from adapterbank.store.names import split_name, split_reference
from adapterbank.store.record import Version
from adapterbank.tasks.metrics import METRICS

__all__ = ["card", "confusion_svg", "most_confused"]

NAMED = 8  # labels in the first sentence
BARS, LARGEST_BARS = 30, 15  # all labels up to the first number, else so many of the largest
PAIRS = 15  # of labels that are confused
LONGEST_TABLE = 40  # rows
BASELINES = 4  # beside the task's own scores
FEW_ROWS = 20  # of a label in train
FEW_SCORED = 200  # rows that a score rests on
LOW_RECALL = 0.5
LISTED = 5  # labels in a sentence

DOES = {
    "classification": "Gives {reads} one of {labels} labels",
    "multi-label": "Gives {reads} any number of {labels} labels",
    "regression": "Gives {reads} a number",
    "span": "Finds the answer to a question in a text",
}
ANSWERS = {
    "classification": "An answer is a label, with the probability of every label.",
    "multi-label": "An answer is a list of labels, with the probability of every label.",
    "regression": "An answer is a number.",
    "span": "An answer is a piece of the context, with its place and a score.",
}


def card(manifest: Manifest, *, reference: str, versions: Sequence[Version] = ()) -> str:
    """The page. `reference` names the version that the manifest is of, as in spam@3."""
    task, version = split_reference(reference)
    parts = (
        _header(manifest, task, version),
        _section("Scores", _scores(manifest)),
        _section("Where it errs", _errs(manifest)),
        _section("Labels", _balance(manifest)),
        _section("Limits", _list(_limits(manifest))),
        _section("How to use it", _use(manifest, reference, task)),
        _section("What it is on", _facts(_model(manifest))),
        _section("Data", _facts(_data(manifest))),
        _section("Recipe", _facts(_recipe(manifest))),
        _section("Software", _facts(_software(manifest))),
        _section("Versions", _versions(versions, version)),
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(reference)} · AdapterBank</title>
<style>
{_style()}</style>
</head>
<body>
<main>
{"".join(parts)}<footer>Made by AdapterBank from the manifest of {text(reference)}.</footer>
</main>
</body>
</html>
"""


@cache
def _style() -> str:
    return files("adapterbank.store").joinpath("card.css").read_text("utf-8")


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{content}</section>\n" if content else ""


def _header(manifest: Manifest, task: str, version: int | None) -> str:
    reads = "a pair of texts" if manifest.pair else "a text"
    does = DOES[manifest.kind].format(reads=reads, labels=count(len(manifest.labels)))
    named = ""
    if 0 < len(manifest.labels) <= NAMED:
        named = f': <span class="labels">{", ".join(map(name, manifest.labels))}</span>'
    said = f"<p>{text(manifest.note)}</p>\n" if manifest.note else ""
    made = manifest.created
    at = f"{made[:10]}, {made[11:16]} UTC"
    number = f"<span>@{version}</span>" if version else ""
    return (
        f"<header>\n<h1>{text(task)}{number}</h1>\n"
        f'<p class="lead">{does}{named}.</p>\n{said}'
        f'<p class="note">{manifest.kind.capitalize()} on {name(manifest.base.name)}, made '
        f'<time datetime="{text(made)}">{text(at)}</time>.</p>\n{_figures(manifest)}</header>\n'
    )


def _figures(manifest: Manifest) -> str:
    scores, split = (manifest.test, "test") if manifest.test else (manifest.dev, "dev")
    figures = []
    if manifest.metric in scores:
        figures.append(
            (rounded(scores[manifest.metric], 3), f"{_spelled(manifest.metric)} on {split}")
        )
    if "train" in manifest.data.rows:
        figures.append((count(manifest.data.rows["train"]), "rows to learn from"))
    of_base = manifest.parameters.percent_of_base
    figures.append((f"{rounded(of_base, 2)} %", "own parameters, as a share of the base"))
    figures.append((size(manifest.weights_bytes), "of weights"))
    each = "".join(f"<div><dt>{what}</dt><dd>{figure}</dd></div>\n" for figure, what in figures)
    return f'<dl class="figures">\n{each}</dl>\n'


def _spelled(metric: str) -> str:
    return name(metric.replace("_", " ").replace("f1", "F1"))


# --- how good it is


def _scores(manifest: Manifest) -> str:
    """A row for each metric; the task first, then simpler methods on the same rows."""
    mine = manifest.test or manifest.dev
    baselines = list(manifest.baselines.items())[:BASELINES]
    columns = [mine, *(scores for _, scores in baselines)]
    head = ["", "this task", *(name(method, 24) for method, _ in baselines)]
    if manifest.test:
        columns.append(manifest.dev)
        head.append("this task, on dev")
    metrics = list(dict.fromkeys((manifest.metric, *mine, *manifest.dev)))
    rows = [
        [
            f"{_spelled(metric)}<small>{_meaning(metric, manifest)}</small>",
            *(rounded(each[metric], 3) if metric in each else "" for each in columns),
        ]
        for metric in metrics[:LONGEST_TABLE]
    ]
    return (
        f'<p class="note">{_what_was_scored(manifest)}</p>\n'
        f'<div class="wide">\n{table(head, rows, "scores")}</div>\n'
    )


def _meaning(metric: str, manifest: Manifest) -> str:
    meaning = METRICS.get(metric, "")
    if metric == "f1" and manifest.positive:
        meaning = f"F1 of {name(manifest.positive)}"
    elif metric == "f1" and manifest.kind == "span":
        meaning = "F1 of the words that answer and prediction share"
    return f"{meaning}; selection went by it" if metric == manifest.metric else meaning


def _what_was_scored(manifest: Manifest) -> str:
    rows = manifest.data.rows
    beside = ", beside simpler methods on the same rows" if manifest.baselines else ""
    if manifest.test:
        many = f"{count(rows['test'])} " if "test" in rows else ""
        seen = "nothing saw before"
        if manifest.origin:
            seen = f"this run did not train on; {name(manifest.origin, 120)} may have"
        return f"On the {many}rows of test, rows that {seen}{beside}."
    many = f"{count(rows['dev'])} " if "dev" in rows else ""
    return (
        f"On the {many}rows of dev{beside}. There was no test split: the dev score was used for "
        "selection, so expect somewhat less on new texts."
    )


def _errs(manifest: Manifest) -> str:
    """The confusion matrix, or the pairs most confused where it would be too large."""
    split = "test" if manifest.test else "dev"
    if picture := confusion_svg(manifest):
        return (
            f'<figure>\n<div class="wide">\n{picture}</div>\n<figcaption>Rows of {split} by true '
            "and predicted label. The fuller the colour, the larger the share of the true "
            "label’s rows.</figcaption>\n</figure>\n"
        )
    pairs = most_confused(manifest.confusion, PAIRS)
    if not pairs:
        return ""
    rows = [(name(each.label), name(each.predicted), count(each.rows)) for each in pairs]
    return (
        f'<p class="note">The labels most often confused on {split}.</p>\n'
        f"{table(('true', 'predicted', 'rows'), rows, 'pairs')}"
    )


def _balance(manifest: Manifest) -> str:
    balance = Counter(manifest.data.balance)
    if not any(balance.values()):
        return ""
    shown = balance.most_common(None if len(balance) <= BARS else LARGEST_BARS)
    largest = shown[0][1]
    rows = [(name(label), _bar(rows / largest), count(rows)) for label, rows in shown]
    if len(balance) > len(shown):
        rows.append((f"… and {count(len(balance) - len(shown))} more", "", ""))
    return f'<p class="note">Rows of train by label.</p>\n{table((), rows, "balance")}'


def _bar(share: float) -> str:
    return (
        '<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{100 * share:.4g}" height="1"/></svg>'
    )


def _limits(manifest: Manifest) -> Iterator[str]:
    many, rows = count(manifest.max_length), manifest.data.rows
    if manifest.kind == "span":
        yield f"Long contexts are read through windows of {many} tokens."
    else:
        what = "Pairs of texts" if manifest.pair else "Texts"
        yield f"{what} are cut after {many} tokens; what comes later is not read."
    split = "test" if manifest.test else "dev"
    if rows.get(split, FEW_SCORED) < FEW_SCORED:
        yield f"The scores rest on {count(rows[split])} rows, and would differ on others."
    balance = manifest.data.balance
    few = sorted((n, label) for label, n in balance.items() if n < FEW_ROWS)
    if few:
        listed = _listed(f"{name(label)} ({count(n)})" for n, label in few)
        yield f"Labels with fewer than {FEW_ROWS} rows to learn from: {listed}."
    missed = sorted(_missed(manifest))
    if missed:
        listed = _listed(
            f"{name(label)} ({count(right)} of {count(all_)})" for _, label, right, all_ in missed
        )
        yield f"Labels of which fewer than half the rows of {split} were found: {listed}."
    if not manifest.data.sha256:
        yield "The data it was trained on is not known: it was brought in."


def _missed(manifest: Manifest) -> Iterator[tuple[float, str, int, int]]:
    """Recall, label, rows found and all rows of labels with low recall, where all rows are told."""
    rows: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for each in manifest.confusion:
        rows[each.label] += max(0, each.rows)
        right[each.label] += max(0, each.rows) if each.label == each.predicted else 0
    scored = manifest.data.rows.get("test" if manifest.test else "dev")
    if sum(rows.values()) == scored:
        for label, whole in rows.items():
            if whole and right[label] / whole < LOW_RECALL:
                yield right[label] / whole, label, right[label], whole


def _listed(items: Iterable[str]) -> str:
    every = list(items)
    more = f" … and {count(len(every) - LISTED)} more" if len(every) > LISTED else ""
    return ", ".join(every[:LISTED]) + more


def _list(items: Iterable[str]) -> str:
    lines = "".join(f"<li>{item}</li>\n" for item in items)
    return f"<ul>\n{lines}</ul>\n"


# --- how to use it


def _use(manifest: Manifest, reference: str, task: str) -> str:
    given: object = "your text"
    if manifest.kind == "span":
        given = {"question": "your question", "context": "your text"}
    elif manifest.pair:
        given = {"text_a": "your text", "text_b": "another text"}
    words = " ".join(
        f'"{word}"' for word in (given.values() if isinstance(given, dict) else [given])
    )
    inputs = json.dumps([given])
    examples = {
        "Command line": f"adapterbank predict {reference} {words}",
        "Python": f'from adapterbank import Bank\n\nBank.open("bank").predict("{task}", {inputs})',
        "HTTP": f"POST /v1/tasks/{split_name(task)[1]}/predict\n"
        f'Authorization: Bearer KEY\n\n{{"inputs": {inputs}}}',
    }
    return f"<p>{ANSWERS[manifest.kind]}</p>\n" + "".join(
        f"<h3>{where}</h3>\n<pre><code>{text(example)}</code></pre>\n"
        for where, example in examples.items()
    )


# --- what it is made of


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = [fact for fact in facts if fact[1]]
    more = len(rows) - LONGEST_TABLE
    shown = [*rows[:LONGEST_TABLE], *([("…", f"and {count(more)} more")] if more > 0 else [])]
    return table((), shown, "facts") if shown else ""


def _model(manifest: Manifest) -> Iterator[tuple[str, str]]:
    parameters = manifest.parameters
    yield "Base", f"{name(manifest.base.name)} {digest(manifest.base.fingerprint)}"
    yield "Method", _method(manifest)
    yield (
        "Trained parameters",
        f"{count(parameters.trained)}: {rounded(parameters.percent_of_base, 2)} % of the base, "
        f"{rounded(parameters.percent_without_embeddings, 2)} % without its embeddings",
    )
    yield "Weights", f"{count(manifest.weights_bytes)} bytes, {manifest.precision}"
    yield "Pooling", "" if manifest.kind == "span" else manifest.pooling
    if manifest.kind in ("classification", "multi-label"):
        yield "Calibration", f"temperature {rounded(manifest.temperature, 3)}, fitted on dev"
    if manifest.threshold is not None:
        yield "No answer", f"from a margin of {rounded(manifest.threshold, 3)}, fitted on dev"
    yield "Went on from", name(manifest.origin, 120) if manifest.origin else ""


def _method(manifest: Manifest) -> str:
    method, adapter = manifest.method, manifest.adapter
    if adapter is not None:
        some = adapter.layers and f", in {count(len(adapter.layers))} layers"
        return f"adapters of size {count(adapter.size)}{some or ''}"
    return f"the top {count(method.top_k)} layers" if method.name == "top-k" else method.name


def _data(manifest: Manifest) -> Iterator[tuple[str, str]]:
    data = manifest.data
    rows = [f"{count(many)} {name(split, 20)}" for split, many in data.rows.items()]
    yield "Rows", _listed(rows)
    columns = [f"{text(role)}: {name(column)}" for role, column in manifest.columns.items()]
    yield "Columns", ", ".join(columns)
    yield "Digest", digest(data.sha256) if data.sha256 else ""


def _recipe(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for setting, value in manifest.recipe.items():
        yield name(setting.replace("_", " ")), name(json.dumps(value, ensure_ascii=False), 80)


def _software(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for package, version in manifest.software.items():
        yield name(package), name(version, 80)


def _versions(versions: Sequence[Version], this: int | None) -> str:
    newest = sorted(versions, key=lambda each: -each.version)
    rows = [
        (
            f"{each.version}{', this one' if each.version == this else ''}",
            f"{text(each.published[:10])}",
            size(each.bytes),
        )
        for each in newest[:LONGEST_TABLE]
    ]
    more = len(newest) - len(rows)
    if more > 0:
        rows.append((f"… and {count(more)} more", "", ""))
    return table(("version", "published", "size"), rows, "versions") if rows else ""
