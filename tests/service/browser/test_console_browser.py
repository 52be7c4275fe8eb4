"""The console in a real browser, on a real service with a tiny bank: what people do there works,
says what is wrong, loses nothing, and breaks none of the page's own rules."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from adapterbank.service.auth import Keys
from adapterbank.store.manifest import Confusion, DataRecord
from service.conftest import make_bank
from service.server import Server, served
from serving.tasks import random_task

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine"),
]
expect = playwright.expect
expect.set_options(timeout=20_000)
HOSTILE = ("<script>alert(1)</script>", "\"it's\" & <b onclick='x'>bold</b>", "\u202eturned")
WORDS = ("good", "fine", "great", "bad", "poor", "awful")
STATED = "text,label\n" + "".join(
    f"the film was {w} {i},{w}\n" for i in range(12) for w in WORDS[:4]
)
BAD = STATED + ",good\nthe meal was poor,\n"
SECONDS = 90_000  # for a job: it loads a library first


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory, encoder) -> Iterator[Server]:
    """Without keys; its tasks have names that would be markup if anything read them so."""
    folder = tmp_path_factory.mktemp("home")
    forms = {
        "pairs": {"pair": True},
        "tags": {"kind": "multi-label"},
        "stars": {"kind": "regression"},
    }
    store = make_bank(folder / "bank", encoder, {**forms, "answers": {"kind": "span"}})
    for seed in (8, 9):
        made, tensors = random_task(encoder, seed, labels=HOSTILE)
        confusion = tuple(Confusion(a, b, 3) for a in HOSTILE for b in HOSTILE)
        data = DataRecord({"train": 30, "dev": 9}, "a" * 64, dict.fromkeys(HOSTILE, 10))
        note = f"Seed {seed}. {HOSTILE[0]}"
        store.publish("hostile", replace(made, confusion=confusion, data=data, note=note), tensors)
    with served(folder / "bank", folder) as server:
        yield server


@pytest.fixture(scope="module")
def locked(tmp_path_factory, encoder) -> Iterator[tuple[Server, dict[str, str]]]:
    """With keys."""
    folder = tmp_path_factory.mktemp("locked")
    keys = Keys(make_bank(folder / "bank", encoder, {"plain": {}}))
    made = {"train": keys.create("default", "train"), "read": keys.create("default", "read")}
    with served(folder / "bank", folder) as server:
        yield server, made


@contextmanager
def watched(browser, url: str, allowed: str = "", **context) -> Iterator:
    """A page that must not complain: no error of a script, none of the content's policy."""
    with browser.new_context(base_url=url, **context) as made:
        page, complaints = made.new_page(), []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        page.on("request", lambda asked: asked.url.startswith(url) or complaints.append(asked.url))
        page.set_default_timeout(20_000)
        yield page
        assert [each for each in complaints if not (allowed and re.search(allowed, each))] == []


@pytest.fixture
def page(browser, home) -> Iterator:
    with watched(browser, home.url) as page:
        yield page


def choose(page, folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    page.goto("/#/new")
    page.locator(".drop input").set_input_files(folder / name)
    expect(page.get_by_role("heading", name="The task")).to_be_visible(timeout=60_000)


def heading(page, name: str | re.Pattern[str]) -> None:
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()


def test_the_bank_at_a_glance(page) -> None:
    page.goto("/")
    heading(page, "The bank")
    expect(page.locator(".tasks tbody tr")).to_have_count(5)
    expect(page.locator(".comparison")).to_contain_text("One model per task")
    page.get_by_label("Search").fill("regression")
    expect(page.locator(".tasks tbody tr")).to_have_count(1)
    page.get_by_role("link", name="stars").click()
    heading(page, "stars@1")
    page.go_back()
    expect(page.get_by_label("Search")).to_have_value("regression")


def test_words_of_others_stay_words(page) -> None:
    page.goto("/#/task/hostile")
    heading(page, "hostile@2")
    page.get_by_label("Text").fill(HOSTILE[0])
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".answer .bars tr")).to_have_count(3)
    for label in HOSTILE[:2]:
        expect(page.locator(".answer .bars")).to_contain_text(label)
        expect(page.locator(".lead")).to_contain_text(label)
    expect(page.locator(".confusion")).to_contain_text(HOSTILE[0][:10])
    assert page.locator("main script, main b, main [style]:not(svg)").count() == 0
    assert "\u202e" not in page.locator("main").inner_text()


def test_every_kind_of_task_answers(page) -> None:
    for task, texts in {
        "pairs": {"First text": "the film", "Second text": "the book"},
        "tags": {"Text": "the film was good"},
        "stars": {"Text": "the film was good"},
        "answers": {
            "Question": "was it good",
            "Text with the answer": "the film was good 👍 it was",
        },
    }.items():
        page.goto(f"/#/task/{task}")
        heading(page, f"{task}@1")
        for label, text in texts.items():
            page.get_by_label(label, exact=True).fill(text)
        page.keyboard.press("Control+Enter")
        expect(page.locator(".answer .verdict")).to_be_visible()


def test_an_answer_marks_its_place(page) -> None:
    text = "😀 the film was good"
    found = {"answer": "film", "start": 6, "end": 10, "score": 0.75}
    body = json.dumps({"task": "answers", "version": 1, "predictions": [found]})
    page.route("**/v1/tasks/answers/predict", lambda route: route.fulfill(body=body))
    page.goto("/#/task/answers")
    page.get_by_label("Question").fill("what")
    page.get_by_label("Text with the answer").fill(text)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("mark")).to_have_text("film")
    expect(page.locator("blockquote")).to_have_text(text)


def test_versions_roll_back_and_tasks_come_back(page) -> None:
    page.goto("/#/task/hostile")
    page.get_by_role("button", name="Roll back to this").click()
    expect(page.get_by_role("button", name="No")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Roll back to this")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Roll back", exact=True).click()
    expect(page.locator("#said")).to_contain_text("Version 1 of hostile is the current one")
    heading(page, "hostile@1")
    page.get_by_role("button", name="Remove the task").click()
    page.get_by_role("button", name="Remove it").click()
    heading(page, "hostile is out of the bank")
    page.get_by_role("button", name="Put it back").click()
    heading(page, "hostile@1")


def test_package_and_card(page, tmp_path: Path) -> None:
    page.goto("/#/task/hostile@2")
    with page.expect_download() as package:
        page.get_by_role("link", name="Download the package").click()
    assert package.value.suggested_filename == "hostile-2.tar.gz"
    with page.context.expect_page() as card:
        page.get_by_role("link", name="Open the card").click()
    expect(card.value.get_by_role("heading", level=1)).to_have_text("hostile@2")


def test_a_file_becomes_a_task(page, tmp_path: Path) -> None:
    choose(page, tmp_path, "My Films.csv", BAD)
    expect(page.get_by_label("Name")).to_have_value("my-films")
    expect(page.locator(".problems tr")).to_have_count(2)
    expect(page.locator(".problems")).to_contain_text("Row 49")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("2 rows cannot be used")
    page.get_by_label("Leave the 2 bad rows out").check()
    page.get_by_text("Settings").click()
    page.get_by_label("Epochs").fill("2")
    page.get_by_label("Size").fill("4")
    page.get_by_label("Note").fill("Films <i>only</i>.")
    page.get_by_role("button", name="Start").click()
    heading(page, "Learning my-films")
    expect(page.get_by_text("It is done.")).to_be_visible(timeout=SECONDS)
    expect(page.locator(".curve svg[role=img]")).to_have_count(2)
    assert "of 2 epochs" in str(page.locator(".curve svg").last.get_attribute("aria-label"))
    page.get_by_role("link", name="Open the task").click()
    heading(page, "my-films@1")
    expect(page.get_by_text("Films <i>only</i>.")).to_be_visible()
    page.goto("/#/jobs")
    expect(page.get_by_role("row", name=re.compile("my-films.*done"))).to_be_visible()


def test_how_a_file_is_read_can_be_changed(page, tmp_path: Path) -> None:
    rows = "".join(
        f"a{i},the film was {w} {i},{i % 7}.5,{w}\n" for i in range(12) for w in WORDS[:3]
    )
    choose(page, tmp_path, "rows.csv", "id,text,score,mood\n" + rows)
    expect(page.get_by_label("Label", exact=True)).to_have_value("score")
    expect(page.get_by_role("status").filter(has_text="A number a row")).to_be_visible()
    page.get_by_label("Label", exact=True).focus()
    page.get_by_label("Label", exact=True).select_option("mood")
    expect(page.get_by_role("status").filter(has_text="One label a row, 3 labels")).to_be_visible()
    expect(page.get_by_label("Label", exact=True)).to_be_focused()
    page.get_by_label("Second text", exact=True).select_option("id")
    expect(page.locator(".preview th small")).to_have_text(["second text", "text", "label"])
    page.get_by_label("Label", exact=True).select_option("text")
    expect(page.get_by_label("Text", exact=True)).to_have_value("mood")


def test_a_file_that_cannot_be_read_is_said(browser, home, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(STATED.replace("fine", "finé").encode("latin-1"))
    with watched(browser, home.url, "status of 422") as page:
        page.goto("/#/new")
        page.locator(".drop input").set_input_files(tmp_path / "rows.csv")
        expect(page.get_by_role("alert")).to_contain_text("utf-8", timeout=60_000)
        page.get_by_label("Encoding").select_option("iso-8859-1")
        expect(page.locator(".bars")).to_contain_text("finé", timeout=60_000)


def test_a_job_can_be_cancelled(page, tmp_path: Path) -> None:
    choose(page, tmp_path, "long.csv", STATED)
    page.get_by_text("Settings").click()
    page.get_by_label("Epochs").fill("1000")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("It learns.")).to_be_visible(timeout=SECONDS)
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel the job").click()
    page.get_by_role("button", name="End it").click()
    expect(page.get_by_text("It was cancelled.")).to_be_visible(timeout=30_000)
    page.get_by_role("link", name="Back to the file").click()
    expect(page.get_by_label("Name")).to_have_value("long")


def test_a_job_that_fails_says_why(page, tmp_path: Path) -> None:
    choose(page, tmp_path, "few.csv", STATED)
    (tmp_path / "dev.csv").write_text("other,columns\na,b\n")
    page.get_by_text("Settings").click()
    page.get_by_label("Rows to select by").set_input_files(tmp_path / "dev.csv")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("It failed.")).to_be_visible(timeout=SECONDS)
    expect(page.get_by_role("alert")).to_contain_text("there is no column 'text'")


JOB = {
    "id": "7",
    "task": "spam",
    "state": "running",
    "created": 1e9,
    "started": 1e9,
    "ended": None,
    "result": None,
    "error": None,
}
PLAN = {"event": "plan", "steps": 4, "epochs": 1, "seconds": 8.0}


def test_a_job_that_has_learnt_nothing_says_so(page) -> None:
    message = f"All 9 rows that were scored are answered '{HOSTILE[0]}': nothing was learnt."
    told = [json.dumps(each) for each in (PLAN, {"event": "warned", "message": message})]
    over = json.dumps(JOB | {"state": "cancelled", "ended": 1e9 + 9})
    text = "".join(f"id: {i}\ndata: {each}\n\n" for i, each in enumerate(told))
    text += f"event: job\ndata: {over}\n\n"
    page.route("**/v1/jobs/7", lambda route: route.fulfill(body=json.dumps(JOB)))
    page.route(
        "**/v1/jobs/7/events",
        lambda route: route.fulfill(body=text, content_type="text/event-stream"),
    )
    page.goto("/#/job/7")
    expect(page.locator("ul.warnings li")).to_have_text([message])


def test_a_broken_stream_is_taken_up_where_it_broke(page) -> None:
    steps = [{"event": "step", "step": i, "steps": 4, "loss": 1 / i} for i in (1, 2, 3)]
    asked: list[str | None] = []

    def follow(route) -> None:
        asked.append(route.request.headers.get("last-event-id"))
        events = [json.dumps(PLAN), *map(json.dumps, steps)]
        parts = (events[:2], events[2:])[len(asked) > 1]
        first = 0 if len(asked) == 1 else 2
        text = "".join(f"id: {first + i}\ndata: {each}\n\n" for i, each in enumerate(parts))
        over = JOB | ({"state": "cancelled", "ended": 1e9 + 9} if len(asked) > 1 else {})
        text += f": still here\n\nevent: job\ndata: {json.dumps(over)}\n\n"
        route.fulfill(body=text, content_type="text/event-stream")

    page.route("**/v1/jobs/7", lambda route: route.fulfill(body=json.dumps(JOB)))
    page.route("**/v1/jobs/7/events", follow)
    page.goto("/#/job/7")
    expect(page.get_by_text("It was cancelled.")).to_be_visible()
    assert asked == [None, "1"]
    label = page.locator(".curve svg").get_attribute("aria-label")
    assert label == "Loss after 3 of 4 steps: 1 at first, 0.333 now."


def test_one_text_through_several_tasks(page) -> None:
    page.goto("/#/try")
    heading(page, "Try")
    page.get_by_role("button", name="Choose none").click()
    for task in ("tags", "stars", "pairs", "answers", "hostile"):
        page.get_by_label(task, exact=True).check()
    page.get_by_label("Text", exact=True).fill("the film was good")
    page.get_by_role("button", name="Ask the chosen tasks").click()
    expect(page.locator(".answers section")).to_have_count(5)
    expect(page.locator(".answers").get_by_text("It reads two texts")).to_have_count(2)
    page.get_by_text("A second text").click()
    page.get_by_label("Second text", exact=True).fill("the book was bad")
    page.get_by_role("button", name="Ask the chosen tasks").click()
    expect(page.locator(".answers .verdict")).to_have_count(5)
    page.get_by_role("button", name="Which task is it for?").click()
    heading2 = page.get_by_role("heading", name="Which task it is for")
    expect(heading2).to_be_visible()
    page.goto("/#/")
    heading(page, "The bank")
    page.goto("/#/try")
    expect(page.get_by_label("Text", exact=True)).to_have_value("the film was good")


def summary(name: str) -> dict:
    scores = {"dev": {"accuracy": 0.9}, "test": {}, "metric": "accuracy"}
    size = {"trained_parameters": 300_000, "percent_of_base": 1.5, "bytes": 1_200_000}
    facts = {"version": 1, "versions": [1], "kind": "classification", "labels": ["a", "b"]}
    return {
        "task": name,
        "method": "adapters",
        "published": "2026-01-31T12:00:00Z",
        **scores,
        **size,
        **facts,
    }


def test_a_thousand_tasks_and_none(page) -> None:
    names = [f"task-{i:04}" for i in range(1_234)]
    asked = []

    def listed(route) -> None:
        query = dict(re.findall(r"(\w+)=([^&]*)", route.request.url))
        asked.append(query["after"])
        left = [name for name in names if name > query["after"]]
        some = left[: int(query["limit"])]
        answer = {
            "base": {"name": "tiny", "fingerprint": "0"},
            "damaged": [],
            "tasks": [*map(summary, some)],
        }
        answer["next"] = some[-1] if len(left) > len(some) else None
        route.fulfill(body=json.dumps(answer))

    page.route("**/v1/tasks?*", listed)
    page.goto("/")
    expect(page.get_by_role("status").filter(has_text="1,234 tasks")).to_be_visible()
    assert len(asked) == 3
    expect(page.locator(".tasks tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".tasks tbody tr")).to_have_count(250)
    page.get_by_label("Search").fill("task-0777")
    expect(page.locator(".tasks tbody tr")).to_have_count(1)
    names.clear()
    page.reload()
    heading(page, "The bank is empty")
    expect(page.locator("main").get_by_role("link", name="New task")).to_be_visible()


def test_keys(browser, locked, tmp_path: Path) -> None:
    server, keys = locked
    with watched(browser, server.url, "status of 40[13]") as page:
        page.goto("/#/task/plain")
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("This needs a key.")
        dialog.get_by_label("Key").fill(f"{keys['read'][:-1]}?")
        dialog.get_by_role("button", name="Sign in").click()
        expect(dialog).to_be_visible()  # such a key cannot be
        dialog.get_by_label("Key").fill(f"{keys['read'][:-2]}zz")
        dialog.get_by_role("button", name="Sign in").click()
        expect(dialog.get_by_role("alert")).to_contain_text("This key is not known.")
        dialog.get_by_label("Key").fill(f" {keys['read']} ")
        page.keyboard.press("Enter")
        heading(page, "plain@1")
        with page.expect_download() as card:
            page.get_by_role("button", name="Download the card").click()
        assert "plain@1" in Path(card.value.path()).read_text()

        (tmp_path / "rows.csv").write_text(STATED)
        page.goto("/#/new")
        page.locator(".drop input").set_input_files(tmp_path / "rows.csv")
        said = page.get_by_role("alert")
        expect(said).to_contain_text("This needs a key of the role train, and this one has read.")
        assert keys["read"] not in page.url
        page.get_by_role("button", name="Forget key").click()
        expect(page.get_by_role("button", name="Forget key")).to_be_hidden()
        page.goto("/#/jobs")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("alert")).to_contain_text("This needs a key.")


def test_what_was_typed_outlives_a_service_that_is_gone(browser, home) -> None:
    with watched(browser, home.url, "ERR_FAILED") as page:
        page.goto("/#/task/stars")
        page.get_by_label("Text").fill("a long text")
        page.route("**/predict", lambda route: route.abort())
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached.")
        expect(page.get_by_label("Text")).to_have_value("a long text")
        page.goto("/#/")
        heading(page, "The bank")
        page.goto("/#/task/stars")
        expect(page.get_by_label("Text")).to_have_value("a long text")


def test_the_keyboard_is_enough(page) -> None:
    page.goto("/")
    heading(page, "The bank")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("link", name="Try").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Try")).to_be_focused()
    expect(page.get_by_role("link", name="Try")).to_have_attribute("aria-current", "page")
    assert page.title() == "Try · AdapterBank"


@pytest.mark.parametrize("width", [320, 768])
def test_nothing_is_wider_than_the_screen(browser, home, tmp_path: Path, width: int) -> None:
    size: dict[str, Callable | dict] = {"viewport": {"width": width, "height": 700}}
    with watched(browser, home.url, **size) as page:
        for place in ("", "task/hostile", "task/answers", "try", "jobs", "new"):
            page.goto(f"/#/{place}")
            page.locator("main:not([aria-busy]) h1").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, place
        choose(page, tmp_path, "rows.csv", BAD)
        page.get_by_text("Settings").click()
        page.get_by_text("The first 20 rows").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
