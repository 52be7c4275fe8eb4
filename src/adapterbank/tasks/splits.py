"""Dev and test rows cut from train: by class, by seed, and never the same text on two sides."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from adapterbank.tasks.task import Example, Kind

SHARE = 0.1
MOST_ROWS = 2_000
# A class of fewer different texts stays in train.
FEWEST_TEXTS = 3
# Small classes give a row each only up to so many, and to a fifth of all, or to the usual share.
LEAST_ROWS, LARGEST_SHARE = 30, 0.2
BINS = 10

# Rows that must stay on one side.
Group = list[int]


def cut_rows(
    examples: Sequence[Example], kind: Kind, parts: int, seed: int = 0
) -> tuple[list[int], ...]:
    """Row numbers, in order: what stays in train, then each of the `parts` cut from it.

    A part takes a tenth of the rows of every class, and 2,000 in all at most. A class too small for
    that gives one row, as long as such classes together do not take train's rows away. Rows with
    the same text (in a span task: context) go together, and every label stays in train.
    """
    draw = random.Random(seed)
    left = Counter(label for example in examples for label in labels_in(example))
    strata = _strata(examples, kind, left)

    def release(group: Group) -> bool:
        """Lets a group leave train if that takes no label's last row with it."""
        counts = Counter(label for row in group for label in labels_in(examples[row]))
        if any(left[label] <= count for label, count in counts.items()):
            return False
        left.subtract(counts)
        return True

    share = min(SHARE, MOST_ROWS / max(1, len(examples)))
    taken: list[list[int]] = [[] for _ in range(parts)]
    least = max(share, min(LARGEST_SHARE, LEAST_ROWS / max(1, len(examples)))) * len(examples)
    # Small classes first: where the limit is met, the largest class gives a few rows less.
    for groups in sorted(_shuffled_if_many(strata, share, least, seed), key=_count):
        if len(groups) < FEWEST_TEXTS:
            continue
        draw.shuffle(groups)
        quota = round(_count(groups) * share)
        if quota == 0:
            if max(map(len, taken)) >= least:
                continue
            quota = 1
        # Where a few texts have most of the rows, every side still gets its share of the texts.
        most = len(groups) // FEWEST_TEXTS
        for part in taken:
            part += _take(groups, quota, most, MOST_ROWS - len(part), release)
    gone = {row for part in taken for row in part}
    train = [row for row in range(len(examples)) if row not in gone]
    return train, *(sorted(part) for part in taken)


def _shuffled_if_many(
    strata: list[list[Group]], share: float, least: float, seed: int
) -> list[list[Group]]:
    """Where not every small class can give a row, chance says which do, not their order."""
    if sum(round(_count(groups) * share) == 0 for groups in strata) > least:
        random.Random(f"{seed} classes").shuffle(strata)
    return strata


def text_key(example: Example) -> int:
    """The same for texts, or pairs, that differ only in case and whitespace."""
    return hash((_folded(example.text), example.pair and _folded(example.pair)))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def labels_in(example: Example) -> tuple[str, ...]:
    """The classes of a row; a number is none."""
    if isinstance(example.label, tuple):
        return example.label
    return (example.label,) if isinstance(example.label, str) else ()


def _strata(examples: Sequence[Example], kind: Kind, counts: Counter[str]) -> list[list[Group]]:
    """Groups to draw from in equal shares: by their rarest class, or by about equal numbers."""
    groups = _groups(examples, kind)
    if kind == "regression":
        groups.sort(key=lambda group: examples[group[0]].number)
        bins = max(1, min(BINS, len(groups) // 10))
        return [
            groups[len(groups) * i // bins : len(groups) * (i + 1) // bins] for i in range(bins)
        ]
    strata: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        labels = {label for row in group for label in labels_in(examples[row])}
        strata[min(labels, key=lambda label: (counts[label], label), default="")].append(group)
    return list(strata.values())


def _groups(examples: Sequence[Example], kind: Kind) -> list[Group]:
    groups: dict[int, Group] = {}
    for row, example in enumerate(examples):
        key = hash(_folded(example.pair or "")) if kind == "span" else text_key(example)
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _count(groups: Sequence[Group]) -> int:
    return sum(map(len, groups))


def _take(
    groups: list[Group], quota: int, most: int, room: int, release: Callable[[Group], bool]
) -> list[int]:
    """The rows of up to `most` groups, `quota` in all, which are taken out of `groups`.

    Where every group has more rows than that, it is the smallest one.
    """
    rows: list[int] = []
    stay: list[Group] = []
    limit = min(quota, room)
    while groups and most and len(rows) < limit:
        group = groups.pop()
        if len(rows) + len(group) <= limit and release(group):
            rows += group
            most -= 1
        else:
            stay.append(group)
    groups += stay
    smallest = min(groups, key=len, default=[])
    if not rows and 0 < len(smallest) <= room and release(smallest):
        groups.remove(smallest)
        rows += smallest
    return rows
