"""`evaluate` on files that are not quite those of training."""

from __future__ import annotations

import json

from adapterbank.cli.output import print_classes
from adapterbank.tasks.metrics import ClassRow
from cli.conftest import QUICK


def test_bad_rows_are_counted_and_columns_found(cli, base, data, tmp_path) -> None:
    done = cli("train", "mood", "--train", data / "rows.csv", "--base", base, *QUICK)
    assert done.returncode == 0, done.stderr
    (tmp_path / "checked.csv").write_text(
        "message,category\nthe film was good,good\n ,good\nthe film was bad,god\n"
        "the film was good,bad\nthe film was good,good\n"
    )
    done = cli("evaluate", "mood", "--data", "checked.csv")
    assert done.returncode == 1
    assert "--skip-bad" in done.stderr
    more = ("--skip-bad", "--errors", "9")
    found = json.loads(cli("evaluate", "mood", "--data", "checked.csv", *more, "--json").stdout)
    assert (found["rows"], found["left_out"]) == (3, 2)
    assert {each["row"] for each in found["errors"]} in ({4}, {1, 5})  # as the file counts them
    done = cli("evaluate", "mood", "--data", "checked.csv", *more)
    assert "mood@1 on 3 rows, 2 bad rows left out" in done.stdout


def test_labels_of_a_multi_label_task_have_rows_of_their_own(cli, base, data) -> None:
    done = cli("train", "tags", "--train", data / "tags.jsonl", "--base", base, *QUICK)
    assert "by class (test)" in done.stdout, done.stderr
    found = json.loads(cli("evaluate", "tags", "--data", data / "tags.jsonl", "--json").stdout)
    assert [row["label"] for row in found["classes"]] == ["bad", "film", "good"]
    assert [row["rows"] for row in found["classes"]] == [9, 18, 9]
    assert all(0 <= row["f1"] <= 1 for row in found["classes"])


def test_of_very_many_classes_the_worst_are_shown(capsys) -> None:
    rows = [ClassRow(f"class {i}", 5, 0.5, 0.5, i / 100, "") for i in range(40)]
    print_classes("by class", rows[::-1])
    shown = capsys.readouterr().out
    assert "class 0 " in shown
    assert "class 29" in shown
    assert "class 30" not in shown
    assert "and 10 more, with an F1 from 0.30 to 0.39" in shown
