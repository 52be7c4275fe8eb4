"""The catalogue reads each task in each form, and never selects on the rows it reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from adapterbank.errors import ConfigError, DataError
from adapterbank.tasks.catalog import catalog_names, find, load_catalog_task, load_split
from adapterbank.tasks.entries import ENTRIES
from adapterbank.tasks.metrics import METRICS
from adapterbank.tasks.task import Example, Task

GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
PUBLISHED_TEST = ("mrpc", "stsb")
SUBJECTS = ("a heron", "my aunt", "the baker", "one sailor", "some clerk", 'a "quiet" owl')
VERBS = ("paints", "mends", "forgets", "carries", "borrows")
OBJECTS = ("the lamp", "two kites", "a copper bell", "their ladder")
SENTENCES = [" ".join(words) + " ." for words in product(SUBJECTS, VERBS, OBJECTS)]

# What GLUE's files write, and what the catalogue makes of it.
WRITTEN = {
    "cola": ("0", "1"),
    "sst2": ("0", "1"),
    "mrpc": ("0", "1"),
    "stsb": ("0.0", "1.5", "3.2", "5.0"),
    "qqp": ("0", "1"),
    "mnli": ("contradiction", "entailment", "neutral"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
    "wnli": ("0", "1"),
}
LABELS = {
    "cola": ("unacceptable", "acceptable"),
    "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"),
    "stsb": (),
    "qqp": ("not_duplicate", "duplicate"),
    "mnli": ("contradiction", "entailment", "neutral"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
    "wnli": ("not_entailment", "entailment"),
}
METRIC = dict.fromkeys(GLUE, "accuracy") | {
    "cola": "matthews",
    "mrpc": "f1",
    "stsb": "spearman",
    "qqp": "f1",
}
POSITIVE = {
    "cola": "acceptable",
    "sst2": "positive",
    "mrpc": "equivalent",
    "stsb": "",
    "qqp": "duplicate",
    "mnli": "",
    "qnli": "entailment",
    "rte": "entailment",
    "wnli": "entailment",
}
# Folder, header and a line of each of GLUE's own tables.
OWN = {
    "cola": ("CoLA", "", "src{i}\t{y}\t\t{a}"),
    "sst2": ("SST-2", "sentence\tlabel", "{a}\t{y}"),
    "mrpc": (
        "MRPC",
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        "{y}\t{i}\t9{i}\t{a}\t{b}",
    ),
    "stsb": (
        "STS-B",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "{i}\tg\tf\t2012\t{i}\tnone\tnone\t{a}\t{b}\t{y}",
    ),
    "qqp": (
        "QQP",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "{i}\t{i}\t9{i}\t{a}\t{b}\t{y}",
    ),
    "mnli": (
        "MNLI",
        "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label",
        "{i}\tp\t{a}\t{b}\tneutral\t{y}",
    ),
    "qnli": ("QNLI", "index\tquestion\tsentence\tlabel", "{i}\t{a}\t{b}\t{y}"),
    "rte": ("RTE", "index\tsentence1\tsentence2\tlabel", "{i}\t{a}\t{b}\t{y}"),
    "wnli": ("WNLI", "index\tsentence1\tsentence2\tlabel", "{i}\t{a}\t{b}\t{y}"),
}
Rows = list[tuple[str, str, str]]


def made(name: str, start: int, count: int) -> Rows:
    """Rows of a first text, a second one and what stands for the label; no text comes twice."""
    written = WRITTEN.get(name, ("dull", "bright", "odd"))
    return [
        (SENTENCES[start + i], SENTENCES[-1 - start - i], written[(start + i) % len(written)])
        for i in range(count)
    ]


def write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def write_own(path: Path, name: str, rows: Rows) -> None:
    _, header, line = OWN[name]
    lines = [line.format(i=i, a=a, b=b, y=y) for i, (a, b, y) in enumerate(rows)]
    write(path, [header, *lines] if header else lines)


def write_lines(path: Path, rows: Rows, pairs: bool) -> None:
    def row(a: str, b: str, y: str) -> dict[str, Any]:
        texts = {"text_a": a, "text_b": b} if pairs else {"text": a}
        label: Any = float(y) if "." in y else int(y) if y.isdigit() else y
        return {**texts, "label": label}

    write(path, [json.dumps(row(*each)) for each in rows])


def in_own_form(root: Path, name: str) -> Path:
    folder = root / OWN[name][0]
    dev = "dev_matched.tsv" if name == "mnli" else "dev.tsv"
    write_own(folder / "train.tsv", name, made(name, 0, 40))
    write_own(folder / dev, name, made(name, 40, 8))
    if name == "mnli":
        write_own(folder / "dev_mismatched.tsv", name, made(name, 48, 5))
    return root


def in_lines(root: Path, name: str) -> Path:
    pairs = name not in ("cola", "sst2")
    folder = root / "glue" / name
    dev = "dev_matched.jsonl" if name == "mnli" else "dev.jsonl"
    write_lines(folder / "train.jsonl", made(name, 0, 40), pairs)
    write_lines(folder / dev, made(name, 40, 8), pairs)
    if name in PUBLISHED_TEST:
        write_lines(folder / "test.jsonl", made(name, 48, 6), pairs)
    if name == "mnli":
        write_lines(folder / "dev_mismatched_sample.jsonl", made(name, 48, 5), pairs)
    return root


def texts(examples: Sequence[Example]) -> list[str]:
    return [example.text for example in examples]


def firsts(rows: Rows) -> list[str]:
    return [row[0] for row in rows]


FORMS = pytest.mark.parametrize("form", [in_own_form, in_lines], ids=["own files", "JSON lines"])


@FORMS
@pytest.mark.parametrize("name", GLUE)
def test_glue(tmp_path: Path, name: str, form: Callable[[Path, str], Path]) -> None:
    task = load_catalog_task(name, folder=form(tmp_path, name))
    assert (task.name, task.labels, task.metric) == (name, LABELS[name], METRIC[name])
    assert task.positive == POSITIVE[name]
    assert task.kind == ("regression" if name == "stsb" else "classification")
    assert task.pairs == (name not in ("cola", "sst2"))

    everything = made(name, 0, 54)
    named = dict(zip(WRITTEN[name], LABELS[name] or map(float, WRITTEN[name]), strict=True))
    rows = {a: (b if task.pairs else None, named[y]) for a, b, y in everything}
    for example in (*task.train, *task.dev, *task.test):
        assert (example.pair, example.label) == rows[example.text]

    if name in PUBLISHED_TEST and form is in_lines:
        assert texts(task.train) == firsts(made(name, 0, 40))
        assert texts(task.dev) == firsts(made(name, 40, 8))
        assert texts(task.test) == firsts(made(name, 48, 6))
        assert task.notes[1:3] == ("test: its own test set", "dev: its own dev set")
    else:
        # The official dev set is reported; dev is a part of train.
        assert texts(task.test) == firsts(made(name, 40, 8))
        assert sorted(texts([*task.train, *task.dev])) == sorted(firsts(made(name, 0, 40)))
        assert 2 <= len(task.dev) <= 5
        assert task.notes[1:3] == (
            "test: the official dev set, since the official test set has no public labels",
            f"dev: {len(task.dev)} rows cut from train with seed 0",
        )


def test_the_cut_follows_the_seed_and_keeps_the_classes(tmp_path: Path) -> None:
    root = in_lines(tmp_path, "rte")
    first, again, other = (load_catalog_task("rte", folder=root, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert texts(first.dev) != texts(other.dev)
    assert texts(first.test) == texts(other.test)
    assert Counter(example.label for example in first.dev) == {
        "entailment": 2,
        "not_entailment": 2,
    }


def test_equal_texts_stay_on_one_side_of_the_cut(tmp_path: Path) -> None:
    rows = made("cola", 0, 30)
    write_lines(tmp_path / "train.jsonl", [*rows, *rows], pairs=False)
    write_lines(tmp_path / "dev.jsonl", made("cola", 40, 8), pairs=False)
    task = load_catalog_task("cola", folder=tmp_path)
    assert len(task.train) + len(task.dev) == 60
    assert task.dev
    assert not set(texts(task.train)) & set(texts(task.dev))


@pytest.mark.parametrize("name", ["mnli", "qnli", "sst2"])
def test_rows_kept_apart_are_selected_by(tmp_path: Path, name: str) -> None:
    root = in_lines(tmp_path, name)
    kept = made(name, 60, 7)
    write_lines(root / "glue" / name / "dev_from_train.jsonl", kept, pairs=name != "sst2")
    task = load_catalog_task(name, folder=root)
    assert texts(task.train) == firsts(made(name, 0, 40))
    assert texts(task.dev) == firsts(kept)
    assert texts(task.test) == firsts(made(name, 40, 8))
    assert task.notes[2] == "dev: rows kept apart from train"


@FORMS
def test_the_mismatched_set(tmp_path: Path, form: Callable[[Path, str], Path]) -> None:
    found = load_split("mnli", "mismatched", folder=form(tmp_path, "mnli"))
    assert texts(found) == firsts(made("mnli", 48, 5))
    assert [example.label for example in found[:3]] == list(LABELS["mnli"])


def test_mrpc_with_the_labelled_test_set(tmp_path: Path) -> None:
    root = in_own_form(tmp_path, "mrpc")
    write_own(root / "MRPC" / "msr_paraphrase_test.txt", "mrpc", made("mrpc", 48, 6))
    task = load_catalog_task("mrpc", folder=root)
    assert texts(task.dev) == firsts(made("mrpc", 40, 8))
    assert texts(task.test) == firsts(made("mrpc", 48, 6))


def test_mrpc_as_it_was_published(tmp_path: Path) -> None:
    write_own(tmp_path / "msr_paraphrase_train.txt", "mrpc", made("mrpc", 0, 40))
    write_own(tmp_path / "msr_paraphrase_test.txt", "mrpc", made("mrpc", 40, 8))
    task = load_catalog_task("mrpc", folder=tmp_path)
    assert (len(task.train), len(task.dev), len(task.test)) == (36, 4, 8)
    assert task.columns == {"text": "#1 String", "pair": "#2 String", "label": "Quality"}
    assert task.notes[1:3] == (
        "test: its own test set",
        "dev: 4 rows cut from train with seed 0",
    )


def test_names_of_labels_are_read_as_well_as_numbers(tmp_path: Path) -> None:
    rows = [(a, b, LABELS["wnli"][int(y)]) for a, b, y in made("wnli", 0, 40)]
    write_lines(tmp_path / "train.jsonl", rows, pairs=True)
    write_lines(tmp_path / "dev.jsonl", made("wnli", 40, 8), pairs=True)
    task = load_catalog_task("wnli", folder=tmp_path)
    assert {example.label for example in (*task.train, *task.test)} == set(LABELS["wnli"])


def in_extra(root: Path, name: str) -> Path:
    folder = root / "extra" / name
    for split, start, count in (("train", 0, 20), ("dev", 20, 6), ("test", 26, 5)):
        write_lines(folder / f"{split}.jsonl", made(name, start, count), pairs=False)
    return root


def test_a_further_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTERBANK_DATA", str(in_extra(tmp_path, "airline")))
    task = load_catalog_task("airline")
    assert task.labels == ("bright", "dull", "odd")
    assert [texts(split) for split in (task.train, task.dev, task.test)] == [
        firsts(made("airline", 0, 20)),
        firsts(made("airline", 20, 6)),
        firsts(made("airline", 26, 5)),
    ]
    assert task.columns == {"text": "text", "label": "label"}
    assert task.notes == (
        "Airline sentiment (CrowdFlower), read from extra/airline",
        "test: its own test set",
        "dev: its own dev set",
    )


def test_codes_get_names(tmp_path: Path) -> None:
    for split, start in (("train", 0), ("dev", 20), ("test", 40)):
        rows = [(a, b, "betm"[i % 4]) for i, (a, b, _) in enumerate(made("", start, 20))]
        write_lines(tmp_path / f"{split}.jsonl", rows, pairs=False)
    task = load_catalog_task("news_aggregator", folder=tmp_path)
    assert task.labels == ("business", "entertainment", "health", "science and technology")
    assert [example.label for example in task.train[:4]] == [
        "business",
        "entertainment",
        "science and technology",
        "health",
    ]


def test_out_of_scope_texts(tmp_path: Path) -> None:
    root = in_extra(tmp_path, "clinc150")
    write_lines(root / "extra/clinc150/oos_test.jsonl", [(SENTENCES[50], "", "oos")], pairs=False)
    found = load_split("clinc150", "out_of_scope", folder=root)
    assert found == (Example(SENTENCES[50], "oos"),)
    assert "oos" not in load_catalog_task("clinc150", folder=root).labels


def squad(contexts: Sequence[str], prefix: str) -> str:
    def paragraph(number: int, context: str) -> dict[str, Any]:
        answer = context.split()[0]
        return {
            "context": context,
            "qas": [
                {
                    "id": f"{prefix}-{number}-{i}",
                    "question": f"Who comes {i}th?",
                    "answers": [{"text": answer, "answer_start": 0}],
                }
                for i in range(2)
            ],
        }

    paragraphs = [paragraph(number, context) for number, context in enumerate(contexts)]
    return json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]})


def test_squad_is_cut_by_context_however_it_is_tokenised(tmp_path: Path) -> None:
    folder = tmp_path / "squad" / "v1.1"
    raw = [f"Pilot {number} (tall) won't land; rivers freeze." for number in range(30)]
    tokenised = [f"Pilot {number} ( tall ) wo n't land ; rivers freeze ." for number in range(30)]
    write(folder / "train_a.json", [squad(raw, "a")])
    write(folder / "train_b.json", [squad(tokenised, "b")])
    write(folder / "dev.json", [squad(["Nobody sings."], "d")])
    task = load_catalog_task("squad", folder=tmp_path)
    assert (task.kind, task.metric, task.labels) == ("span", "f1", ())
    assert len(task.train) + len(task.dev) == 120
    assert 8 <= len(task.dev) <= 12

    def pilots(examples: Sequence[Example]) -> set[str]:
        return {str(example.pair).split()[1] for example in examples}

    assert not pilots(task.train) & pilots(task.dev)
    assert [example.id for example in task.test] == ["d-0-0", "d-0-1"]
    assert task.test[0].answers == (("Nobody", 0),)


def test_squad_v2_has_a_dev_set_to_read_alone(tmp_path: Path) -> None:
    write(tmp_path / "squad" / "v2.0" / "dev-v2.0.json", [squad(["Nobody sings."], "d")])
    assert len(load_split("squad_v2", "dev", folder=tmp_path)) == 2
    with pytest.raises(DataError) as error:
        load_catalog_task("squad_v2", folder=tmp_path)
    assert str(error.value) == (
        f"{tmp_path} has no train rows of squad_v2. The data folder holds "
        "squad/v2.0 with train*.json, dev*.json (SQuAD's JSON)."
    )


def test_cap_takes_a_seeded_sample_of_train_alone(tmp_path: Path) -> None:
    root = in_lines(tmp_path, "cola")
    whole = load_catalog_task("cola", folder=root)
    few = load_catalog_task("cola", folder=root, cap=10)
    assert (len(few.train), few.dev, few.test) == (10, whole.dev, whole.test)
    places = [whole.train.index(example) for example in few.train]
    assert places == sorted(places)
    assert places != list(range(10))
    assert few.notes[3] == "train: 10 of 36 rows, drawn with seed 0"
    assert few == load_catalog_task("cola", folder=root, cap=10)
    assert load_catalog_task("cola", folder=root, cap=36) == whole
    with pytest.raises(ConfigError, match=r"^cap is 0\. Choose 1 or more\.$"):
        load_catalog_task("cola", folder=root, cap=0)


def test_broken_rows_of_qqp_are_named(tmp_path: Path) -> None:
    root = in_own_form(tmp_path, "qqp")
    train = root / "QQP" / "train.tsv"
    rows = [(f"{a} {n}", b, y) for n in range(6) for a, b, y in made("qqp", 0, 40)]
    write_own(train, "qqp", rows)
    lines = train.read_text("utf-8").splitlines()
    write(train, [*lines[:7], "7\t7\t7\tIs this", "right?\t1", *lines[7:]])
    task = load_catalog_task("qqp", folder=root)
    assert len(task.train) + len(task.dev) == 240
    assert "train.tsv: rows that cannot be read were passed over (2: 7, 8)" in task.notes

    write(train, [*lines[:7], "7\t7\t7\tIs this", "right?\t1", "why?\t1", *lines[7:]])
    with pytest.raises(DataError) as error:
        load_catalog_task("qqp", folder=root)
    assert str(error.value) == (
        "qqp: train.tsv, row 7 (line 8): 4 tab-separated cells, where 6 are expected."
    )


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        ("rte", "9\tone\ttwo", "3 tab-separated cells, where 4 are expected"),
        ("rte", "9\tone\t\tentailment", "the sentence2 is empty"),
        (
            "rte",
            "9\tone\ttwo\tmaybe",
            "the label 'maybe' is none of entailment, not_entailment",
        ),
        ("cola", "s\t2\t\tone", "the label '2' is none of 0, 1, unacceptable, acceptable"),
        ("cola", "s\t\t\tone", "the label is missing (empty, null or NaN)"),
        (
            "stsb",
            "0\tg\tf\ty\t0\ts\ts\tone\ttwo\thigh",
            "the label 'high' is not a number",
        ),
        ("mnli", "0\tp\tone\ttwo\tneutral\t-", "the label '-' is none of contradiction, "),
    ],
)
def test_rows_that_cannot_be_read(tmp_path: Path, name: str, line: str, problem: str) -> None:
    root = in_own_form(tmp_path, name)
    train = root / OWN[name][0] / "train.tsv"
    header = bool(OWN[name][1])
    with train.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    with pytest.raises(DataError) as error:
        load_catalog_task(name, folder=root)
    assert error.value.message.startswith(
        f"{name}: train.tsv, row 41 (line {41 + header}): {problem}"
    )


def test_a_column_that_is_missing(tmp_path: Path) -> None:
    root = in_own_form(tmp_path, "rte")
    write(root / "RTE" / "train.tsv", ["index\tpremise\tsentence2\tlabel", "0\ta\tb\tentailment"])
    with pytest.raises(DataError) as error:
        load_catalog_task("rte", folder=root)
    assert str(error.value) == (
        "train.tsv has no column 'sentence1'. It has 'index', 'premise', 'sentence2', 'label'."
    )


def test_a_label_that_train_does_not_have(tmp_path: Path) -> None:
    root = in_extra(tmp_path, "snips")
    write_lines(root / "extra/snips/test.jsonl", [("ok", "", "odd"), ("hm", "", "grey")], False)
    with pytest.raises(DataError) as error:
        load_catalog_task("snips", folder=root)
    assert str(error.value) == (
        "snips, test, row 2: the label 'grey' is not in train. Labels of train: bright, dull, odd."
    )


def test_too_few_rows_to_cut(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", made("cola", 0, 4), pairs=False)
    write_lines(tmp_path / "dev.jsonl", made("cola", 40, 8), pairs=False)
    with pytest.raises(DataError, match=r"^cola: 4 train rows are too few to cut dev rows from "):
        load_catalog_task("cola", folder=tmp_path)


def test_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADAPTERBANK_DATA", raising=False)
    with pytest.raises(DataError) as error:
        load_catalog_task("cola")
    assert str(error.value) == (
        "There is no data for cola: no folder is given, and ADAPTERBANK_DATA is not set. "
        "Set ADAPTERBANK_DATA to a folder that holds "
        "glue/cola with train.jsonl, dev.jsonl (JSON lines of text, label), or "
        "CoLA with train.tsv, dev.tsv (GLUE's own files), "
        'or use folder="hub" to download it.'
    )
    with pytest.raises(DataError) as error:
        load_catalog_task("disasters", folder=tmp_path)
    assert str(error.value) == (
        f"{tmp_path} has no train rows of disasters. The data folder holds "
        "extra/disasters with train.jsonl, dev.jsonl, test.jsonl (JSON lines of text, label)."
    )
    with pytest.raises(DataError, match="nowhere is not a folder"):
        load_catalog_task("cola", folder=tmp_path / "nowhere")


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    root = in_extra(tmp_path, "airline")
    (root / "extra" / "airline" / "test.jsonl").unlink()
    with pytest.raises(DataError) as error:
        load_catalog_task("airline", folder=root)
    assert error.value.message == (
        f"airline: there is no test.jsonl in {root / 'extra' / 'airline'}."
    )


def test_only_a_folder_that_is_given_may_be_the_task_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = in_extra(tmp_path, "airline") / "extra" / "airline"
    assert len(load_catalog_task("airline", folder=own).train) == 20
    monkeypatch.setenv("ADAPTERBANK_DATA", str(own))
    with pytest.raises(DataError, match="has no train rows of disasters"):
        load_catalog_task("disasters")


class Hub:
    """Stands in for the hub: datasets by name, configuration and split."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, splits: dict[str, Any]) -> None:
        import datasets

        self.asked: list[tuple[str, str | None, str]] = []

        def load_dataset(name: str, config: str | None, split: str) -> Any:
            self.asked.append((name, config, split))
            return splits[split]

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)


def hub_split(rows: Rows, texts: Sequence[str], names: Sequence[str], labelled: bool = True) -> Any:
    import datasets

    columns = {column: [row[i] for row in rows] for i, column in enumerate(texts)}
    columns["label"] = [int(row[2]) if labelled else -1 for row in rows]
    features = dict.fromkeys(texts, datasets.Value("string"))
    features["label"] = datasets.ClassLabel(names=list(names))
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def test_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def split(start: int, count: int) -> Any:
        return hub_split(made("cola", start, count), ["sentence"], LABELS["cola"])

    hub = Hub(monkeypatch, {"train": split(0, 40), "validation": split(40, 8)})
    task = load_catalog_task("cola", folder="hub")
    assert sorted(hub.asked) == [
        ("nyu-mll/glue", "cola", "train"),
        ("nyu-mll/glue", "cola", "validation"),
    ]
    assert (len(task.train), len(task.dev), len(task.test)) == (36, 4, 8)
    assert [example.label for example in task.test[:2]] == ["unacceptable", "acceptable"]
    assert task.notes[0] == "Corpus of Linguistic Acceptability, read from nyu-mll/glue/cola"


@pytest.mark.parametrize("labelled", [True, False])
def test_a_test_set_on_the_hub_counts_if_it_is_labelled(
    monkeypatch: pytest.MonkeyPatch, labelled: bool
) -> None:
    columns = ["sentence1", "sentence2"]
    splits = {
        "train": hub_split(made("mrpc", 0, 40), columns, LABELS["mrpc"]),
        "validation": hub_split(made("mrpc", 40, 8), columns, LABELS["mrpc"]),
        "test": hub_split(made("mrpc", 48, 6), columns, LABELS["mrpc"], labelled),
    }
    Hub(monkeypatch, splits)
    task = load_catalog_task("mrpc", folder="hub")
    assert (len(task.train), len(task.dev), len(task.test)) == (
        (40, 8, 6) if labelled else (36, 4, 8)
    )


def test_squad_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def split(count: int) -> Any:
        rows = [
            {
                "id": str(i),
                "title": "T",
                "context": f"Number {i} stands here.",
                "question": "Which number?",
                "answers": {"text": [str(i)], "answer_start": [7]},
            }
            for i in range(count)
        ]
        return datasets.Dataset.from_list(rows)

    hub = Hub(monkeypatch, {"train": split(20), "validation": split(3)})
    task = load_catalog_task("squad", folder="hub")
    assert hub.asked[0] == ("rajpurkar/squad", None, "train")
    assert (len(task.train), len(task.dev), len(task.test)) == (18, 2, 3)
    assert task.test[2] == Example(
        "Which number?",
        pair="Number 2 stands here.",
        id="2",
        answers=(("2", 7),),  # type: ignore[arg-type]
    )


def test_what_is_not_on_the_hub() -> None:
    with pytest.raises(DataError, match=r"^airline is not known to be on the hub\. Give a folder "):
        load_catalog_task("airline", folder="hub")
    with pytest.raises(DataError) as error:
        load_split("stsb", "test", folder="hub")
    assert str(error.value) == "stsb has no split 'test' on the hub. It has train, dev."


def test_the_table() -> None:
    names = catalog_names()
    assert names[:9] == GLUE
    assert {"clinc150", "snips", "subj", "squad", "squad_v2"} < set(names)
    entries = [find(name) for name in names]
    first = sorted(entry.table[1] for entry in entries if entry.table and entry.table[0] == 1)
    assert first == [1, 2, 3, 4, 5, 6, 8, 9]  # 7 is mnli's mismatched set
    second = [entry.table[1] for entry in entries if entry.table and entry.table[0] == 2]
    assert second == list(range(1, 18))
    for entry in entries:
        assert entry.metric in METRICS
        assert not entry.labels or not entry.positive or entry.positive in entry.labels
        assert set(entry.label_names.values()) <= set(entry.labels)
    assert all("minilm" in find(name).note for name in ("mnli", "qqp", "squad", "squad_v2"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("agnews", "Near it: agnews7600"),
        ("SST-2", "Near it: sst2"),
        ("zzz", f"It has {', '.join(ENTRIES)}."),
    ],
)
def test_unknown_names(name: str, hint: str) -> None:
    with pytest.raises(DataError) as error:
        find(name)
    assert error.value.message == f"There is no task {name!r} in the catalogue."
    assert error.value.hint.startswith(hint)


def test_unknown_splits() -> None:
    with pytest.raises(DataError) as error:
        load_split("mnli", "matched")
    assert str(error.value) == (
        "mnli has no split 'matched'. It has train, dev, selection, mismatched."
    )


def test_a_task_s_notes_end_with_what_to_know(tmp_path: Path) -> None:
    task: Task = load_catalog_task("wnli", folder=in_lines(tmp_path, "wnli"))
    assert task.notes[-1].startswith("The paper leaves it out")
