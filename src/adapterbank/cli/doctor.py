"""`adapterbank doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Annotated, Any

import typer

from adapterbank.cli.output import JSON_HELP, print_json
from adapterbank.errors import BaseError

SHOWN = ("torch", "transformers", "tokenizers", "safetensors", "accelerate", "numpy")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Look at the installation: versions, threads, the embedded base, the extras.

    Exits with 1 if something that the default way needs is missing or damaged.

    [bold]Examples[/bold]

      adapterbank doctor

      adapterbank doctor --json
    """
    report = examine()
    if as_json:
        print_json(report)
    else:
        _show(report)
    if not report["ok"]:
        raise typer.Exit(1)


def examine() -> dict[str, Any]:
    """Everything that `doctor` reports."""
    import torch

    from adapterbank.model.products import settled

    base = _examine_base()
    missing = _missing_by_extra()
    return {
        "ok": base["verified"] and not missing[""],
        "adapterbank": metadata.version("adapterbank"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "products": settled("auto", torch.device("cpu")),
        "devices": [
            "cpu",
            *[torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        ],
        "versions": {name: _version(name) for name in SHOWN},
        "base": base,
        "missing": missing.pop(""),
        "extras": {
            extra: {"present": not lacking, "missing": lacking, "hint": _extra_hint(extra, lacking)}
            for extra, lacking in missing.items()
        },
    }


def _extra_hint(extra: str, lacking: list[str]) -> str:
    return f"pip install 'adapterbank[{extra}]'" if lacking else ""


def _examine_base() -> dict[str, Any]:
    from adapterbank.model.wheel import MINILM, minilm_folder

    try:
        minilm_folder()
    except BaseError as error:
        return {"name": MINILM, "verified": False, "problem": error.message, "hint": error.hint}
    return {"name": MINILM, "verified": True, "problem": "", "hint": ""}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _missing_by_extra() -> dict[str, list[str]]:
    """What each extra lacks; the empty name stands for what is always needed."""
    from packaging.requirements import Requirement

    missing: dict[str, list[str]] = {"": []}
    for extra in metadata.metadata("adapterbank").get_all("Provides-Extra") or []:
        if extra not in ("dev", "minilm"):  # for developers; and the base, reported by itself
            missing[extra] = []
    for line in metadata.requires("adapterbank") or []:
        wanted = Requirement(line)
        found = _version(wanted.name)
        if found is not None and wanted.specifier.contains(found, prereleases=True):
            continue
        for extra, lacking in missing.items():
            only_with_extra = wanted.marker is not None and "extra" in str(wanted.marker)
            if only_with_extra == bool(extra) and (
                wanted.marker is None or wanted.marker.evaluate({"extra": extra})
            ):
                lacking.append(f"{wanted.name}{wanted.specifier}")
    return missing


def _show(report: dict[str, Any]) -> None:
    good, bad = "✓", "✗"
    print(f"adapterbank {report['adapterbank']}, Python {report['python']}, {report['platform']}")
    print(
        f"  {report['threads']} threads on {report['cores']} cores ({report['cpu_capability']}), "
        f"training multiplies in {report['products']}"
    )
    print(f"  devices: {', '.join(report['devices'])}")
    print("  " + ", ".join(f"{name} {version}" for name, version in report["versions"].items()))
    base = report["base"]
    print(f"{good if base['verified'] else bad} base {base['name']}", end="")
    print(" found and verified" if base["verified"] else f": {base['problem']} {base['hint']}")
    if report["missing"]:
        print(f"{bad} missing: {', '.join(report['missing'])}; pip install --upgrade adapterbank")
    for name, extra in report["extras"].items():
        if extra["present"]:
            print(f"{good} extra {name}")
        else:
            print(f"- extra {name}: lacks {', '.join(extra['missing'])}; {extra['hint']}")
