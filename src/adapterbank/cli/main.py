"""The command line: one file a verb, errors in one line, heavy imports inside the verbs."""

from __future__ import annotations

import os
import sys

import typer

from adapterbank.cli import (
    carry,
    demo,
    doctor,
    evaluate,
    keys,
    params,
    predict,
    remove,
    rollback,
    route,
    serve,
    show,
    stream,
    study,
    sweep,
    tasks,
    train,
    verify,
)
from adapterbank.cli.grouped import grouped
from adapterbank.errors import AdapterBankError

app = typer.Typer(
    name="adapterbank",
    help="One frozen text encoder, a bank of tasks: adapters as in Houlsby et al. (2019).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("train")(grouped(train.train))
app.command("sweep")(grouped(sweep.sweep))
app.command("stream")(stream.stream)
app.command("predict")(predict.predict)
app.command("route")(route.route)
app.command("evaluate")(evaluate.evaluate)
app.command("tasks")(tasks.tasks)
app.command("show")(show.show)
app.command("verify")(verify.verify)
app.command("rollback")(rollback.rollback)
app.command("remove")(remove.remove)
app.command("gc")(remove.gc)
app.command("export")(carry.export)
app.command("import")(carry.import_)
app.command("params")(params.params)
app.command("serve")(serve.serve)
app.add_typer(keys.app, name="keys")
app.add_typer(study.study, name="study")


def _speaks() -> bool:
    """Of processes that train together, one speaks."""
    return os.environ.get("RANK", "0") == "0" or int(os.environ.get("WORLD_SIZE", "1")) < 2


def _quiet_if_not_first() -> None:
    if not _speaks():
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


def _version(asked: bool) -> None:
    if asked:
        from adapterbank import __version__

        print(f"adapterbank {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    """One frozen text encoder, a bank of tasks: adapters as in Houlsby et al. (2019)."""
    del version


def main() -> None:
    """Run a verb. Exit 0 when done, 1 on an error a person can put right, 2 on wrong usage."""
    _quiet_if_not_first()
    try:
        app()
    except AdapterBankError as error:
        _fail(error.message, error.hint, error)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away: `adapterbank … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        _fail(
            f"unexpected {type(error).__name__}: {error}",
            "Set ADAPTERBANK_DEBUG=1 to see where, and please report it.",
            error,
        )


def _fail(message: str, hint: str, error: Exception) -> None:
    if os.environ.get("ADAPTERBANK_DEBUG") == "1":
        raise error
    told = sys.stderr if _speaks() else sys.__stderr__  # what went wrong is told by whoever it is
    lines = f"error: {message} {hint}".splitlines()  # what libraries say may have several
    print(" ".join(line.strip() for line in lines if line.strip()), file=told)
    sys.exit(1)
