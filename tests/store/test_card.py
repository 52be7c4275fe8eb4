"""Cards: whatever a manifest holds, a sound page with exactly its numbers and nothing that runs."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapterbank.errors import ConfigError
from adapterbank.model.config import AdapterConfig
from adapterbank.store.card import card, confusion_svg, most_confused
from adapterbank.store.confusion import HUE, shade
from adapterbank.store.manifest import (
    BaseRecord,
    Confusion,
    DataRecord,
    Manifest,
    MethodRecord,
    ParameterRecord,
)
from adapterbank.store.record import Version
from adapterbank.tasks.task import KINDS

SVG = "{http://www.w3.org/2000/svg}"
VERSIONS = [
    Version(1, "d" * 64, 2_345_678, "2026-01-10T10:00:00Z"),
    Version(3, "e" * 64, 999, "2026-01-31T12:00:05Z"),
]


def confusions(*rows: tuple[str, str, int]) -> tuple[Confusion, ...]:
    return tuple(Confusion(*row) for row in rows)


def manifest(**changes: Any) -> Manifest:
    made = Manifest(
        task="spam",
        created="2026-01-31T12:00:00Z",
        kind="classification",
        labels=("no", "yes", "maybe"),
        pair=False,
        metric="accuracy",
        dev={"accuracy": 0.9375, "macro_f1": 0.8765432},
        test={"accuracy": 0.91234567, "macro_f1": 1 / 3},
        method=MethodRecord("adapters"),
        adapter=AdapterConfig(size=48),
        pooling="mean",
        max_length=77,
        recipe={"learning_rate": 0.002, "epochs": 3, "schedule": [1, 2], "seed": None},
        data=DataRecord(
            {"train": 1234, "dev": 400, "test": 350},
            "abcdef012345" + "0" * 52,
            {"no": 900, "yes": 315, "maybe": 19},
        ),
        base=BaseRecord("minilm", "543210fedcba" + "0" * 52),
        parameters=ParameterRecord(612_864, 2.701234, 5.754321),
        precision="fp16",
        origin="spam@2",
        confusion=confusions(
            ("no", "no", 260),
            ("no", "yes", 20),
            ("yes", "yes", 50),
            ("maybe", "maybe", 9),
            ("maybe", "no", 11),
        ),
        temperature=1.32145,
        baselines={"n-grams": {"accuracy": 0.81}, "frozen features": {"accuracy": 0.85125}},
        columns={"text": "message", "label": "is it?"},
        software={"torch": "2.13.0"},
        weights_sha256="c" * 64,
        weights_bytes=1_225_728,
    )
    return replace(made, **changes)


def of_kind(kind: str, **changes: Any) -> Manifest:
    if kind in ("classification", "multi-label"):
        return manifest(kind=kind, **{"confusion": (), **changes})
    data = DataRecord({"train": 1234, "dev": 400, "test": 350}, "a" * 64)
    return manifest(kind=kind, **{"labels": (), "confusion": (), "data": data, **changes})


class Page(HTMLParser):
    """A parsed page: its elements, attributes and words. Every tag must be closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.notes: list[str] = []
        assert source.startswith("<!doctype html>\n")
        self.feed(source)
        self.close()
        assert self.open == []
        self.text = re.sub(r"\s+", " ", "".join(self.words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if tag != "meta":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
        elif tag in ("p", "li", "pre"):
            self.notes.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_data(self, data: str) -> None:
        hovering = "svg" in self.open and self.open[-1] == "title"
        if hovering or self.open[-1:] == ["style"]:
            return
        self.words.append(data)
        if self.open and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] += data
        if {"p", "li", "pre"} & set(self.open):
            self.notes[-1] += data

    def values(self, key: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == key]


def page(made: Manifest, reference: str = "spam@3", versions: Iterable[Version] = ()) -> Page:
    return Page(card(made, reference=reference, versions=list(versions)))


def picture(made: Manifest) -> ET.Element:
    return ET.fromstring(confusion_svg(made))  # noqa: S314 - what we wrote ourselves


def cells(made: Manifest) -> dict[str, str]:
    """The counts in the picture by what is said of them."""
    return {
        group.findtext(f"{SVG}title", ""): group.findtext(f"{SVG}text", "")
        for group in picture(made).iter(f"{SVG}g")
    }


# --- the numbers are the manifest's


def test_scores_stand_beside_the_baselines() -> None:
    found = page(manifest())
    assert found.rows[0] == ["", "this task", "n-grams", "frozen features", "this task, on dev"]
    assert found.rows[1] == [
        "accuracyshare of rows with the right label; selection went by it",
        "0.912",
        "0.810",
        "0.851",
        "0.938",
    ]
    assert found.rows[2][1:] == ["0.333", "", "", "0.877"]
    assert (
        "On the 350 rows of test, rows that this run did not train on; spam@2 may have, "
        "beside simpler methods on the same rows." in found.notes
    )


def test_rows_that_nothing_saw_are_those_of_a_fresh_start() -> None:
    assert "350 rows of test, rows that nothing saw before" in page(manifest(origin="")).text


def test_every_rounded_number_is_there_exactly() -> None:
    made = manifest()
    exact = [value for tag, key, value in page(made).attributes if (tag, key) == ("data", "value")]
    assert sorted(set(map(float, exact))) == sorted(
        [
            *made.dev.values(),
            *made.test.values(),
            0.81,
            0.85125,
            made.temperature,
            made.parameters.percent_of_base,
            made.parameters.percent_without_embeddings,
        ]
    )


def test_the_head_says_what_it_is() -> None:
    found = page(manifest())
    assert "spam@3" in found.text
    assert found.notes[:2] == [
        "Gives a text one of 3 labels: no, yes, maybe.",
        "Classification on minilm, made 2026-01-31, 12:00 UTC.",
    ]
    for figure in ("accuracy on test0.912", "rows to learn from1,234", "of weights1.2 MB"):
        assert figure in found.text
    assert found.values("datetime") == ["2026-01-31T12:00:00Z"]


def test_what_it_is_made_of() -> None:
    made = manifest()
    rows = {row[0]: row[1] for row in page(made).rows if len(row) == 2}
    assert rows == {
        "Base": "minilm 543210fedcba",
        "Method": "adapters of size 48",
        "Trained parameters": "612,864: 2.70 % of the base, 5.75 % without its embeddings",
        "Weights": "1,225,728 bytes, fp16",
        "Pooling": "mean",
        "Calibration": "temperature 1.321, fitted on dev",
        "Went on from": "spam@2",
        "Rows": "1,234 train, 400 dev, 350 test",
        "Columns": "text: message, label: is it?",
        "Digest": "abcdef012345",
        "learning rate": "0.002",
        "epochs": "3",
        "schedule": "[1, 2]",
        "seed": "null",
        "torch": "2.13.0",
    }
    assert {made.base.fingerprint, made.data.sha256} <= set(page(made).values("title"))


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        (
            {"adapter": AdapterConfig(size=1000, layers=(4, 5))},
            "adapters of size 1,000, in 2 layers",
        ),
        ({"adapter": None, "method": MethodRecord("top-k", 3)}, "the top 3 layers"),
        ({"adapter": None, "method": MethodRecord("full")}, "full"),
    ],
)
def test_the_method_in_words(changes: dict[str, Any], method: str) -> None:
    assert ["Method", method] in page(manifest(**changes)).rows


def test_versions_are_listed_newest_first() -> None:
    assert page(manifest(), versions=VERSIONS).rows[-3:] == [
        ["version", "published", "size"],
        ["3, this one", "2026-01-31", "999 bytes"],
        ["1", "2026-01-10", "2.3 MB"],
    ]
    many = [Version(i, "d" * 64, 54_321, "2026-01-10T10:00:00Z") for i in range(1, 101)]
    rows = page(manifest(), versions=many).rows
    assert rows[-1] == ["… and 60 more", "", ""]
    assert rows[-2] == ["61", "2026-01-10", "54 kB"]
    assert "Versions" not in page(manifest()).text


def test_without_a_test_split_it_says_so() -> None:
    found = page(manifest(test={}))
    assert (
        "On the 400 rows of dev, beside simpler methods on the same rows. There was no test split: "
        "the dev score was used for selection, so expect somewhat less on new texts." in found.notes
    )
    assert found.rows[0] == ["", "this task", "n-grams", "frozen features"]
    assert found.rows[1][1:] == ["0.938", "0.810", "0.851"]
    assert "accuracy on dev0.938" in found.text
    assert "nothing saw before" not in found.text
    assert "Rows of dev by true" in found.text


def test_the_positive_label_is_named() -> None:
    found = page(manifest(positive="yes", test={"f1": 0.5}, metric="f1"))
    assert found.rows[1][0] == "F1F1 of yes; selection went by it"


# --- kinds


@pytest.mark.parametrize(
    ("kind", "pair", "does", "words", "inputs"),
    [
        ("classification", False, "Gives a text one of 3 labels", '"your text"', ["your text"]),
        (
            "multi-label",
            True,
            "Gives a pair of texts any number of 3 labels",
            '"your text" "another text"',
            [{"text_a": "your text", "text_b": "another text"}],
        ),
        ("regression", False, "Gives a text a number.", '"your text"', ["your text"]),
        (
            "span",
            True,
            "Finds the answer to a question in a text.",
            '"your question" "your text"',
            [{"question": "your question", "context": "your text"}],
        ),
    ],
)
def test_each_kind_and_how_to_use_it(
    kind: str, pair: bool, does: str, words: str, inputs: list[Any]
) -> None:
    found = page(of_kind(kind, pair=pair), "shop/spam@3")
    assert found.notes[0].startswith(does)
    line, python, http = found.notes[-3:]
    assert line == f"adapterbank predict shop/spam@3 {words}"
    given = json.dumps(inputs)
    assert python == (
        f'from adapterbank import Bank\n\nBank.open("bank").predict("shop/spam", {given})'
    )
    request, key, empty, body = http.split("\n")
    assert (request, key, empty) == (
        "POST /v1/tasks/spam/predict",
        "Authorization: Bearer KEY",
        "",
    )
    assert json.loads(body) == {"inputs": inputs}
    assert {"h1", "h2", "h3"} <= set(found.tags)
    assert found.tags.count("h1") == 1
    assert ("Calibration" in found.text) == (kind in ("classification", "multi-label"))


def test_a_span_task_tells_its_threshold_and_its_windows() -> None:
    found = page(of_kind("span", threshold=-1.25))
    assert ["No answer", "from a margin of −1.250, fitted on dev"] in found.rows
    assert "Long contexts are read through windows of 77 tokens." in found.notes


def test_a_reference_must_be_one() -> None:
    with pytest.raises(ConfigError, match="is not a task's name"):
        card(manifest(), reference="<script>")
    assert "spam@" not in page(manifest(origin=""), "spam").text


# --- labels, confusion, limits


def test_limits() -> None:
    assert [
        note for note in page(manifest()).notes if note.startswith(("Texts", "Labels", "The"))
    ] == [
        "Texts are cut after 77 tokens; what comes later is not read.",
        "Labels with fewer than 20 rows to learn from: maybe (19).",
        "Labels of which fewer than half the rows of test were found: maybe (9 of 20).",
    ]
    data = DataRecord({"train": 10, "test": 199}, "", dict.fromkeys("abcdefg", 1))
    found = page(manifest(labels=tuple("abcdefg"), confusion=(), data=data, pair=True)).notes
    assert "Pairs of texts are cut after 77 tokens; what comes later is not read." in found
    assert "The scores rest on 199 rows, and would differ on others." in found
    assert (
        "Labels with fewer than 20 rows to learn from: a (1), b (1), c (1), d (1), e (1) "
        "… and 2 more." in found
    )
    assert "The data it was trained on is not known: it was brought in." in found


def test_recall_is_told_only_where_every_row_is_counted() -> None:
    some = tuple(each for each in manifest().confusion if each.label != "yes")
    assert not [note for note in page(manifest(confusion=some)).notes if "were found" in note]


def many(labels: int) -> Manifest:
    names = tuple(f"label {i:03}" for i in range(labels))
    pairs = [(a, b, 10 * i + 1) for i, (a, b) in enumerate(pairwise(names))]
    balance = {name: 5 * i for i, name in enumerate(names)}
    return manifest(
        labels=names,
        confusion=confusions(*((name, name, 50) for name in names), *pairs),
        data=DataRecord({"train": sum(balance.values())}, "a" * 64, balance),
    )


def test_balance_is_drawn_by_size() -> None:
    found = page(manifest())
    assert [row for row in found.rows if row[1:2] == [""]][-3:] == [
        ["no", "", "900"],
        ["yes", "", "315"],
        ["maybe", "", "19"],
    ]
    bars = [value for tag, key, value in found.attributes if (tag, key) == ("rect", "width")][-3:]
    assert [float(bar) for bar in bars] == [100, 35, 2.111]


@pytest.mark.parametrize(("labels", "shown", "more"), [(30, 30, 0), (31, 15, 16), (5000, 15, 4985)])
def test_many_labels_are_cut_to_the_largest(labels: int, shown: int, more: int) -> None:
    rows = page(many(labels)).rows
    bars = [row for row in rows if len(row) == 3 and row[0].startswith("label") and row[1] == ""]
    assert len(bars) == shown
    assert bars[0] == [f"label {labels - 1:03}", "", f"{5 * (labels - 1):,}"]
    assert ([f"… and {more:,} more", "", ""] in rows) == (more > 0)


def test_many_labels_have_pairs_in_place_of_a_picture() -> None:
    assert confusion_svg(many(20))
    assert confusion_svg(many(21)) == ""
    rows = page(many(21)).rows
    first = rows.index(["true", "predicted", "rows"]) + 1
    assert rows[first : first + 2] == [
        ["label 019", "label 020", "191"],
        ["label 018", "label 019", "181"],
    ]
    assert rows[first + 14] == ["label 005", "label 006", "51"]
    assert rows[first + 15][1] == ""


def test_most_confused() -> None:
    pairs = confusions(("b", "a", 3), ("a", "a", 9), ("a", "b", 3), ("a", "c", 4), ("c", "a", 1))
    assert most_confused(pairs, 3) == [
        Confusion("a", "c", 4),
        Confusion("a", "b", 3),
        Confusion("b", "a", 3),
    ]
    assert most_confused((), 3) == []


def test_the_picture_holds_the_counts_and_shares() -> None:
    assert cells(manifest()) == {
        "true: no\npredicted: no\nrows: 260 (92.9%)": "260",
        "true: no\npredicted: yes\nrows: 20 (7.1%)": "20",
        "true: yes\npredicted: yes\nrows: 50 (100.0%)": "50",
        "true: maybe\npredicted: no\nrows: 11 (55.0%)": "11",
        "true: maybe\npredicted: maybe\nrows: 9 (45.0%)": "9",
    }
    large = confusions(("no", "no", 12_345), ("no", "yes", 9_999), ("yes", "yes", 7_654_321))
    assert list(cells(manifest(confusion=large)).values()) == ["12k", "9999", "7M"]


def test_rows_are_true_and_columns_predicted() -> None:
    root = picture(manifest(confusion=confusions(("no", "maybe", 7))))
    found: dict[str, list[tuple[str, str]]] = {}
    for each in root.iter(f"{SVG}text"):
        found.setdefault(each.text or "", []).append((each.get("x", ""), each.get("y", "")))
    row, column = found["no"][0], found["maybe"][1]  # beside the rows, then above the columns
    assert found["7"] == [(column[0], row[1])]
    (cell,) = (each for each in root.iter(f"{SVG}rect") if each.get("class") == "cell")
    x, y, width, height = (float(cell.get(key, 0)) for key in ("x", "y", "width", "height"))
    assert float(row[0]) < x < float(column[0]) < x + width
    assert float(column[1]) < y < float(row[1]) < y + height


def test_the_picture_has_a_name_and_fits() -> None:
    for made in (manifest(), many(7), many(20), manifest(labels=("no", "yes", "分" * 99))):
        root = picture(made)
        assert root.get("role") == "img"
        says = f"Confusion matrix of {len(made.labels)} labels: true by predicted"
        assert root.get("aria-label") == root[0].text == says
        assert root[0].tag == f"{SVG}title"
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        assert width < 800
        rects = list(root.iter(f"{SVG}rect"))
        assert len(rects) == len(made.labels) ** 2
        for rect in rects:
            x, y, w, h = (float(rect.get(key, 0)) for key in ("x", "y", "width", "height"))
            assert 0 < x < x + w < width
            assert 0 < y < y + h < height


def test_no_confusion_no_picture() -> None:
    assert confusion_svg(manifest(confusion=())) == ""
    assert "Where it errs" not in page(manifest(confusion=())).text


def luminance(colour: Iterable[float]) -> float:
    parts = [c / 3294.6 if c <= 10.31 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(part * weight for part, weight in zip(parts, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one: Iterable[float], other: Iterable[float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def parts(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def test_all_writing_can_be_read_in_light_and_dark() -> None:
    style = files("adapterbank.store").joinpath("card.css").read_text("utf-8")
    schemes = [dict(re.findall(r"--(\w+): (#\w{6});", part)) for part in style.split("@media")[:2]]
    assert schemes[0]["hue"] == HUE
    for scheme in schemes:
        paper, ink, hue = (parts(scheme[name]) for name in ("paper", "ink", "hue"))
        for ground in ("paper", "wash"):
            assert contrast(ink, parts(scheme[ground])) > 12
            assert contrast(parts(scheme["quiet"]), parts(scheme[ground])) > 4.5
        for percent in range(1, 101):
            full = shade(percent / 100)
            cell = [full * a + (1 - full) * b for a, b in zip(hue, paper, strict=True)]
            assert contrast(paper if percent >= 50 else ink, cell) > 4.5, percent


# --- hostile manifests

ELEMENTS = (
    "html head meta title style body main header section footer h1 h2 h3 p span bdi small time dl "
    "div dt dd data table thead tbody tr th td figure figcaption svg g rect text ul li pre code"
)
ATTRIBUTES = (
    "lang charset name content class title datetime value scope role aria-label aria-hidden xmlns "
    "viewbox width height x y rx fill fill-opacity font-family font-size font-style text-anchor "
    "transform preserveaspectratio"
)
EVIL = (
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "' onload='alert(1)",
    "</title></style><img src=x onerror=alert(1)>",
    "]]><!-- &lt;b&gt; &amp;",
    "مرحبا بالعالم",
    "\u202eevil\u2066",
    "nul\x00 bell\x07 \ud800 \ufffe",
    "x" * 512,
)


def check(made: Manifest) -> Page:
    """A sound page of nothing but plain elements, and a sound picture."""
    source = card(made, reference="spam@3", versions=VERSIONS)
    source.encode()
    found = Page(source)
    assert set(found.tags) <= set(ELEMENTS.split())
    assert {key for _, key, _ in found.attributes} <= set(ATTRIBUTES.split())
    if confusion_svg(made):
        picture(made)
    return found


def test_hostile_words_are_only_words() -> None:
    pairs = [(a, b, 1 + i * j) for i, a in enumerate(EVIL) for j, b in enumerate(EVIL)]
    made = manifest(
        labels=EVIL,
        positive=EVIL[0],
        metric=EVIL[0],
        dev=dict.fromkeys(EVIL, 0.5),
        test=dict.fromkeys((*EVIL, "f1"), 0.25),
        baselines=dict.fromkeys(EVIL, dict.fromkeys(EVIL, 0.125)),
        recipe={each: [each, {each: 1}] for each in EVIL},
        data=DataRecord(dict.fromkeys(EVIL, 9), "", dict.fromkeys(EVIL, 3)),
        base=BaseRecord(EVIL[0], "b" * 64),
        columns={"text": EVIL[1], "label": EVIL[3]},
        software=dict(zip(EVIL, reversed(EVIL), strict=True)),
        origin=EVIL[3],
        confusion=confusions(*pairs),
    )
    for kind in KINDS:
        found = check(replace(made, kind=kind))
        assert EVIL[0] in found.text
        assert found.text.count("مرحبا بالعالم") > 5
        assert "x" * 512 in found.values("title")
        assert "x" * 39 + "…" in found.text
        assert "x" * 81 not in found.text  # whole only on hovering
        assert not set("\x00\x07\u202e\u2066\ud800") & set(found.text)
    titles = [each.text for each in picture(made).iter(f"{SVG}title")]
    assert "x" * 512 in titles
    assert f"true: {EVIL[0]}\npredicted: {EVIL[1]}\nrows: 1 (11.1%)" in titles


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    source = card(manifest(), reference="spam@3", versions=VERSIONS)
    assert "http://www.w3.org/2000/svg" in source  # a name, not an address that is asked
    rest = source.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"//|url\(|@import|<script|<link|javascript:|src=|href=|\sstyle=", rest)
    found = Page(source)
    assert ("html", "lang", "en") in found.attributes
    assert ("meta", "content", "width=device-width, initial-scale=1") in found.attributes


def test_numbers_beyond_reason_do_no_harm() -> None:
    huge = 10**4299
    made = manifest(
        data=DataRecord({"train": huge, "test": 2 * huge}, "", {"no": huge, "yes": 1, "maybe": 0}),
        confusion=confusions(("no", "no", huge), ("no", "yes", huge), ("yes", "yes", -huge)),
        parameters=ParameterRecord(huge, 1e308, -1e-308),
        weights_bytes=huge,
        max_length=huge,
        test={"accuracy": 1e300},
        temperature=5e-324,
    )
    found = check(made)
    assert "over 10¹⁵ rows of test" in found.text
    assert "1e+300" in found.rows[1]
    check(replace(made, labels=(*made.labels, *map(str, range(30)))))


words = st.text(st.characters(), min_size=1, max_size=60)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_manifest_has_a_sound_page(data: st.DataObject) -> None:
    labels = tuple(data.draw(st.lists(words, min_size=2, max_size=40, unique=True)))
    label = st.sampled_from(labels)
    scores = st.dictionaries(words, numbers, max_size=3)
    check(
        manifest(
            kind=data.draw(st.sampled_from(KINDS)),
            pair=data.draw(st.booleans()),
            labels=labels,
            metric=data.draw(words),
            dev=data.draw(scores),
            test=data.draw(scores),
            baselines=data.draw(st.dictionaries(words, scores, max_size=6)),
            confusion=data.draw(
                st.lists(st.builds(Confusion, label, label, st.integers())).map(tuple)
            ),
            data=DataRecord(
                data.draw(
                    st.dictionaries(words | st.sampled_from(["dev", "test"]), st.integers(0))
                ),
                "",
                data.draw(st.dictionaries(label, st.integers(0))),
            ),
            recipe=data.draw(st.dictionaries(words, st.none() | numbers | st.lists(words))),
            threshold=data.draw(st.none() | numbers),
        )
    )
