"""Tasks known by name alone: the bundled samples and the catalogue."""

from __future__ import annotations

from adapterbank.errors import DataError
from adapterbank.tasks.catalog import catalog_names, find, load_catalog_task
from adapterbank.tasks.catalog_files import locate
from adapterbank.tasks.samples import SAMPLES, load_sample
from adapterbank.tasks.task import Task


def is_known(name: str) -> bool:
    """Whether it is the name of a sample or of a task of the catalogue; a tenant may be before."""
    return _short(name) in (*SAMPLES, *catalog_names())


def check_rows(name: str, folder: str | None = None) -> None:
    """Refuse a known task whose rows are not where they should be; nothing is read."""
    if _short(name) not in SAMPLES:
        locate(find(_short(name)), folder)


def known_task(name: str, folder: str | None = None, seed: int = 0) -> Task:
    """A bundled sample or a task of the catalogue."""
    short = _short(name)
    if short in SAMPLES:
        return load_sample(short)
    if short in catalog_names():
        return load_catalog_task(short, folder=folder, seed=seed)
    raise DataError(
        f"Where are the rows of {name!r}?",
        f"Give --train FILE, or the name of a sample ({', '.join(SAMPLES)}) or of a task of the "
        "catalogue (mrpc, sst2, sms_spam …).",
    )


def _short(name: str) -> str:
    return name.rpartition("/")[2]
