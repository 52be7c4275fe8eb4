"""The same stream on one shared encoder, arrival by arrival, beside the bank."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from adapterbank.errors import TrainingDiverged
from adapterbank.model.encoder import Encoder
from adapterbank.streams.arrivals import Arrival
from adapterbank.streams.events import Begun, Contrasted, Event
from adapterbank.streams.shared import SharedEncoder
from adapterbank.streams.state import Document, State
from adapterbank.tasks.task import Task
from adapterbank.tasks.task_file import read_task


class Contrast:
    """Takes the shared encoder through the arrivals, and keeps how all tasks fare after each."""

    def __init__(self, state: State, encoder: Encoder) -> None:
        self.state = state
        self.shared = SharedEncoder(encoder, state.folder / "shared.safetensors")

    def catch_up(self, here: Iterable[Arrival]) -> Iterator[Event]:
        """Learn what was learnt without it, as far as the data is still there."""
        done = {record["after"] for record in self.state.contrasts()}
        arrivals = {arrival.key: arrival for arrival in here}
        for record in self.state.learnt():
            arrival = arrivals.get(record["key"])
            if record["number"] not in done and arrival is not None and _same(arrival, record):
                yield from self.learn(record, arrival.read())

    def learn(self, record: Document, task: Task) -> Iterator[Event]:
        """Fine-tune on one task, then ask every task so far."""
        number, shared, began = record["number"], self.shared, time.perf_counter()
        recipe = shared.recipe_for(task, record["recipe"], number)
        found: Document = {"after": number, "recipe": recipe.as_dict(), "problem": ""}
        if number not in shared.heads:  # killed before it was asked, it has learnt already
            yield Begun(task.metric, "one shared encoder")
            try:
                yield from shared.learn(number, task, recipe)
            except TrainingDiverged as error:
                found["problem"] = error.message
        found["scores"] = [
            {"arrival": each["number"], "score": self._score(each)}
            for each in self.state.learnt()
            if each["number"] in shared.heads
        ]
        found["seconds"] = time.perf_counter() - began
        self.state.add_contrast(found)
        yield Contrasted(found)

    def _score(self, record: Document) -> float:
        number = record["number"]
        task = read_task(self.state.held_out(number))
        return self.shared.score(number, task, record["recipe"]["max_length"], record["metric"])


def _same(arrival: Arrival, record: Document) -> bool:
    return (arrival.settings, arrival.digest()) == (record["settings"], record["digest"])
