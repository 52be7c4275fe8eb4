"""A run as a person sees it: what the data is, how long it takes, how it goes.

Everything goes to stderr. On a terminal a bar with loss, score, speed and time left; elsewhere a
line an epoch, and one every half minute of a long epoch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from adapterbank.events import Event, Learnt, Plan
    from adapterbank.training.baselines import Baseline
    from adapterbank.training.judge import Rounded
    from adapterbank.training.loop import Epoch, Step

LINE_EVERY = 30.0  # seconds between plain lines within an epoch
SMOOTHED = 20  # steps that the loss and the speed shown are averaged over


def follow(events: Iterator[Event], metric: str, title: str, *, quiet: bool = False) -> Learnt:
    """Show the events (`quiet`: the training alone) and return the last one."""
    from adapterbank.events import Learnt
    from adapterbank.training.loop import Epoch, Step

    with Follower(metric, title) as follower:
        for event in events:
            if isinstance(event, Learnt):
                return event
            if not quiet or isinstance(event, Step | Epoch):
                follower.see(event)
    raise AssertionError("the run ended without a result")


class Follower:
    """Draws events."""

    def __init__(self, metric: str, title: str) -> None:
        self.metric, self.title = metric, title
        self.console = Console(stderr=True, highlight=False)
        self.recent: deque[Step] = deque(maxlen=SMOOTHED)
        self.best = ""
        self.spoken = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.line = self.bar.add_task(title, total=None, note="")

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def see(self, event: Event) -> None:
        """Show one event."""
        from adapterbank.events import Compared, Plan, Resumed
        from adapterbank.tasks.report import DataReport
        from adapterbank.training.baselines import Baseline
        from adapterbank.training.judge import Rounded, Warned
        from adapterbank.training.loop import Epoch, Step

        match event:
            case DataReport():
                for line in event.lines():
                    self.say(line)
            case Plan():
                self.say(describe(event))
            case Resumed():
                self.say(f"Going on from step {event.step} of {event.steps}.")
            case Baseline():
                self._baseline(event)
            case Step():
                self._step(event)
            case Epoch():
                self._epoch(event)
            case Rounded():
                self.say(describe_rounding(event))
            case Warned():
                self.say(f"Warning: {event.message}")
            case Compared():
                self.say(
                    f"On the same dev rows: {event.reference} {event.metric} {event.before:.4f}, "
                    f"after going on {event.after:.4f}."
                )

    def say(self, line: str) -> None:
        """One line for people."""
        self.console.print(line, markup=False, soft_wrap=True)

    def _step(self, step: Step) -> None:
        self.bar.start()
        self.recent.append(step)
        seconds = sum(each.seconds for each in self.recent)
        loss = sum(each.loss for each in self.recent) / len(self.recent)
        speed = sum(each.rows for each in self.recent) / seconds
        note = f"loss {loss:.3f}  {self.best}{speed:.0f} rows/s"
        self.bar.update(self.line, total=step.steps, completed=step.step, note=note)
        if not self.console.is_terminal and time.monotonic() > self.spoken + LINE_EVERY:
            self.spoken = time.monotonic()
            self.say(f"{self.title}: step {step.step} of {step.steps}, {note}")

    def _epoch(self, epoch: Epoch) -> None:
        score = epoch.dev[self.metric]
        if epoch.best:
            self.best = f"dev {self.metric} {score:.3f}  "
        self.spoken = time.monotonic()
        self.say(
            f"{self.title}: epoch {epoch.epoch} of {epoch.epochs}, loss {epoch.loss:.3f}, "
            f"dev {self.metric} {score:.3f}{'  ← best' if epoch.best else ''}"
        )

    def _baseline(self, baseline: Baseline) -> None:
        self.bar.stop()
        score = (baseline.test or baseline.dev)[self.metric]
        self.say(f"{baseline.name}: {self.metric} {score:.3f} in {clock(baseline.seconds)}")


def describe(plan: Plan) -> str:
    """The plan in a sentence."""
    recipe = plan.recipe
    epochs = f"{recipe.epochs} epoch{'s'[: recipe.epochs != 1]}"
    return (
        f"Expected: {clock(plan.seconds)} for {epochs} ({plan.steps} steps of {recipe.batch_size} "
        f"rows, learning rate {recipe.learning_rate:g}); {plan.trained_parameters:,} parameters "
        f"to train, {plan.package_bytes / 1e6:.1f} MB to keep."
    )


def describe_rounding(rounded: Rounded) -> str:
    """What half precision changed, in a sentence."""
    kept = "kept in fp16" if rounded.precision == "fp16" else "too much, so kept in fp32"
    return (
        f"Rounded to fp16: {rounded.changed} of {rounded.rows} answers on dev change, the score "
        f"from {rounded.before:.4f} to {rounded.after:.4f}: {kept}."
    )


def clock(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
