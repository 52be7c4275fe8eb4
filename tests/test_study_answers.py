"""What studies come to: figures from records written by hand, so that every one can be checked."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from adapterbank.cli.study import report
from adapterbank.errors import ConfigError
from adapterbank.studies.answers import KINDS, budget, kind_of
from adapterbank.studies.findings import MARK, findings_of
from adapterbank.studies.findings import markdown as of_findings
from adapterbank.studies.report import as_html, as_markdown, study_folders, write_page
from adapterbank.studies.runs import Rows
from adapterbank.studies.statements import STATEMENTS
from adapterbank.studies.study import Study
from adapterbank.studies.study_file import read_study

LOCK = {
    "base": {"name": "minilm", "fingerprint": "f" * 64, "layers": 6, "units": 0},
    "tasks": {
        name: {
            "rows": {"task": name, "train": 100, "dev": 0, "test": 0},
            "digest": digest * 64, "kind": "classification", "metric": "accuracy",
            "train": 100, "dev": 50, "test": 50,
        }
        for name, digest in (("support", "a"), ("reviews", "b"))
    },
}  # fmt: skip
HEAD = """
title = "By hand"
tasks = ["support", "reviews"]
train_rows = 100
"""


def make(folder: Path, text: str, name: str = "byhand") -> Study:
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    (home / "study.toml").write_text(HEAD + text)
    (home / "study.lock").write_text(json.dumps(LOCK))
    return read_study(home)


def put(
    study: Study, task: str, settings: dict[str, Any], test: float, seed: int = 0, **more: Any
) -> None:
    """A record: as good on dev as on test, unless said."""
    rows = next(rows for rows in study.rows if rows.task == task)
    record = {
        "metric": "accuracy", "dev": {"accuracy": more.pop("dev", test)},
        "test": {"accuracy": test}, "seconds": 36.0, "trained_parameters": 1000,
        "percent_of_base": 1.5, "percent_without_embeddings": 3.0, **more,
    }  # fmt: skip
    study.store.put(study.config(rows, settings, seed), record)


def drawn(study: Study, answer: dict[str, Any], path: Path) -> str:
    """The words of a picture, which is an SVG; the same answer gives the same bytes."""
    import matplotlib

    draw = kind_of(study).draw
    assert draw is not None
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # letters as letters, not as shapes
        draw(json.loads(json.dumps(answer)), path)
        first = path.read_bytes()
        draw(answer, path)
    assert path.read_bytes() == first
    return " ".join(t for t in ET.fromstring(first).itertext() if t.strip())  # noqa: S314


TABLE = """
seeds = 3
reference = "full"
widen = 0

[[arm]]
name = "full"
method = "full"

[[arm]]
name = "adapters"
size = 4
learning_rate = [1e-3, 2e-3]

[[arm]]
name = "words"
method = "frozen features"

[group]
"without reviews" = ["support"]

[paper.full]
support = 77.7
"""
ADAPTERS = {"size": 4}
FULL = {"method": "full"}


@pytest.fixture
def table(tmp_path) -> Study:
    study = make(tmp_path, TABLE)
    for task, base in (("support", 0.80), ("reviews", 0.90)):
        for seed, noise in enumerate((0.0, 0.01, 0.02)):
            put(study, task, FULL, base + noise, seed)
            put(study, task, ADAPTERS | {"learning_rate": 2e-3}, base + 2 * noise, seed)
        put(study, task, ADAPTERS | {"learning_rate": 1e-3}, 0.99, dev=0.1)  # dev decides
        put(study, task, {"method": "frozen features"}, base - 0.1)
    return study


def test_a_table(table, tmp_path) -> None:
    answer = kind_of(table).compute(table)
    full, adapters, words = answer["arms"]
    assert adapters["cells"]["support"]["scores"] == pytest.approx([80, 82, 84])
    assert adapters["cells"]["support"]["settings"]["learning_rate"] == 2e-3
    assert adapters["mean"] == pytest.approx(87)
    # Seed by seed the gap is 0, 1 and 2 points on either task.
    assert adapters["gap"]["mean"] == pytest.approx(1)
    assert adapters["gap"]["error"] == pytest.approx(stdev([0, 1, 2]) / 3**0.5)
    assert full["gap"] is None
    assert words["gap"]["mean"] == pytest.approx(-11)
    assert answer["groups"]["without reviews"]["adapters"]["mean"] == pytest.approx(82)
    text = kind_of(table).markdown(answer)
    assert "| support (accuracy) | 81.0 ± 0.6 | 82.0 ± 1.2 | 70.0 |" in text
    assert "+1.00 ± 0.58" in text
    assert "77.7" in text
    assert "1.50" in text
    assert "3.00" in text  # both denominators
    words_drawn = drawn(table, answer, tmp_path / "table.svg")
    for name in ("support", "reviews", "mean", "points above full", "adapters"):
        assert name in words_drawn


def test_a_mean_is_of_the_tasks_that_every_arm_has(tmp_path) -> None:
    study = make(tmp_path, TABLE)
    for seed in range(3):
        put(study, "support", FULL, 0.8, seed)
        put(study, "reviews", FULL, 0.2, seed)
        put(study, "support", ADAPTERS | {"learning_rate": 2e-3}, 0.9, seed)
    put(study, "support", ADAPTERS | {"learning_rate": 1e-3}, 0.1)
    put(study, "support", {"method": "frozen features"}, 0.5)
    answer = kind_of(study).compute(study)
    assert answer["whole"] == ["support"]
    assert answer["arms"][0]["mean"] == pytest.approx(80)
    text = kind_of(study).markdown(answer)
    assert "**mean of 1**" in text
    assert f"{answer['runs_done']} of at least {answer['runs_known']} runs" in text


TRADEOFF = """
figure = "tradeoff"
reference = "full"
seeds = 1

[[arm]]
name = "full"
method = "full"

[[arm]]
name = "adapters 4"
size = 4

[[arm]]
name = "adapters 8"
size = 8

[[arm]]
name = "top 1"
method = "top-k"
top_k = 1
"""


def test_a_tradeoff(tmp_path) -> None:
    study = make(tmp_path, TRADEOFF)
    for task, base in (("support", 0.8), ("reviews", 0.9)):
        put(study, task, FULL, base)
        put(study, task, {"size": 4}, base - 0.01, trained_parameters=400)
        put(study, task, {"size": 8}, base - (0.0 if task == "support" else 0.02))
        put(study, task, {"method": "top-k", "top_k": 1}, base - 0.05, trained_parameters=9000)
    answer = kind_of(study).compute(study)
    points = {point["name"]: point for point in answer["groups"]["all tasks"]}
    assert points.keys() == {"adapters 4", "adapters 8", "top 1"}
    assert points["adapters 4"]["percentiles"] == pytest.approx([-1, -1, -1])
    assert points["adapters 8"]["percentiles"] == pytest.approx([-1.6, -1.0, -0.4])
    assert points["adapters 4"]["parameters"] == 400
    assert answer["reference_parameters"] == 1000
    assert points["top 1"]["family"] == "top layers"
    assert "| adapters 8 | 1,000 | 2 | -1.6 | -1.0 | -0.4 |" in kind_of(study).markdown(answer)
    assert "top layers" in drawn(study, answer, tmp_path / "t.svg")


CURVE = """
figure = "curve"
seeds = 2
choose = false

[[arm]]
name = "adapters"
size = [1, 2]

[[arm]]
name = "LayerNorms only"
method = "layer-norm"
"""


def test_a_curve(tmp_path) -> None:
    study = make(tmp_path, CURVE)
    for seed in range(2):
        put(study, "support", {"size": 1}, 0.5 + seed / 10, seed, trained_parameters=10)
        put(study, "support", {"method": "layer-norm"}, 0.4, seed, trained_parameters=5)
        put(study, "reviews", {"size": 2}, 0.7, seed, trained_parameters=20)
    put(study, "support", {"size": 2}, 0.9)  # its other seed is not done
    answer = kind_of(study).compute(study)
    names = [point["name"] for point in answer["points"]["support"]]
    assert names == ["adapters 1", "LayerNorms only"]
    assert answer["points"]["support"][0]["mean"] == pytest.approx(55)
    assert answer["points"]["support"][0]["error"] == pytest.approx(5)
    text = kind_of(study).markdown(answer)
    assert "| adapters 1 | 10 | 55.0 ± 5.0 |  |" in text
    assert "| adapters 2 | 20 |  | 70.0 ± 0.0 |" in text
    assert "LayerNorms only" in drawn(study, answer, tmp_path / "c.svg")


RATES = """
figure = "rates"

[[arm]]
name = "adapters"
size = [4, 8]
learning_rate = [1e-3, 2e-3]
"""


def test_rates(tmp_path) -> None:
    study = make(tmp_path, RATES)
    for task, base in (("support", 0.8), ("reviews", 0.9)):
        for rate, lost in ((1e-3, 0.0), (2e-3, 0.02 if task == "support" else 0.04)):
            put(study, task, {"size": 4, "learning_rate": rate}, base - lost, dev=0.6)
            put(study, task, {"size": 8, "learning_rate": rate}, 0.99, dev=0.5)  # worse on dev
    answer = kind_of(study).compute(study)
    (arm,) = answer["arms"]
    assert [point["lost"] for point in arm["points"]] == pytest.approx([0, 3])
    assert [point["error"] for point in arm["points"]] == pytest.approx([0, 1])
    assert [point["mean"] for point in arm["points"]] == pytest.approx([85, 82])
    assert [point["lost_on_dev"] for point in arm["points"]] == pytest.approx([0, 0])
    assert "learning rate" in drawn(study, answer, tmp_path / "r.svg")


def test_rates_are_means_over_all_seeds(tmp_path) -> None:
    study = make(tmp_path, f"seeds = 2\nchoose = false\n{RATES}".replace("[4, 8]", "4"))
    for rate, scores in ((1e-3, (0.8, 0.9)), (2e-3, (0.7, 0.7))):
        for seed, score in enumerate(scores):
            assert kind_of(study).compute(study)["arms"][0]["points"] == []
            put(study, "support", {"size": 4, "learning_rate": rate}, score, seed)
    answer = kind_of(study).compute(study)
    (arm,) = answer["arms"]
    assert [point["mean"] for point in arm["points"]] == pytest.approx([85, 70])
    assert "| adapters | 0.002 | 1 | 70.0 | 15.0 | 15.0 |" in kind_of(study).markdown(
        answer
    )  # of one task
    assert "2 seeds" in drawn(study, answer, tmp_path / "r.svg")


def test_between_equals_on_dev_test_has_no_say(tmp_path) -> None:
    study = make(tmp_path, RATES)
    for rate in (1e-3, 2e-3):
        for size, test in ((4, 0.7), (8, 0.9)):
            put(study, "support", {"size": size, "learning_rate": rate}, test, dev=0.6)
    (arm,) = kind_of(study).compute(study)["arms"]
    assert [point["mean"] for point in arm["points"]] == pytest.approx([70, 70])


def test_one_seed_has_no_error(tmp_path) -> None:
    study = make(tmp_path, TABLE.replace("seeds = 3", "seeds = 1"))
    for task in ("support", "reviews"):
        put(study, task, FULL, 0.8)
        for rate in (1e-3, 2e-3):
            put(study, task, ADAPTERS | {"learning_rate": rate}, 0.9)
        put(study, task, {"method": "frozen features"}, 0.7)
    answer = kind_of(study).compute(study)
    assert "| against full |  | +10.00 | -10.00 |" in kind_of(study).markdown(answer)
    drawn(study, answer, tmp_path / "t.svg")
    near = next(test for text, _, test in STATEMENTS if text.startswith("Adapters of size 32"))
    assert near({"arms": [{**answer["arms"][1], "name": "adapters 32"}]}) is None


ABLATION = """
figure = "ablation"
seeds = 2
choose = false

[[arm]]
name = "removed"
size = 8
probe = "ablation"

[[arm]]
name = "start"
size = 8
init_std = [1e-4, 1.0]
"""


def ablation_record(without: dict[tuple[int, int], float], whole: float) -> dict[str, Any]:
    return {
        "layers": [0, 1], "whole": whole, "constant": 0.5,
        "without": [{"first": i, "last": j, "score": s} for (i, j), s in without.items()],
    }  # fmt: skip


@pytest.fixture
def ablation(tmp_path) -> Study:
    study = make(tmp_path, ABLATION, "figure6-ablation")
    for seed in range(2):
        scores = {(0, 0): 0.79 + 0.02 * seed, (0, 1): 0.5, (1, 1): 0.6}
        removed = {"ablation": ablation_record(scores, 0.8)}
        put(study, "support", {"size": 8, "probe": "ablation"}, 0.8, seed, **removed)
        put(study, "support", {"size": 8, "init_std": 1e-4}, 0.8, seed)
        put(study, "support", {"size": 8, "init_std": 1.0}, 0.4, seed)
    return study


def test_of_nothing_there_is_nothing_to_lose(tmp_path) -> None:
    study = make(tmp_path, ABLATION)
    nothing = ablation_record({(0, 0): 0.0, (0, 1): 0.0, (1, 1): 0.0}, 0.0)
    for seed in range(study.seeds):
        put(study, "support", {"size": 8, "probe": "ablation"}, 0.0, seed, ablation=nothing)
    answer = kind_of(study).compute(study)
    assert {change for _, _, change in answer["removed"]["support"]["change"]} == {0}
    assert "+0.0 %" in kind_of(study).markdown(answer)


def test_an_ablation(ablation, tmp_path) -> None:
    answer = kind_of(ablation).compute(ablation)
    removed = answer["removed"]["support"]
    assert {(i, j): s for i, j, s in removed["without"]}[0, 0] == pytest.approx(0.8)
    assert "reviews" not in answer["removed"]
    assert [p["mean"] for p in answer["starts"]["support"]] == pytest.approx([80, 40])
    text = kind_of(ablation).markdown(answer)
    row = "| support | 80.0 | -25.0 % (layer 1) | +0.0 % | -25.0 % | -37.5 % | -37.5 % |"
    assert row in text
    words = drawn(ablation, answer, tmp_path / "a.svg")
    assert "last layer removed" in words
    assert "-38" in words or "\N{MINUS SIGN}38" in words


def test_sizes_are_shared_out_where_they_bring_most() -> None:
    def sizes(small: float, large: float) -> dict[str, dict[str, float]]:
        found = ((8, small), (64, large))
        return {str(m): {"parameters": m, "dev": dev, "test": 1.0} for m, dev in found}

    options = {"easy": sizes(90, 90), "hard": sizes(50, 70)}
    assert budget.share_out(options, 72) == {"easy": "8", "hard": "64"}
    assert budget.share_out(options, 71) == {"easy": "8", "hard": "8"}
    assert budget.share_out(options, 1000) == {"easy": "8", "hard": "64"}


def test_a_budget(tmp_path) -> None:
    text = """
figure = "budget"
[[arm]]
name = "adapters 8"
size = 8
[[arm]]
name = "adapters 64"
size = 64
"""
    study = make(tmp_path, text)
    for task, gain in (("support", 0.0), ("reviews", 0.2)):
        put(study, task, {"size": 8}, 0.5, trained_parameters=8)
        put(study, task, {"size": 64}, 0.5 + gain, trained_parameters=64)
    answer = kind_of(study).compute(study)
    small, large = answer["budgets"]
    assert (small["uniform"], small["shared_out"]) == (50, 50)
    assert large["uniform"] == pytest.approx(60)
    assert large["shared_out"] == pytest.approx(60)
    assert large["spent"] == 72
    assert "a size for each" in drawn(study, answer, tmp_path / "b.svg")


def test_half_the_bytes(tmp_path) -> None:
    study = make(tmp_path, 'figure = "fp16"\n[[arm]]\nname = "adapters"\nsize = 4\nprobe = "fp16"')
    half = {"test": {"accuracy": 0.79}, "other_answers": 0.02, "bytes": 60, "bytes_fp32": 110}
    put(study, "support", {"size": 4, "probe": "fp16"}, 0.8, fp16=half)
    text = kind_of(study).markdown(kind_of(study).compute(study))
    assert "| support | 80.00 | 79.00 | 2.00% | 110 | 60 |" in text


def test_numbers_are_not_counted_as_answers(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(LOCK["tasks"]["support"], "kind", "regression")
    study = make(tmp_path, 'figure = "fp16"\n[[arm]]\nname = "adapters"\nsize = 4\nprobe = "fp16"')
    half = {"test": {"accuracy": 0.8}, "other_answers": 0.0, "bytes": 60, "bytes_fp32": 110}
    put(study, "support", {"size": 4, "probe": "fp16"}, 0.8, fp16=half)
    text = kind_of(study).markdown(kind_of(study).compute(study))
    assert "| support | 80.00 | 80.00 |  | 110 | 60 |" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('figure = "pie"\n[[arm]]\nname = "a"', r"'pie'.*table.*tradeoff"),
        ('figure = "tradeoff"\n[[arm]]\nname = "a"', r"gaps to one arm.*reference ="),
        ('figure = "curve"\n[[arm]]\nname = "a"\nmethod = "n-grams"', r"a trains no parameters"),
        ('[group]\nall = ["support", "mien"]\n[[arm]]\nname = "a"', r"mien.*support, reviews"),
        ('[group]\nall = "support"\n[[arm]]\nname = "a"', r"group is no list"),
        ('[paper]\nfull = 1\n[[arm]]\nname = "a"', r"no table.*paper\."),
        ('figure = "fp16"\n[[arm]]\nname = "a"', r"a has none.*probe ="),
        ('choose = false\n[[arm]]\nname = "a"\nsize = [1, 2]', r"a has several.*choose"),
        ('figure = "rates"\n[[arm]]\nname = "a"', r"list of learning rates, and there are 0"),
        ('figure = "ablation"\n[[arm]]\nname = "a"', r"probe ablation.*there are 0"),
        (
            'figure = "ablation"\nchoose = false\n[[arm]]\nname = "a"\n'
            "init_std = [1e-2, 1.0]\nsize = [1, 2]",
            r"a list of init_std alone, and there are 0",
        ),
        (
            'figure = "ablation"\n[[arm]]\nname = "a"\nprobe = "ablation"\n'
            '[[arm]]\nname = "b"\nprobe = "ablation"',
            "there are 2",
        ),
        ('figure = "fp16"\n[[arm]]\nname = "a"\nprobe = "fp16"\n[[arm]]\nname = "b"', "are 2"),
        (
            'figure = "curve"\nchoose = false\n[[arm]]\nname = "a"\nsize = [4, 8]\n'
            '[[arm]]\nname = "a 8"\nsize = 16',
            "two points are called a 8",
        ),
        ("[group]\nall = []\n[[arm]]\nname = 'a'", r"group is no list of tasks"),
        ("[group]\nall = [1]\n[[arm]]\nname = 'a'", r"all has 1, which the study has not"),
    ],
)
def test_what_a_figure_needs_is_asked_for_before_anything_runs(tmp_path, text, message) -> None:
    with pytest.raises(ConfigError, match=message):
        make(tmp_path, text)


@pytest.mark.parametrize("figure", KINDS)
def test_before_the_first_run_every_kind_says_so(tmp_path, figure) -> None:
    probe = KINDS[figure].probe or ("ablation" if figure == "ablation" else "")
    text = f'figure = "{figure}"\nreference = "a"\n[[arm]]\nname = "a"\nprobe = "{probe}"\n'
    make(tmp_path, f"{text}learning_rate = [1e-3, 2e-3]")
    page = write_page(tmp_path / "byhand")
    assert "No run is done yet" in page.text
    assert page.status.startswith("0 of ")
    assert not (tmp_path / "byhand" / "figure.svg").exists()


# --- pages


def test_a_page_keeps_a_persons_words(table) -> None:
    readme = table.folder / "README.md"
    answer = "<!-- answer -->\nold\n<!-- /answer -->"
    readme.write_text(f"# My study\n\nWhy I ask.\n\n{answer}\n\n## What it means\n\nMuch.\n")
    page = write_page(table.folder)
    text = readme.read_text()
    assert "Why I ask." in text
    assert text.endswith("## What it means\n\nMuch.\n")
    assert "old" not in text
    assert "82.0 ± 1.2" in text
    assert page.title == "My study"
    assert page.text.startswith("Why I ask.")
    write_page(table.folder)
    assert readme.read_text() == text  # once more changes nothing
    assert json.loads((table.folder / "answer.json").read_text())["whole"] == ["support", "reviews"]


def test_a_page_without_a_place_for_the_answer_is_left_alone(table) -> None:
    readme = table.folder / "README.md"
    readme.write_text("# Mine\n")
    with pytest.raises(ConfigError, match="no place for the answer"):
        write_page(table.folder)
    assert readme.read_text() == "# Mine\n"


def test_one_page_for_all(table, ablation, tmp_path) -> None:
    folders = study_folders(tmp_path)
    assert [folder.name for folder in folders] == ["byhand", "figure6-ablation"]
    pages = [write_page(folder) for folder in folders]
    target = tmp_path / "docs" / "all.md"
    text = as_markdown(pages, "All <of> it", "Words *before*.", target)
    assert "](../byhand/figure.svg)" in text
    assert text.startswith("# All <of> it\n")
    html = as_html(pages, "All <of> it", "Words *before*.")
    assert "<h1>All &lt;of&gt; it</h1>" in html
    assert "<em>before</em>" in html
    assert html.count("data:image/svg+xml;base64,") == 2
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "<script" not in html
    assert '<td style="text-align:right">82.0 ± 1.2</td>' in html


def test_a_stranger_s_words_are_no_markup(table) -> None:
    readme = table.folder / "README.md"
    readme.write_text("# <script>x</script>\n\n<img src=x>\n\n<!-- answer --><!-- /answer -->\n")
    html = as_html([write_page(table.folder)], "t")
    assert "<script>" not in html
    assert "<img src=x>" not in html


def test_places_come_first_then_names(tmp_path) -> None:
    arm = '\n[[arm]]\nname = "a"'
    make(tmp_path, f"place = 2{arm}", "a")
    make(tmp_path, f"place = 1{arm}", "b")
    make(tmp_path, arm, "c")
    assert [folder.name for folder in study_folders(tmp_path)] == ["b", "a", "c"]
    assert study_folders(tmp_path / "c") == [tmp_path / "c"]
    with pytest.raises(ConfigError, match="no study in"):
        study_folders(tmp_path / "docs")


# --- findings


def test_findings_are_computed_from_the_answers(ablation, tmp_path) -> None:
    found = {f.statement: f for f in findings_of(tmp_path)}
    assert all(f.verdict == "open" for f in found.values())  # there is no answer yet
    for seed in range(2):
        scores = {(0, 0): 0.79 + 0.02 * seed, (0, 1): 0.5, (1, 1): 0.6}
        removed = {"ablation": ablation_record(scores, 0.8)}
        put(ablation, "reviews", {"size": 8, "probe": "ablation"}, 0.8, seed, **removed)
        put(ablation, "reviews", {"size": 8, "init_std": 1e-4}, 0.8, seed)
        put(ablation, "reviews", {"size": 8, "init_std": 1.0}, 0.4, seed)
    write_page(ablation.folder)
    found = {f.statement: f for f in findings_of(tmp_path)}
    assert {f.study for f in found.values()} == {"figure6-ablation"}
    # One layer costs a quarter: not little. All: the majority. Upper more than lower.
    assert [f.verdict for f in found.values()] == ["no", "yes", "yes"]
    assert "**no**" in of_findings(list(found.values()))
    (tmp_path / "figure6-ablation").rename(tmp_path / "figure6-initialisation")
    (start,) = findings_of(tmp_path)
    assert start.verdict == "yes"
    assert "80.0 up to 0.01, 40.0 above" in start.figures


def test_an_unfinished_study_is_not_judged(ablation, tmp_path) -> None:
    """Its second task is missing: the figures are shown, the verdict waits."""
    write_page(ablation.folder)
    found = findings_of(tmp_path)
    assert {f.verdict for f in found} == {"open"}
    assert all(f.figures.startswith("so far: ") for f in found)


def test_a_task_that_was_not_learnt_has_nothing_to_remove() -> None:
    tests = [test for _, study, test in STATEMENTS if study == "figure6-ablation"]
    change = [[0, 0, -50.0], [0, 1, -50.0], [1, 1, 0.0]]
    without = [[0, 0, 0.26], [0, 1, 0.26], [1, 1, 0.51]]
    poor = {"layers": [0, 1], "whole": 0.52, "constant": 0.5, "without": without, "change": change}
    assert [test({"removed": {"poor": poor}}) for test in tests] == [None, None, None]
    good = {**poor, "constant": 0.26, "halves_error": 2.0}
    verdicts = [test({"removed": {"good": good}}) for test in tests]
    assert [verdict[0] for verdict in verdicts] == [False, True, False]


def test_halves_of_the_layers_are_as_good_as_each_other_within_their_noise() -> None:
    test = next(test for text, _, test in STATEMENTS if text.startswith("Upper layers"))

    def found(lower: float, upper: float, error: float | None) -> dict[str, Any]:
        change = [[0, 0, lower], [0, 1, -50.0], [1, 1, upper]]
        return {"layers": [0, 1], "whole": 0.9, "constant": 0.5, "change": change,
                "halves_error": error}  # fmt: skip

    assert test({"removed": {"a": found(-18.0, -16.9, 2.0)}})[0] is None
    assert test({"removed": {"a": found(-10.0, -16.9, 2.0)}})[0] is True
    assert test({"removed": {"a": found(-18.0, -6.9, 2.0)}})[0] is False
    assert test({"removed": {"a": found(-18.0, -6.9, None)}})[0] is None  # one seed
    both = {"a": found(-10.0, -16.9, 2.0), "b": found(-18.0, -6.9, 2.0)}
    held, told = test({"removed": both})
    assert held is None
    assert "a: lower half -10.0 %, upper half -16.9 %, 6.9 ± 2.0 apart" in told


@pytest.mark.parametrize(("norms", "holds"), [(78.0, True), (79.0, False)])
def test_layer_norms_are_compared_with_one_size_not_with_the_best(norms, holds) -> None:
    test = next(test for text, _, test in STATEMENTS if text.startswith("LayerNorms alone"))
    means = {"adapters 32": 80.0, "adapters 64": 99.0, "LayerNorms only": norms}
    points = [{"name": name, "mean": mean} for name, mean in means.items()]
    found, told = test({"points": {"support": points}})
    assert found is holds
    assert told == f"support: {norms:.1f} against 80.0"


def test_layer_norms_have_to_be_below_on_every_task() -> None:
    def answer(*norms: float) -> dict[str, Any]:
        arms = {"adapters 64": (80.0, 60.0), "LayerNorms only": norms, "top 1": (0.0, 0.0)}
        return {
            "arms": [
                {"name": name, "cells": {t: {"mean": m} for t, m in zip("ab", means, strict=False)}}
                for name, means in arms.items()
            ]
        }

    test = _finding("figure4-with-more-rows")
    assert test(answer()) is None
    assert test(answer(78.0)) == (True, "a: 78.0 against 80.0")
    assert test(answer(78.0, 59.0)) == (False, "a: 78.0 against 80.0; b: 59.0 against 60.0")


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [(-0.2, 0.1, True), (-0.45, 0.1, None), (-0.35, 0.1, None), (-0.6, 0.1, False),
     (-0.2, 9.0, None), (0.5, 0.1, True)],
)  # fmt: skip
def test_noise_decides_nothing(mean, error, verdict) -> None:
    arms = [{"name": "adapters 32", "gap": {"mean": mean, "error": error, "tasks": 7}}]
    assert _finding("quality")({"arms": arms})[0] is verdict


def test_starts_have_a_limit_that_noise_does_not_widen() -> None:
    def points(*means: float) -> dict[str, Any]:
        stds = (1e-4, 1e-2, 1.0)
        found = [{"std": s, "mean": m, "error": 9.0} for s, m in zip(stds, means, strict=True)]
        return {"starts": {"support": found}}

    test = _finding("figure6-initialisation")
    assert test(points(80, 82, 50))[0] is True
    assert test(points(80, 84, 50))[0] is False
    assert test(points(80, 82, 79))[0] is False  # above 0.01 it is as good


def test_rates_are_compared_in_the_papers_range_and_in_all() -> None:
    def arm(family: str, *lost: float) -> dict[str, Any]:
        rates = (1e-4, 1e-3, 1e-2)
        points = [{"rate": r, "lost": each} for r, each in zip(rates, lost, strict=True)]
        return {"family": family, "points": points}

    papers, every = (test for _, study, test in STATEMENTS if study == "figure7-learning-rates")
    answer = {"arms": [arm("adapters", 1, 1, 40), arm("full fine-tuning", 0, 10, 10)]}
    assert papers(answer)[0] is True
    assert every(answer)[0] is False
    assert papers({"arms": answer["arms"][:1]}) is None
    # What full fine-tuning loses at rates that adapters were not run at is no part of it.
    low = arm("full fine-tuning", 90, 0.5, 10)
    high = {"family": "adapters", "points": arm("adapters", 1, 1, 40)["points"][1:]}
    assert papers({"arms": [high, low]})[0] is False


def test_sizes_are_within_a_point() -> None:
    def answer(*means: float) -> dict[str, Any]:
        names = ("adapters 2", "adapters 8", "adapters 32", "adapters 128")
        points = [
            {"name": name, "family": "adapters", "gaps": {"a": mean, "b": mean}}
            for name, mean in zip(names, means, strict=False)
        ]
        return {"groups": {"all": points}}

    _, test = (test for _, study, test in STATEMENTS if study == "figure1-tradeoff")
    assert test(answer(-9, 0.5, -0.5, 0))[0] is True
    assert test(answer(0, 0.6, -0.5, 0))[0] is False
    assert test(answer(0, 0.6)) is None
    noisy = answer(0, 0.6, -0.5, 0)
    noisy["groups"]["all"][1]["gaps"] = {"a": 3.6, "b": -2.4}
    held, told = test(noisy)
    assert held is None
    assert told.endswith("best and worst 1.1 ± 3.0 apart")


def test_one_seed_on_squad_decides_beyond_its_noise() -> None:
    def answer(full: float) -> dict[str, Any]:
        means = {"adapters 64": 50.0, "LayerNorms only": 20.0, "full fine-tuning": full}
        return {"points": {"squad": [{"name": n, "mean": m} for n, m in means.items()]}}

    norms, near, small = (test for _, study, test in STATEMENTS if study == "figure5-squad")
    assert norms(answer(50)) == (True, "squad: 20.0 against 50.0")
    assert [near(answer(full))[0] for full in (48, 50, 53)] == [True, None, False]
    assert small(answer(50)) is None


def test_a_stream_that_forgets_is_seen() -> None:
    tasks = [{"shared_encoder": {"difference": -0.3}}, {"shared_encoder": {"difference": -0.1}}]
    answer = {"tasks": tasks, "contrast": True, "packages_identical": True}
    test = _finding("stream")
    held, told = test({**answer, "predictions_identical": True})
    assert held is True
    assert told.endswith("task after task: -20 points")
    assert test({**answer, "predictions_identical": False})[0] is False


def test_findings_stand_where_the_mark_is(ablation, tmp_path) -> None:
    """Studies of one's own, whatever they are called, are no test of the paper's statements."""
    write_page(ablation.folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "study.toml").write_text(f"{HEAD}[[arm]]\nname = 'a'")
    (tmp_path / "other" / "study.lock").write_text(json.dumps(LOCK))
    (tmp_path / "README.md").write_text("# Mine\n\nWords.\n")
    report(tmp_path, markdown=None, html=None)
    assert "finding" not in (tmp_path / "report.html").read_text("utf-8")
    (tmp_path / "README.md").write_text(f"# Mine\n\nWords.\n\n{MARK}\n\nMore words.\n")
    report(tmp_path, markdown=None, html=None)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.index("Words") < page.index("the paper's finding") < page.index("More words")


def test_a_study_that_was_never_begun_holds_up_no_report(ablation, tmp_path) -> None:
    """Its base may be one that is not here."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "study.toml").write_text(
        f"{HEAD}base = '../bases/none'\n[[arm]]\nname = 'a'"
    )
    report(tmp_path, markdown=None, html=None)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("By hand") >= 4  # both studies, and the links to them
    assert "No run is done yet" in page
    assert write_page(tmp_path / "other").status.startswith("not begun (")


def test_the_standard_error_is_the_usual_one(table) -> None:
    scores = [80.0, 81.0, 82.0]
    cell = kind_of(table).compute(table)["arms"][0]["cells"]["support"]
    assert cell["mean"] == pytest.approx(fmean(scores))
    assert cell["error"] == pytest.approx(stdev(scores) / 3**0.5)


def test_rows_caps_do_not_name_a_run(table) -> None:
    one = table.config(table.rows[0], {}, 0)
    assert replace(one, rows=Rows("support")).digest == one.digest
    assert replace(one, rows=Rows("reviews")).digest != one.digest
    assert replace(one, data="c" * 64).digest != one.digest


def _finding(study: str):
    return next(test for _, of, test in STATEMENTS if of == study)


def test_adapters_against_the_top_layers() -> None:
    def points(*medians):
        names = ("adapters 32", "top 1", "top 2")
        return [
            {"name": name, "percentiles": [-9, median, 9], "parameters": 100 * 20**i,
             "gaps": {"a": median, "b": median}}
            for i, (name, median) in enumerate(zip(names, medians, strict=False))
        ]  # fmt: skip

    test = _finding("figure1-tradeoff")
    assert test({"groups": {"all tasks": points(-1, -5)}}) is None
    held, told = test({"groups": {"all tasks": points(-1, -5, -2)}})
    assert held is True
    assert "top 1 -5.0 with 20 times as many, adapters ahead on 2 tasks and behind on 0" in told
    assert test({"groups": {"all tasks": points(-1, -5, 0)}})[0] is None  # above one of the two
    assert test({"groups": {"all tasks": points(-1, 5, 0)}})[0] is False


def test_a_variant_is_better_only_beyond_its_noise() -> None:
    def arms(*gaps):
        return {"arms": [{"name": "paper", "gap": None}, *({"name": "x", "gap": g} for g in gaps)]}

    test = _finding("variants")
    assert test(arms()) is None
    assert test(arms({"mean": -3, "error": 0.1}, {"mean": 0.1, "error": 0.2}))[0]
    assert test(arms({"mean": -3, "error": 0.1}, {"mean": 0.1, "error": 1.0}))[0] is None
    assert test(arms({"mean": -3, "error": 0.1}, {"mean": 0.9, "error": 0.2}))[0] is False
    assert test(arms({"mean": -3, "error": 0.1}, {"mean": 0.5, "error": 0.3}))[0] is None
