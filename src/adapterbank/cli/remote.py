"""The same verbs against a service: `--server URL`, with the key in $ADAPTERBANK_KEY."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapterbank.errors import AdapterBankError, ConfigError, ServiceError

if TYPE_CHECKING:
    from adapterbank.client import Client
    from adapterbank.tasks.predictions import Prediction
    from adapterbank.tasks.task import Example, Kind

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Do it on a service instead of a bank; the key is $ADAPTERBANK_KEY.",
    ),
]


def refuse_there(context: typer.Context, *names: str) -> None:
    """Refuse parameters that were given and can have no effect on a service: these, and where a
    bank is and how its base runs."""
    names = (*names, "bank", "base", "device")
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [
        each.opts[0] if each.param_type_name == "option" else each.opts[0].upper()
        for each in context.command.params
        if (source := sources.get(each.name or "")) and source.name == "COMMANDLINE"
    ]
    if given:
        raise typer.BadParameter(
            f"{', '.join(given)} cannot go with --server: a service has its own bank, base and "
            "device, does a job whole, and shows what its key may see. Leave out either."
        )


def client_of(server: str) -> Client:
    """The service, if what talks to it is installed."""
    try:
        from adapterbank.client import Client
    except ImportError as error:
        raise ConfigError(
            f"--server needs {error.name}.", "Install it: pip install 'adapterbank[serve]'."
        ) from error
    return Client(server)


@dataclass(frozen=True)
class Reads:
    """What a task reads."""

    task: str
    kind: Kind
    pair: bool
    columns: dict[str, str]


class RemoteTask:
    """A task of a service, as the command line asks one of a bank."""

    def __init__(self, client: Client, task: str) -> None:
        self.client, self.task = client, task
        shown = client.show(task)
        self.manifest = Reads(shown["task"], shown["kind"], shown["pair"], shown["columns"])
        self._any, self._lost = False, 0  # rows that the service has answered, and has not
        self._failed: AdapterBankError | None = None

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answers, one an example; one that the service refuses has its error in its place. If it
        fails when some are answered, the others have that error, and `check` tells of it."""
        from adapterbank.tasks.predictions import Prediction

        found: list[Prediction] = []
        try:
            if self._failed is None:
                for some in self.client.predicting(self.task, map(self._input, examples)):
                    found += some
                    self._any = True
        except AdapterBankError as error:
            if not self._any:
                raise
            self._failed = error
        lost = len(examples) - len(found)
        self._lost += lost
        return found + [Prediction(error=self._failed)] * lost

    def check(self) -> None:
        """Fail if the service has, once what it answered is written."""
        if self._failed is not None:
            raise ServiceError(
                f"The service failed before it had answered every row; {self._lost:,} have the "
                f"error in their place: {self._failed.message}",
                self._failed.hint,
            )

    def _input(self, example: Example) -> Any:
        if self.manifest.kind == "span":
            return {"question": example.text, "context": example.pair}
        if self.manifest.pair:
            return {"text_a": example.text, "text_b": example.pair}
        return example.text


def train_there(server: str, task: str, file: str, options: dict[str, Any]) -> dict[str, Any]:
    """Train a task on a service, and say how it goes; what came of it."""
    from adapterbank.client import finished

    with client_of(server) as client:
        job = client.train(task, file, **options)
        print(f"The job is {job['id']}; it goes on if this is stopped.", file=sys.stderr)
        for event in client.follow(job["id"]):
            if event["event"] == "job":
                job = event
            if line := _line(event):
                print(line, file=sys.stderr)
        return finished(job)


def _line(event: dict[str, Any]) -> str:
    """An event for people; the steps in between are left out."""
    match event["event"]:
        case "job":
            return f"{event['task']}: {event['state']}"
        case "plan":
            return f"{event['steps']:,} steps, about {event['seconds']:.0f} s"
        case "epoch":
            scores = ", ".join(f"{name} {score:.3f}" for name, score in event["dev"].items())
            return f"epoch {event['epoch']} of {event['epochs']}: {scores}"
        case "data":
            return "\n".join(f"warning: {each}" for each in event["warnings"])
        case "warned":
            return f"warning: {event['message']}"
    return ""
