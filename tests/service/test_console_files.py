"""The console's files: whole, small, of this service alone, and with no way for data to run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

import adapterbank.service
from adapterbank.service.gate import POLICY

CONSOLE = Path(adapterbank.service.__file__).parent / "console"
FILES = sorted(path for path in CONSOLE.rglob("*") if path.is_file())
MODULES = [path for path in FILES if path.suffix == ".js"]
MOST_BYTES = 82_000
NAMESPACE = "http://www.w3.org/2000/svg"
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.M)
EXPORT = re.compile(r"^export (?:async )?(?:const|let|class|function\*?) (\w+)", re.M)
# Ways from a string to markup, to code, or to a style that the policy refuses.
FORBIDDEN = (
    r"innerHTML", r"outerHTML", r"insertAdjacentHTML", r"document\.write", r"DOMParser",
    r"createContextualFragment", r"setHTML", r"srcdoc", r"\beval\b", r"new Function",
    r"set(?:Timeout|Interval)\(\s*[\"'`]", r"javascript:", r"\bstyle[\"']?\s*[:,]", r"cssText",
    r"\bimport\(", r"localStorage", r"document\.cookie", r"window\.(?:confirm|alert|prompt)",
)  # fmt: skip


def relative(path: Path) -> str:
    return path.relative_to(CONSOLE).as_posix()


class Page(HTMLParser):
    """The page's elements with their attributes, and what stands in scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("script", "style") and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def page() -> Page:
    found = Page()
    found.feed((CONSOLE / "index.html").read_text("utf-8"))
    return found


def imports(module: Path) -> dict[Path, list[str]]:
    """The names that a module takes from each other one."""
    found: dict[Path, list[str]] = {}
    for names, place in IMPORT.findall(module.read_text("utf-8")):
        wanted = found.setdefault((module.parent / place).resolve(), [])
        wanted += [each.strip() for each in names.split(",")]
    return found


def test_the_page_leads_to_every_file_and_to_no_other(page) -> None:
    named = [values.get("src") or values.get("href") or "" for _, values in page.elements]
    wanted = [CONSOLE / each.removeprefix("console/") for each in named if not each.startswith("#")]
    reached, left = {CONSOLE / "index.html"}, [each for each in wanted if each != CONSOLE]
    while left:
        path = left.pop()
        assert path.is_file(), path
        if path not in reached:
            reached.add(path)
            left += imports(path) if path.suffix == ".js" else []
    assert sorted(reached) == FILES


@pytest.mark.parametrize("module", MODULES, ids=relative)
def test_imports_name_what_is_exported_and_used(module: Path) -> None:
    text = module.read_text("utf-8")
    assert len(re.findall(r"^import\b", text, re.M)) == len(IMPORT.findall(text))
    body = IMPORT.sub("", text)
    for place, names in imports(module).items():
        exported = EXPORT.findall(place.read_text("utf-8"))
        assert set(names) <= set(exported), place
        assert [name for name in names if not re.search(rf"\b{name}\b", body)] == []


def test_nothing_is_exported_in_vain() -> None:
    taken = {
        (place, name)
        for each in MODULES
        for place, names in imports(each).items()
        for name in names
    }
    made = {(each, name) for each in MODULES for name in EXPORT.findall(each.read_text("utf-8"))}
    assert made == taken


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_nothing_points_elsewhere_and_nothing_runs_data(path: Path) -> None:
    text = path.read_text("utf-8")
    assert re.findall(r"https?://|\b(?:wss?|ftp)://|[\"'(]//", text.replace(NAMESPACE, "")) == []
    assert "@import" not in text
    if path.suffix == ".css":
        assert "url(" not in text
    if path.suffix == ".js":
        assert [word for word in FORBIDDEN if re.search(word, text)] == []


def test_the_page_keeps_to_the_policy(page) -> None:
    assert "script-src 'self'" in POLICY
    assert "'unsafe" not in POLICY
    assert page.inline == []
    for tag, values in page.elements:
        assert tag not in ("style", "iframe", "object", "embed", "base", "form")
        assert not [name for name in values if name.startswith("on") or name == "style"]
        assert tag != "script" or values["src"]


def test_the_page_can_be_used_by_everyone(page) -> None:
    assert ("html", {"lang": "en"}) in page.elements
    assert "width=device-width" in str(page.elements)
    assert "scalable" not in str(page.elements)
    assert any(values.get("class") == "skip" for _, values in page.elements)
    assert any(values.get("role") == "status" for _, values in page.elements)
    css = (CONSOLE / "style.css").read_text("utf-8")
    assert "prefers-color-scheme: dark" in css
    assert "prefers-reduced-motion" in css
    assert ":focus-visible" in css


def test_keys_go_into_headers_alone() -> None:
    text = "".join(path.read_text("utf-8") for path in MODULES)
    assert text.count("sessionStorage.") == 3
    assert text.count("key.get()}") == 0
    assert text.count("Bearer ${") == 1


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < MOST_BYTES
    longest = max(len(line) for path in FILES for line in path.read_text("utf-8").splitlines())
    assert longest <= 240  # a rule of the style is one line


def test_files_are_served_as_what_they_are() -> None:
    kinds = {".js": "javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
    client = TestClient(Starlette(routes=[Mount("/console", StaticFiles(directory=CONSOLE))]))
    for path in FILES:
        answer = client.get(f"/console/{relative(path)}")
        assert answer.status_code == 200
        assert kinds[path.suffix] in answer.headers["content-type"]
