"""Studies: one store of runs, the choice on dev, seeds after it, and the table that comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from adapterbank import learn as learning
from adapterbank.compute.protocol import Event, Work
from adapterbank.compute.records import only_one
from adapterbank.errors import ComputeError, ConfigError, DataError
from adapterbank.order import DEFAULT_SIZE
from adapterbank.streams.arrivals import Arrival
from adapterbank.studies.answers import kind_of
from adapterbank.studies.data import load
from adapterbank.studies.run import run_study
from adapterbank.studies.runs import Rows, RunConfig, RunStore
from adapterbank.studies.study import Study
from adapterbank.studies.study_file import read_study
from adapterbank.studies.table import Table, table_of
from adapterbank.studies.work import work
from adapterbank.training import recipe as recipes
from in_process import InProcess
from tiny import save_base

STUDY = """
title = "Small"
base = "{base}"
tasks = ["support", "reviews"]
seeds = 2
widen = 0
train_rows = 40
dev_rows = 30
test_rows = 30
reference = "full"

[[arm]]
name = "adapters"
size = 4
epochs = 1
learning_rate = [1e-3, 1e-2]

[[arm]]
name = "full"
method = "full"
epochs = 1

[[arm]]
name = "features"
method = "frozen features"
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


def write(folder: Path, text: str) -> Path:
    home = folder / "small"
    home.mkdir(parents=True, exist_ok=True)
    (home / "study.toml").write_text(text)
    return home


def study_of(folder: Path, base: Path, change: tuple[str, str] = ("", "")) -> Study:
    return read_study(write(folder, STUDY.format(base=base).replace(*change)))


@pytest.fixture(scope="module")
def done(tmp_path_factory, base) -> Study:
    """The study, run to its end."""
    study = study_of(tmp_path_factory.mktemp("done"), base)
    list(run_study(study, InProcess()))
    return study


def arguments_of(study: Study, config: RunConfig) -> dict[str, Any]:
    return {
        "config": asdict(config),
        "base": study.base,
        "data": str(
            study.folder.parent / ".runs" / "data" / f"{study.task(config.rows).digest}.jsonl"
        ),
        "runs": str(study.store.folder),
    }


def told(study: Study) -> str:
    kind = kind_of(study)
    return kind.markdown(kind.compute(study))


class Halting(InProcess):
    """Ends in the middle."""

    def run(self, works: list[Work]) -> Iterator[Event]:
        ended = 0
        for event in super().run(works):
            yield event
            ended += event.kind == "done"
            if ended == 3:
                raise KeyboardInterrupt


def test_the_best_on_dev_runs_with_every_seed(done) -> None:
    assert done.missing() == []
    for rows in done.rows:
        arm = done.arms[0]
        first = {r: done.store.get(done.config(rows, {**arm.fixed, "learning_rate": r}, 0))
                 for r in (1e-3, 1e-2)}  # fmt: skip
        metric = done.task(rows).metric
        best = max(first, key=lambda rate: first[rate]["dev"][metric])
        assert done.chosen(rows, arm)["learning_rate"] == best
        seeds = [done.store.get(c)["config"]["seed"] for c in done.runs(rows, arm)]
        assert sorted(seeds) == [0, 0, 1]


def test_a_study_that_is_done_runs_nothing(done) -> None:
    compute = InProcess()
    assert list(run_study(done, compute)) == []
    assert compute.works == []


def test_stopped_and_gone_on_with_the_records_are_the_same(done, base, tmp_path) -> None:
    study = study_of(tmp_path, base)
    with pytest.raises(KeyboardInterrupt):
        list(run_study(study, Halting()))
    assert len(list(study.store.folder.glob("*.json"))) == 3
    compute = InProcess()
    list(run_study(study, compute))
    whole = {path.name for path in done.store.folder.glob("*.json")}
    assert {path.name for path in study.store.folder.glob("*.json")} == whole
    assert len(compute.works) == len(whole) - 3
    for name in whole:
        one, other = (json.loads((s.store.folder / name).read_text()) for s in (done, study))
        for record in (one, other):
            record.pop("seconds")
        assert one == other
    assert not list(study.store.folder.glob(".*partial*"))


def test_studies_share_runs(done, base) -> None:
    other = done.folder.parent / "other"
    other.mkdir()
    text = STUDY.format(base=base).replace('"Small"', '"Other"').split('[[arm]]\nname = "full"')[0]
    (other / "study.toml").write_text(text.replace('reference = "full"\n', ""))
    assert read_study(other).missing() == []


@pytest.mark.parametrize(
    "change",
    [
        ("train_rows = 40", "train_rows = 39"),
        ("size = 4", "size = 2"),
        ("epochs = 1", "epochs = 2"),
    ],
)
def test_what_a_result_depends_on_makes_another_run(done, base, tmp_path, change) -> None:
    changed = study_of(tmp_path, base, change)
    before = {config.digest for config in done.needed()}
    assert not before & {c.digest for c in changed.runs(changed.rows[0], changed.arms[0])}


def test_the_recipes_own_numbers_are_part_of_a_run(done, monkeypatch) -> None:
    """When the default changes, a study that leaves a number to it runs anew."""
    rows, settings = done.rows[0], {"size": 4}
    before = done.config(rows, settings, 0)
    monkeypatch.setitem(recipes.LEARNING_RATES, "adapters", 0.5)
    assert done.config(rows, settings, 0).digest != before.digest


def test_a_whole_number_is_the_same_run_as_the_fraction_it_is(done) -> None:
    rows = done.rows[0]
    whole, fraction = (
        done.config(rows, {"clip": number, "init_std": number}, 0) for number in (1, 1.0)
    )
    assert whole.digest == fraction.digest


def test_a_default_that_is_spelt_out_is_the_same_run(done) -> None:
    rows = done.rows[0]
    plain = done.config(rows, {}, 0)
    assert done.config(rows, {"size": DEFAULT_SIZE, "activation": "gelu_tanh"}, 0) == plain
    assert done.config(rows, {"method": "full", "size": 4}, 0) == done.config(
        rows, {"method": "full"}, 0
    )
    assert done.config(rows, {"first_layer": 1}, 0) != plain


def test_a_run_on_some_layers(done) -> None:
    """What JSON makes of a tuple is read back."""
    config = done.config(done.rows[0], {"first_layer": 2, "size": 2, "epochs": 1}, 0)
    arguments = arguments_of(done, config)
    record = work(json.loads(json.dumps(arguments)), lambda _: None)
    whole = done.config(done.rows[0], {"size": 2, "epochs": 1}, 0)
    assert config.settings["layers"] == (2, 3)
    assert record["trained_parameters"] > 0
    assert config.digest != whole.digest


def test_rows_are_cut_the_same_way_every_time() -> None:
    source = Arrival("support", "support")
    small, large = load(Rows("support", train=20), source), load(Rows("support"), source)
    assert len(small.train) == 20
    assert [row for row in large.train if row in small.train] == list(small.train)
    assert load(Rows("support", train=20), source).train == small.train
    assert small.test == large.test


def test_the_table_holds_test_scores_and_the_gap_seed_by_seed(done) -> None:
    table = table_of(done)
    cell = table.cells["adapters"]["support"]
    metric = done.task(done.rows[0]).metric
    assert list(cell.scores) == [100 * r["test"][metric] for r in cell.records]
    assert [r["config"]["seed"] for r in cell.records] == [0, 1]
    gap = table.gap("adapters", "full")
    by_seed = [
        sum(
            table.cells["adapters"][t].scores[s] - table.cells["full"][t].scores[s]
            for t in table.tasks
        )
        / 2
        for s in (0, 1)
    ]
    assert gap.mean == pytest.approx(sum(by_seed) / 2)
    assert gap.error == pytest.approx(abs(by_seed[0] - by_seed[1]) / 2)
    text = told(done)
    assert "against full" in text
    assert f"{gap.mean:+.2f} ± {gap.error:.2f}" in text
    assert len(table.cells["features"]["support"].scores) == 1


def test_a_gap_is_over_the_tasks_that_both_are_done_with(done) -> None:
    whole = table_of(done)
    cells = {arm: dict(found) for arm, found in whole.cells.items()}
    del cells["adapters"]["support"]
    table = Table(done, cells)
    assert whole.gap("adapters", "full").tasks == 2
    assert table.gap("adapters", "full").tasks == 1
    assert table.gap("features", "full").tasks == 2
    assert table.gap("adapters", "full", ["support"]) is None


def test_an_arm_with_a_run_missing_has_no_mean(base, tmp_path) -> None:
    study = study_of(tmp_path, base)
    with pytest.raises(KeyboardInterrupt):
        list(run_study(study, Halting()))
    table = table_of(study)
    assert table.mean("full") is None
    assert table.gap("adapters", "full") is None
    assert "adapters" in told(study)


def test_every_setting_stands_for_itself_without_a_choice(base, tmp_path) -> None:
    # Drawn as rates: a table has no place for more than one.
    every = 'seeds = 2\nchoose = false\nfigure = "rates"'
    text = STUDY.format(base=base).replace("seeds = 2", every)
    study = read_study(write(tmp_path, text.partition('[[arm]]\nname = "features"')[0]))
    assert len(study.runs(study.rows[0], study.arms[0])) == 4


def test_an_arm_may_choose_where_its_study_does_not(base, tmp_path) -> None:
    of_study, of_arm = (
        ("seeds = 2", "seeds = 2\nchoose = false"),
        ("size = 4", "choose = true\nsize = 4"),
    )
    text = STUDY.format(base=base).replace(*of_study).replace(*of_arm)
    study = read_study(write(tmp_path, text))
    runs = study.runs(study.rows[0], study.arms[0])
    assert [config.seed for config in runs] == [0, 0]  # the other seed is the winner's alone


def test_runs_that_fail_are_named_and_the_others_kept(base, tmp_path) -> None:
    class Failing(InProcess):
        def run(self, works: list[Work]) -> Iterator[Event]:
            first, *others = works
            yield Event(first.id, "failed", {"message": "no memory"})
            yield from super().run(others)

    study = study_of(tmp_path, base)
    with pytest.raises(ComputeError, match=r"1 of \d+ runs failed.*support, adapters.*no memory"):
        list(run_study(study, Failing()))
    assert len(study.missing()) >= 1
    assert list(study.store.folder.glob("*.json"))


def test_a_record_is_kept_whole_or_not_at_all(tmp_path, monkeypatch) -> None:
    store = RunStore(tmp_path)
    config = RunConfig(Rows("support"), "d", "b", "full")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="No space"):
        store.put(config, {"dev": {}})
    assert store.get(config) is None
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_record_is_said_with_its_way_out(tmp_path) -> None:
    store = RunStore(tmp_path)
    config = RunConfig(Rows("support"), "d", "b", "full")
    store.path(config).write_text("{")
    with pytest.raises(ConfigError, match=r"cannot be read.*Delete it"):
        store.get(config)


def test_a_record_that_is_none_or_anothers_is_not_taken(tmp_path) -> None:
    """It would be taken for what its name says, or fail where it is read."""
    store = RunStore(tmp_path)
    config = RunConfig(Rows("support"), "d", "b", "full")
    other = RunConfig(Rows("reviews"), "d", "b", "full")
    good = {"metric": "f1", "dev": {"f1": 0.5}, "test": {"f1": 0.5}}
    store.put(config, good)
    assert store.get(config) is not None
    for bad, said in (
        ({"test": {"f1": float("nan")}}, "its scores"),
        ({"test": {}}, "lacks 'f1'"),
        ({"config": asdict(other)}, "of another run"),
        ({"config": None}, "lacks"),
    ):
        store.put(config, {**good, **bad})
        with pytest.raises(ConfigError, match=rf"{said}.*Delete it"):
            store.get(config)
    for text in ("[]", "null", "{}"):
        store.path(config).write_text(text)
        with pytest.raises(ConfigError, match="Delete it"):
            store.get(config)


def test_another_base_is_not_taken_for_the_studys(done) -> None:
    config = replace(done.needed()[0], base="0" * 64)
    with pytest.raises(ConfigError, match="The base"):
        work(arguments_of(done, config), lambda _: None)


def test_a_damaged_file_of_rows_is_said_with_its_way_out(done, tmp_path) -> None:
    arguments = arguments_of(done, replace(done.needed()[0], seed=7))
    (tmp_path / "rows.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"rows\.jsonl.*Delete the file"):
        work({**arguments, "data": str(tmp_path / "rows.jsonl")}, lambda _: None)


def test_a_run_that_another_process_makes_is_waited_for(done, monkeypatch) -> None:
    """Then its record is there, and nothing is trained twice."""
    config = replace(done.needed()[0], seed=8)
    record = dict(done.store.get(done.needed()[0]) or {})
    del record["config"]
    states = done.store.folder.parent / ".runs"
    found = []
    thread = Thread(target=lambda: found.append(work(arguments_of(done, config), lambda _: None)))
    monkeypatch.setattr(learning, "learn", None)  # it would fail
    with only_one(states / f"{config.digest}.running"):
        thread.start()
        thread.join(timeout=2)
        assert thread.is_alive()
        done.store.put(config, record)
    thread.join(timeout=60)
    assert found[0]["test"] == record["test"]
    assert not list(states.glob("*.running"))
    done.store.path(config).unlink()


def test_two_probes_of_one_training_are_made_one_after_the_other(done) -> None:
    """They would write one state."""
    config = done.config(done.rows[0], {"size": 4, "epochs": 1, "probe": "fp16"}, 7)
    training = replace(config, probe="")
    found = []
    thread = Thread(target=lambda: found.append(work(arguments_of(done, config), lambda _: None)))
    with only_one(done.store.folder.parent / ".runs" / f"{training.digest}.running"):
        thread.start()
        thread.join(timeout=2)
        assert thread.is_alive()
    thread.join(timeout=60)
    assert "fp16" in found[0]
    done.store.path(config).unlink()


def test_other_rows_are_not_taken_for_the_studys(done) -> None:
    config = replace(done.needed()[0], data="0" * 64)
    with pytest.raises(DataError, match=r"rows of support .*not those of the study"):
        work(arguments_of(done, config), lambda _: None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "Invalid value"),
        ("colour = 1", "unknown entry 'colour'"),
        ('title = "x"\ntasks = ["support"]', "has no arm"),
        ('title = "x"\ntasks = ["support"]\n[[arm]]\nsize = 1', "an arm has no name"),
        (
            'title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\nsize = []',
            "size of a is an empty",
        ),
        ('title = "x"\ntasks = ["support"]\nreference = "b"\n[[arm]]\nname = "a"', "reference 'b'"),
        ('title = "x"\ntasks = ["support"]\nseeds = "3"\n[[arm]]\nname = "a"', "seeds is '3'"),
        ('title = "x"\ntasks = ["support"]\nseeds = true\n[[arm]]\nname = "a"', "seeds is True"),
        ('title = "x"\ntasks = ["support"]\nseeds = 0\n[[arm]]\nname = "a"', "number from 1"),
        ('title = "x"\ntasks = ["support"]\ndev_rows = -1\n[[arm]]\nname = "a"', "from 0"),
        ('title = "x"\ntasks = ["support"]\n[arm]\nname = "a"', "it is a list"),
        ('title = "x"\ntasks = ["support"]\narm = ["a"]', r"no table.*\[\[arm\]\]"),
        ('title = "x"\ntasks = ["support"]\nproducts = "auto"\n[[arm]]\nname = "a"', "or bf16"),
        ('title = "x"\ntasks = ["support", "support"]\n[[arm]]\nname = "a"', "two tasks .*support"),
        (
            'title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\n[[arm]]\nname = "a"',
            "two arms are called a",
        ),
        ('title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\nminutes = 2', "has 'minutes'"),
        ('title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\nseed = 2', "has 'seed'"),
        (
            'title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\nchoose = "false"',
            "choose of a is 'false'; it is true or false",
        ),
        (
            'title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\nproducts = ["fp32", "auto"]',
            "products is 'auto'",
        ),
        (
            'title = "x"\ntasks = [{name = "support", size = 16, epochs = 9}]\n[[arm]]\nname = "a"',
            r"\(support\): size or epochs is no setting of a task.*\[\[arm\]\]",
        ),
        (
            'title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\nprobe = ["fp16", "nope"]',
            r"asks for the probe \['fp16', 'nope'\]",
        ),
        (
            'title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\nmethod = "full"\n'
            'probe = "ablation"',
            "a trains by full: nothing for 'ablation'",
        ),
        (
            'title = "x"\ntasks = ["support"]\n[[arm]]\nname = "a"\nmethod = ["head", "n-grams"]\n'
            'probe = "fp16"',
            "a trains by n-grams",
        ),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(tmp_path, text, message) -> None:
    with pytest.raises(ConfigError, match=message):
        read_study(write(tmp_path, text))


def test_a_folder_without_a_study(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"no study in .*study\.toml"):
        read_study(tmp_path)


def test_a_rate_may_have_its_short_name(tmp_path, base) -> None:
    long = study_of(tmp_path, base)
    short = study_of(tmp_path / "b", base, ("learning_rate = [", "lr = ["))
    assert short.arms[0] == long.arms[0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dev": "rows.csv"}, "mine has no test rows"),
        ({"metric": "mean_absolute_error"}, "of which less is better"),
    ],
)
def test_rows_that_cannot_be_reported_are_refused_before_anything_runs(
    tmp_path, base, more, message
) -> None:
    home = tmp_path / "small"
    home.mkdir()
    lines = "".join(f"text {i},{i}.5\n" for i in range(40))
    (home / "rows.csv").write_text(f"text,label\n{lines}")
    task = ", ".join(
        f'{k} = "{v}"' for k, v in {"name": "mine", "train": "rows.csv", **more}.items()
    )
    study = study_of(tmp_path, base, ('["support", "reviews"]', f"[{{{task}}}]"))
    with pytest.raises(ConfigError, match=message):
        study.needed()


def put(study: Study, rows: Rows, settings: dict[str, Any], dev: float, seed: int = 0) -> None:
    metric = study.task(rows).metric
    scores = {"metric": metric, "dev": {metric: dev}, "test": {metric: dev}}
    study.store.put(study.config(rows, settings, seed), scores)


def test_a_best_rate_at_the_edge_asks_for_the_next_one(base, tmp_path) -> None:
    study = study_of(tmp_path, base, ("widen = 0", "widen = 2"))
    rows, arm = study.rows[0], study.arms[0]

    def rates() -> list[float]:
        return [each["learning_rate"] for each in study.tried(rows, arm)]

    assert rates() == [1e-3, 1e-2]
    put(study, rows, {**arm.fixed, "learning_rate": 1e-3}, 0.7)
    assert rates() == [1e-3, 1e-2]  # one is to be run yet
    put(study, rows, {**arm.fixed, "learning_rate": 1e-2}, 0.6)
    assert rates() == [1e-3, 1e-2, 1e-4]
    assert study.chosen(rows, arm) is None
    put(study, rows, {**arm.fixed, "learning_rate": 1e-4}, 0.8)
    assert rates() == [1e-3, 1e-2, 1e-4, 1e-5]
    put(study, rows, {**arm.fixed, "learning_rate": 1e-5}, 0.9)
    assert rates() == [1e-3, 1e-2, 1e-4, 1e-5]  # twice, no more
    assert study.chosen(rows, arm)["learning_rate"] == 1e-5


def test_a_plain_that_reaches_to_the_edge_asks_for_nothing_more(base, tmp_path) -> None:
    study = study_of(tmp_path, base, ("widen = 0", "widen = 2"))
    rows, arm = study.rows[0], study.arms[0]
    for rate in arm.grid["learning_rate"]:
        put(study, rows, {**arm.fixed, "learning_rate": rate}, 1.0)
    assert study.tried(rows, arm) == arm.candidates()
    assert study.chosen(rows, arm)["learning_rate"] == 1e-3


def test_a_best_rate_inside_is_the_best(base, tmp_path) -> None:
    study = study_of(
        tmp_path, base, ("widen = 0\n", "")
    )  # and the usual number of times is not none
    rows, arm = study.rows[0], study.arms[0]
    put(study, rows, {**arm.fixed, "learning_rate": 1e-3}, 0.6)
    put(study, rows, {**arm.fixed, "learning_rate": 1e-2}, 0.7)
    put(study, rows, {**arm.fixed, "learning_rate": 0.1}, 0.5)
    assert study.chosen(rows, arm)["learning_rate"] == 1e-2


def test_what_was_found_can_be_looked_at_without_rows_and_base(done, monkeypatch) -> None:
    """From the records and the lock alone."""
    text = told(done)

    def gone(*_: object, **__: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("adapterbank.studies.facts._task_facts", gone)
    monkeypatch.setattr("adapterbank.studies.facts._base_facts", gone)
    assert told(read_study(done.folder)) == text


OWN = """
title = "Mine"
base = "{base}"
tasks = [{{name = "mine", train = "mine.csv", text_column = "body"}}]

[[arm]]
name = "n-grams"
method = "n-grams"
tries = 2
"""


def own_rows(path: Path, rows: int = 60) -> None:
    lines = [f"{'good' if i % 2 else 'bad'} thing number {i},{i % 2}" for i in range(rows)]
    path.write_text("\n".join(["body,label", *lines]) + "\n")


def test_a_study_of_ones_own_rows(base, tmp_path) -> None:
    home = write(tmp_path, OWN.format(base=base))
    own_rows(home / "mine.csv")
    study = read_study(home)
    list(run_study(study, InProcess()))
    (record,) = study.store.folder.glob("*.json")
    assert str(tmp_path) not in record.read_text()  # what is published names no folder of ours
    assert str(tmp_path) not in (home / "study.lock").read_text().replace(str(base), "")
    assert table_of(study).cells["n-grams"]["mine"].scores[0] > 90


def test_changed_rows_do_not_stand_beside_the_old_ones(base, tmp_path) -> None:
    home = write(tmp_path, OWN.format(base=base))
    own_rows(home / "mine.csv")
    list(run_study(read_study(home), InProcess()))
    own_rows(home / "mine.csv", 80)
    with pytest.raises(ConfigError, match=r"rows of mine .*delete study\.lock"):
        list(run_study(read_study(home), InProcess()))
    (home / "study.lock").unlink()
    list(run_study(read_study(home), InProcess()))


def test_another_question_about_the_same_rows_is_asked_anew(base, tmp_path) -> None:
    home = write(tmp_path, OWN.format(base=base))
    own_rows(home / "mine.csv")
    assert read_study(home).facts.tasks["mine"].metric == "accuracy"
    path = home / "study.toml"
    path.write_text(path.read_text().replace('train = "', 'metric = "macro_f1", train = "'))
    study = read_study(home)
    assert study.facts.tasks["mine"].metric == "macro_f1"  # not what the lock has
    study.look(fresh=True)  # nor is anything said to have changed


def test_a_study_may_be_called_by_a_dot(done, monkeypatch) -> None:
    """Its neighbours' records are its own still."""
    monkeypatch.chdir(done.folder)
    here = read_study(Path())
    assert here.needed()
    assert here.missing() == []
    assert here.store.folder == done.store.folder.resolve()


def test_a_base_is_named_from_where_the_study_is(base, tmp_path, monkeypatch) -> None:
    home = write(tmp_path, OWN.format(base="../bases/tiny"))
    own_rows(home / "mine.csv")
    (tmp_path / "bases").mkdir()
    (tmp_path / "bases" / "tiny").symlink_to(base)
    monkeypatch.chdir(home / "..")
    study = read_study(Path("small"))
    list(run_study(study, InProcess()))
    assert study.missing() == []
    assert json.loads((home / "study.lock").read_text())["base"]["name"] == "../bases/tiny"


def test_what_is_trained_is_kept_until_its_record_is(done, monkeypatch) -> None:
    config = done.config(done.rows[0], {"size": 4, "epochs": 2}, 9)
    states = done.store.folder.parent / ".runs"
    before = {path for path in states.rglob("*") if path.is_file()}

    def put(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as full:
        full.setattr("adapterbank.training.checkpoint.EVERY", 0.0)
        full.setattr("adapterbank.training.checkpoint.COST", 1e9)
        full.setattr(RunStore, "put", put)
        with pytest.raises(OSError, match="No space"):
            work(arguments_of(done, config), lambda _: None)
    assert {path for path in states.rglob("*") if path.is_file()} - before
    steps: list[dict[str, Any]] = []
    work(arguments_of(done, config), steps.append)
    assert not steps  # it is all in its state
    done.store.path(config).unlink()


def test_words_are_counted_for_no_spans(done, monkeypatch) -> None:
    facts = done.facts
    spans = {name: replace(task, kind="span") for name, task in facts.tasks.items()}
    monkeypatch.setitem(done.__dict__, "facts", replace(facts, tasks=spans))
    with pytest.raises(ConfigError, match="asks for spans, which n-grams cannot answer"):
        done.config(done.rows[0], {"method": "n-grams"}, 0)


def test_a_damaged_lock_is_said_with_its_way_out(base, tmp_path) -> None:
    home = write(tmp_path, OWN.format(base=base))
    own_rows(home / "mine.csv")
    (home / "study.lock").write_text("[]")
    with pytest.raises(ConfigError, match=r"study\.lock cannot be read.*Delete it"):
        read_study(home).needed()


def test_probes(done) -> None:
    rows = done.rows[0]
    config = done.config(rows, {"size": 4, "epochs": 1, "probe": "ablation"}, 0)
    assert config.digest != done.config(rows, {"size": 4, "epochs": 1}, 0).digest
    found = work(arguments_of(done, config), lambda _: None)
    assert found["ablation"]["metric"] == "accuracy"
    assert found["ablation"]["whole"] == pytest.approx(found["test"]["accuracy"])
    half = done.config(rows, {"size": 4, "epochs": 1, "probe": "fp16"}, 0)
    found = work(arguments_of(done, half), lambda _: None)["fp16"]
    assert 0 <= found["other_answers"] <= 0.1
    assert found["bytes"] < 0.8 * found["bytes_fp32"]
