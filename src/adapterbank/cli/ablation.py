"""`adapterbank show TASK --ablation`: which of a task's adapters matter, and how wide they are."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

from adapterbank.cli.known import asks_the_same
from adapterbank.cli.labelled import labelled_rows
from adapterbank.cli.output import counting, print_json, print_table
from adapterbank.errors import DataError

if TYPE_CHECKING:
    from adapterbank.ablation import Ablation
    from adapterbank.store.entry import TaskInfo
    from adapterbank.tasks.task import Example

MOST_ROWS = 1_000  # each is answered some dozens of times
POINTS = 0.5  # a score may fall by so much of a hundred and still be called as good


def show_ablation(
    info: TaskInfo, bank: str, base: str | None, data: str | None, as_json: bool
) -> None:
    """Measure and print it."""
    examples = _examples(info, data)
    from rich.console import Console

    from adapterbank.ablation import ablate
    from adapterbank.bank import Bank

    home = Bank.open(bank, base, create=False)
    package = home.store.load(home.store.find(str(info)))
    with counting("scoring", Console(stderr=True)) as bar:
        line = bar.add_task("scoring", total=None, note="")
        found = ablate(
            home.encoder,
            package,
            examples,
            lambda done, of: bar.update(line, completed=done, total=of),
        )
    if as_json:
        print_json({"task": info.task, "version": info.version.version, **found.as_dict()})
        return
    _print(info, found)


def _examples(info: TaskInfo, data: str | None) -> list[Example]:
    if data is None:
        rows = _known_rows(info)
    else:
        rows = labelled_rows(info.manifest, data, skip_bad=True).examples
    if len(rows) <= MOST_ROWS:
        return rows
    print(f"{MOST_ROWS:,} of {len(rows):,} rows, drawn at random.", file=sys.stderr)
    return random.Random(0).sample(rows, MOST_ROWS)


def _known_rows(info: TaskInfo) -> list[Example]:
    """The rows of a sample or a task of the catalogue, if that is what the task has learnt."""
    from adapterbank.tasks.known import is_known, known_task

    give = "Give labelled ones that it was not trained on: --data F."
    if not is_known(info.task):
        raise DataError(f"Which rows is {info.task} to be scored on?", give)
    try:
        task = known_task(info.task)
    except DataError as error:
        raise DataError(error.message, f"{error.hint} {give}".lstrip()) from error
    if not asks_the_same(info.manifest, task):
        raise DataError(
            f"{info.task} has other labels than the known task of that name: which rows is it to "
            "be scored on?",
            give,
        )
    return list(task.test or task.dev)


def _print(info: TaskInfo, found: Ablation) -> None:
    layers = found.layers
    print(f"{info} on {found.rows:,} rows: {found.metric} {found.whole:.3f}\n")
    print_table(
        f"Change of {found.metric} without the adapters of layers … to …, nothing trained again",
        ("from \\ to", *map(str, layers)),
        [
            (
                str(first),
                *(
                    f"{found.score_without(first, last) - found.whole:+.3f}"
                    if last >= first
                    else ""
                    for last in layers
                ),
            )
            for first in layers
        ],
    )
    if found.constant is not None:
        print(f"Always the most frequent answer: {found.constant:.3f}.")
    if found.narrowed:
        print_table(
            "With the strongest units of each adapter alone",
            ("size", found.metric, "change"),
            [
                (str(each.size), f"{each.score:.3f}", f"{each.score - found.whole:+.3f}")
                for each in found.narrowed
            ],
        )
    for sentence in advice(found):
        print(sentence)


def advice(found: Ablation) -> list[str]:
    """What to try, where something can be spared. Training anew recovers most of what is lost."""
    most = POINTS / 100
    told = []
    spare = found.spare_layers(most)
    if spare == found.layers[-1]:
        told.append(
            "All adapters together bring next to nothing on these rows: try --method head, which "
            "trains in seconds."
        )
    elif spare is not None:
        told.append(
            f"The adapters up to layer {spare} could go: try --first-layer {spare + 1}, which also "
            "trains and serves faster."
        )
    size = found.least_size(most)
    if size is not None:
        told.append(f"Size {size} may be enough: try --size {size}, a smaller package.")
    return told or [
        f"Every layer and the whole size count for more than {POINTS} points: nothing to spare."
    ]
