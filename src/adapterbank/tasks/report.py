"""What there is to know about a task's data before training on it: sizes, classes, flaws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from adapterbank.tasks.cells import counted, shown
from adapterbank.tasks.metrics import accuracy_error
from adapterbank.tasks.splits import text_key
from adapterbank.tasks.task import Example, Label, Task

LARGEST_SHOWN = 10
STRONG_IMBALANCE = 20
FEW_ROWS = 5
FEW_SCORED = 30  # rows that a score can hardly rest on


@dataclass(frozen=True)
class Lengths:
    """How long the texts of a split are, in `unit`."""

    unit: str
    """"tokens", or "characters" where tokens were not counted."""
    texts: int
    """How many were measured."""
    median: int
    most: int
    """Ninety-five in a hundred are not longer."""
    longest: int
    cut: int | None
    """How many lose their end at the longest length trained; None if tokens were not counted."""


@dataclass(frozen=True)
class DataReport:
    """The report, for a program (`as_dict`) and for people (`lines`)."""

    name: str
    kind: str
    max_length: int
    """The longest text trained, in tokens."""
    rows: dict[str, int]
    """By split."""
    classes: dict[str, int]
    """Rows in train by class, the largest first."""
    values: tuple[float, float, float] | None
    """Smallest, mean and largest number in train, of a regression."""
    unanswerable: int | None
    """Questions in train without an answer, of a span task."""
    lengths: dict[str, Lengths]
    """By split."""
    duplicates: int
    """Texts that stand in train more than once."""
    conflicts: int
    """Those of them that have different labels."""
    leaks: dict[str, int]
    """Texts of dev and of test that stand in train, too."""
    notes: tuple[str, ...]
    """How the task was read."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may spoil the scores."""
        return tuple(self._warnings())

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "warnings": list(self.warnings)}

    def lines(self) -> list[str]:
        """Short lines for people; the warnings come last."""
        sizes = ", ".join(f"{split} {number:,}" for split, number in self.rows.items())
        return [
            f"{self.name}: {self.kind}; rows: {sizes}",
            *self.notes,
            *self._label_lines(),
            *(self._length_line(split) for split in self.lengths),
            *(f"warning: {warning}" for warning in self.warnings),
        ]

    def _label_lines(self) -> Iterator[str]:
        if self.values:
            least, mean, most = self.values
            yield f"values in train: from {least:g} to {most:g}, {mean:g} on average"
        if self.unanswerable is not None:
            yield f"questions in train without an answer: {self.unanswerable:,}"
        if not self.classes:
            return
        parts = [self._class(label) for label in list(self.classes)[:LARGEST_SHOWN]]
        more = len(self.classes) - LARGEST_SHOWN
        if more > 0:
            parts.append(f"and {more} more; the smallest is {self._class(self._smallest())}")
        yield f"{counted(len(self.classes), 'label')} in train: {', '.join(parts)}"

    def _class(self, label: str) -> str:
        number = self.classes[label]
        return f"{label} {number:,} ({number / max(1, self.rows['train']):.1%})"

    def _smallest(self) -> str:
        return list(self.classes)[-1]

    def _length_line(self, split: str) -> str:
        found = self.lengths[split]
        line = (
            f"{split} texts, in {found.unit}: median {found.median:,}, "
            f"95 % up to {found.most:,}, longest {found.longest:,}"
        )
        if found.cut is None:
            return line
        of = f"{found.cut:,} of {found.texts:,}" if found.cut else "none"
        how = "read in several windows of" if self.kind == "span" else "cut at"
        return f"{line}; {of} {how} {self.max_length:,}"

    def _warnings(self) -> Iterator[str]:
        if self.classes:
            largest, smallest = next(iter(self.classes)), self._smallest()
            ratio = self.classes[largest] / max(1, self.classes[smallest])
            if ratio > STRONG_IMBALANCE:
                yield (
                    f"strong imbalance: {shown(largest)} has {ratio:.0f} times the rows "
                    f"of {shown(smallest)}; look at F1, not accuracy alone"
                )
        few = [label for label, number in self.classes.items() if number < FEW_ROWS]
        if few:
            yield (
                f"{counted(len(few), 'label')} with fewer than {FEW_ROWS} rows in train, "
                f"such as {shown(few[-1])}"
            )
        if alike := _alike(self.classes):
            yield f"labels that differ in case or spaces alone: {', '.join(map(shown, alike))}"
        for split in ("dev", "test"):
            if 0 < (number := self.rows.get(split, 0)) < FEW_SCORED:
                yield f"{split} has {counted(number, 'row')}: {self._how_far_off(number)}"
        if self.duplicates:
            differ = f", {self.conflicts:,} of them with different labels" * bool(self.conflicts)
            yield f"{counted(self.duplicates, 'text')} more than once in train{differ}"
        for split, number in self.leaks.items():
            if number:
                yield f"{counted(number, 'text')} of {split} also in train: its score flatters"

    def _how_far_off(self, rows: int) -> str:
        if self.kind == "regression":
            return "a score on so few is mostly chance"
        # Two standard errors of a share near one half, where they are largest.
        return f"a score on so few may be off by up to {200 * accuracy_error(0.5, rows):.0f} points"


def _alike(labels: Iterable[str]) -> tuple[str, ...]:
    """The first labels that a person would take for one: most likely a slip of who typed them."""
    found: dict[str, list[str]] = {}
    for label in labels:
        found.setdefault(" ".join(label.casefold().split()), []).append(label)
    return next((tuple(same) for same in found.values() if len(same) > 1), ())


def data_report(
    task: Task, lengths: Mapping[str, Sequence[int]] | None, max_length: int
) -> DataReport:
    """Look a task over. `lengths`: by split, the tokens of its texts before they are cut.

    They may be those of the first texts alone. Without them characters are counted.
    """
    splits = {"train": task.train, "dev": task.dev, "test": task.test}
    splits = {split: examples for split, examples in splits.items() if examples}
    labels = _labels_by_text(task.train)
    repeated = [found for found in labels.values() if len(found) > 1]
    span = task.kind == "span"
    return DataReport(
        name=task.name,
        kind=task.kind,
        max_length=max_length,
        rows={split: len(examples) for split, examples in splits.items()},
        classes=_class_counts(task),
        values=_values(task),
        unanswerable=sum(not example.answers for example in task.train) if span else None,
        lengths=_lengths(splits, lengths, max_length),
        duplicates=len(repeated),
        conflicts=sum(len(set(found)) > 1 for found in repeated),
        leaks={
            split: sum(text_key(example) in labels for example in splits[split])
            for split in ("dev", "test")
            if split in splits
        },
        notes=task.notes,
    )


def _class_counts(task: Task) -> dict[str, int]:
    counts = Counter(dict.fromkeys(task.labels, 0))
    for example in task.train:
        label = example.label
        counts.update(label if isinstance(label, tuple) else [str(label)] if task.labels else [])
    return dict(counts.most_common())


def _values(task: Task) -> tuple[float, float, float] | None:
    if task.kind != "regression" or not task.train:
        return None
    values = [example.number for example in task.train]
    return min(values), sum(values) / len(values), max(values)


def _labels_by_text(examples: Sequence[Example]) -> dict[int, list[Label]]:
    labels: dict[int, list[Label]] = {}
    for example in examples:
        labels.setdefault(text_key(example), []).append(example.label)
    return labels


def _lengths(
    splits: Mapping[str, Sequence[Example]],
    tokens: Mapping[str, Sequence[int]] | None,
    max_length: int,
) -> dict[str, Lengths]:
    found = {}
    for split, examples in splits.items():
        if tokens is None:
            counts = sorted(len(example.text) + len(example.pair or "") for example in examples)
        else:
            counts = sorted(tokens.get(split, ()))
        if counts:
            last = len(counts) - 1
            found[split] = Lengths(
                unit="characters" if tokens is None else "tokens",
                texts=len(counts),
                median=counts[last // 2],
                most=counts[-(-95 * len(counts) // 100) - 1],
                longest=counts[last],
                cut=None if tokens is None else sum(count > max_length for count in counts),
            )
    return found
