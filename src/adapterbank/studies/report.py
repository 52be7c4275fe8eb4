"""The studies of a folder as pages: a README a study, one page in Markdown and one in HTML.

reproduction/<study>/README.md     words by hand; what stands between the marks is made here
reproduction/<study>/answer.json   what the page says and the picture shows, computed from the runs
reproduction/<study>/figure.svg    drawn from the answer

<!-- answer -->
…
<!-- /answer -->
"""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass
from pathlib import Path

from adapterbank.compute.records import write_record, write_whole
from adapterbank.errors import AdapterBankError, ConfigError
from adapterbank.store.markup import text as escaped
from adapterbank.studies.answers import kind_of
from adapterbank.studies.facts import LOCK
from adapterbank.studies.stream import is_stream, read_answer
from adapterbank.studies.stream import markdown as of_stream
from adapterbank.studies.study_file import read_study

BEGIN, END = "<!-- answer -->", "<!-- /answer -->"
ANSWER, FIGURE, README = "answer.json", "figure.svg", "README.md"
NOTHING = "No run is done yet.\n"
STREAM_PLACE = 10
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


@dataclass(frozen=True)
class Page:
    """One study as it is shown."""

    folder: Path
    title: str
    text: str
    """The README without its heading."""
    status: str
    """How far it has come."""


def study_folders(folder: Path) -> list[Path]:
    """The folder itself where it is a study, else all studies in it, in their order."""
    if _place(folder) is not None:
        return [folder]
    places = {path: _place(path) for path in folder.glob("[!.]*/")}
    found = {path: place for path, place in places.items() if place is not None}
    if not found:
        raise ConfigError(
            f"There is no study in {folder}.", "Name a study's folder, or one that holds studies."
        )
    return sorted(found, key=lambda path: (found[path], path.name))


def _place(folder: Path) -> int | None:
    """Where a study stands among its neighbours; None if it is none."""
    if is_stream(folder):
        return STREAM_PLACE
    return read_study(folder).place if (folder / "study.toml").is_file() else None


def write_page(folder: Path) -> Page:
    """Compute, draw and say what a study has found; all of it in the study's folder."""
    if is_stream(folder):
        return _stream_page(folder)
    study = read_study(folder)
    kind = kind_of(study)
    try:
        answer = kind.compute(study)
    except AdapterBankError as error:  # its rows or its base are not here
        if (folder / LOCK).is_file():
            raise
        return _write_readme(folder, study.title, NOTHING, f"not begun ({error.message})")
    done, known = answer["runs_done"], answer["runs_known"]
    write_record(folder / ANSWER, answer)
    (folder / FIGURE).unlink(missing_ok=True)
    if done and kind.draw and done >= known / 2:  # a few points would show something else
        kind.draw(answer, folder / FIGURE)
    found = kind.markdown(answer) if done else NOTHING
    return _write_readme(folder, study.title, found, f"{done} of {known} runs")


def _stream_page(folder: Path) -> Page:
    from adapterbank.figures.stream import draw_stream

    answer = read_answer(folder / ANSWER)
    if answer is None:
        return _write_readme(folder, "A long stream", NOTHING, "nothing yet")
    draw_stream(answer, folder / FIGURE)
    status = f"{len(answer['tasks'])} tasks"
    return _write_readme(folder, "A long stream", of_stream(answer), status)


def _write_readme(folder: Path, title: str, found: str, status: str) -> Page:
    """Put what was found between the marks; all other words are a person's."""
    path = folder / README
    picture = f"\n![{title}]({FIGURE})\n" if (folder / FIGURE).is_file() else ""
    block = f"{BEGIN}\n{found}{picture}{END}"
    before = path.read_text("utf-8") if path.is_file() else f"# {title}\n\n{BEGIN}\n{END}\n"
    begin, end = before.find(BEGIN), before.find(END)
    if not 0 <= begin < end:
        raise ConfigError(
            f"{path} has no place for the answer.", f"Put it between {BEGIN} and {END}."
        )
    text = before[:begin] + block + before[end + len(END) :]
    write_whole(path, text)
    first, _, rest = text.replace(BEGIN, "").replace(END, "").lstrip().partition("\n")
    head = first.removeprefix("# ") if first.startswith("# ") else title
    return Page(folder, head, rest.strip() + "\n", status)


def as_markdown(pages: list[Page], title: str, introduction: str, path: Path) -> str:
    """One page; pictures are named from where it stands."""
    parts = [f"# {title}\n", introduction.strip() + "\n" if introduction else ""]
    for page in pages:
        here = _relative(page.folder, path.parent)
        text = _IMAGE.sub(rf"![\1]({here}/\2)", page.text)
        parts.append(f"## {page.title}\n\n{_lower_headings(text)}")
    return "\n".join(part for part in parts if part)


def _relative(target: Path, start: Path) -> str:
    return Path(os.path.relpath(target, start)).as_posix()


def _lower_headings(text: str) -> str:
    return re.sub(r"^(#+) ", r"#\1 ", text, flags=re.MULTILINE)


def as_html(pages: list[Page], title: str, introduction: str = "") -> str:
    """One page that needs nothing else: pictures are part of it."""
    from markdown_it import MarkdownIt

    render = MarkdownIt("commonmark", {"html": False}).enable("table").render
    body = [f"<h1>{escaped(title)}</h1>", render(introduction)]
    links = "".join(
        f'<li><a href="#{page.folder.resolve().name}">{escaped(page.title)}</a></li>'
        for page in pages
    )
    body.append(f"<nav><ul>{links}</ul></nav>")
    for page in pages:
        pieces = [f'<section id="{page.folder.resolve().name}"><h2>{escaped(page.title)}</h2>']
        at = 0
        for found in _IMAGE.finditer(page.text):
            pieces.append(render(_lower_headings(page.text[at : found.start()])))
            pieces.append(_inline(page.folder / found[2], found[1]))
            at = found.end()
        body += [*pieces, render(_lower_headings(page.text[at:])), "</section>"]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{CSS}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _inline(path: Path, words: str) -> str:
    """A picture of ours as a part of the page; its own text is what matplotlib wrote."""
    if path.suffix != ".svg" or not path.is_file():
        return f"<p>{escaped(words)}</p>"
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{escaped(words)}" src="data:image/svg+xml;base64,{data}"></p>'


CSS = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: .85rem; display: block; overflow-x: auto; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; }
td[style*=right], th[style*=right] { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; background: #fff; }
section { margin-top: 3rem; }
"""
