"""The bank as a person holds it, on a tiny base."""

from __future__ import annotations

import json
import random
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from adapterbank import Bank
from adapterbank.errors import (
    BankNotFound,
    BaseDamaged,
    BaseNotFound,
    ConfigError,
    NotBetter,
    PackageError,
    TaskNotFound,
    WrongBase,
)
from adapterbank.model.encoder import load_encoder
from adapterbank.model.methods import Method
from adapterbank.model.task_model import TaskModel
from adapterbank.store.manifest import Probe
from adapterbank.store.package import read_package
from adapterbank.tasks.batches import encode
from adapterbank.tasks.task import Example
from adapterbank.training.judge import Warned
from adapterbank.training.loop import Epoch
from adapterbank.verify import verify
from tiny import save_base, tiny
from training.toy import EXAMPLES, NUMBERS, TAGGED, TASK

QUICK = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-2, "size": 4, "baselines": False}
ROWS = [{"text": e.text, "label": e.label} for e in EXAMPLES]
TEXTS = [e.text for e in EXAMPLES[:5]]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def made(tmp_path_factory, base) -> Path:
    """A bank with three tasks, the first in two versions."""
    home = tmp_path_factory.mktemp("made") / "bank"
    bank = Bank.open(home, str(base))
    bank.learn("mood", ROWS, **QUICK)
    bank.learn("mood", ROWS, **QUICK, seed=1)
    bank.learn("shop/stars", NUMBERS, **QUICK)
    bank.learn("tags", TAGGED, **QUICK, method="head")
    return home


@pytest.fixture
def bank(made, tmp_path) -> Bank:
    """A copy of it that a test may change."""
    return Bank.open(shutil.copytree(made, tmp_path / "bank"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- learning and asking


def test_learn_and_predict(bank) -> None:
    info = bank.show("mood")
    assert str(info) == "mood@2"
    assert info.manifest.labels == ("bad", "good")
    assert (
        info.manifest.data.balance == {"bad": 19, "good": 19}
        or sum(info.manifest.data.balance.values()) == info.manifest.data.rows["train"]
    )
    answers = bank.predict("mood", TEXTS)
    assert all(answer.label in ("bad", "good") for answer in answers)
    assert bank.predict("mood@1", TEXTS) != answers
    assert [str(info) for info in bank.tasks()] == ["mood@2", "tags@1", "shop/stars@1"]


def test_learning_leaves_everything_else_as_it_was(bank, tmp_path) -> None:
    before = contents(tmp_path / "bank")
    answers = bank.predict_all(TEXTS[0])
    bank.learn("another", ROWS, **QUICK)
    after = contents(tmp_path / "bank")
    assert before.items() <= after.items()
    new = {name.split("/")[2] for name in after.keys() - before.keys()}
    assert new == {"another"}
    assert {name: bank.predict(name, TEXTS[:1])[0] for name in answers} == answers
    assert all(verdict.ok and verdict.exact for verdict in bank.verify())


def test_what_a_run_warns_of_is_a_warning(bank, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.learn.warning", lambda *_: Warned("nothing was learnt"))
    with pytest.warns(UserWarning, match="nothing was learnt") as seen:
        bank.learn("another", ROWS, **QUICK)
    assert [Path(each.filename).name for each in seen] == [Path(__file__).name]


def test_mixed_inputs_are_answered_in_their_places(bank) -> None:
    draw = random.Random(0)
    asked = [
        (task, text)
        for task in ("mood", "mood@1", "shop/stars", "tags", None, "no-such", "A B")
        for text in [*TEXTS, 7, ""]
    ]
    draw.shuffle(asked)
    answers = bank.predict_mixed(asked)
    for (task, text), answer in zip(asked, answers, strict=True):
        if text in (7, "") or task in ("no-such", "A B"):
            assert answer.error is not None
            assert set(answer.as_dict()) == {"error"}
            continue
        assert answer.error is None
        if task is None:
            rows = encode(bank.encoder.tokenizer, [Example(text)], 64)
            with TaskModel(bank.encoder, "regression", method=Method("head")) as model:
                alone = model.features(*rows.take())[0]
            np.testing.assert_allclose(answer.embedding, alone, atol=1e-5)
        else:
            (alone,) = bank.predict(task, [text])
            if answer.probabilities is not None:
                for label, chance in alone.probabilities.items():
                    assert answer.probabilities[label] == pytest.approx(chance, abs=1e-5)
            else:
                assert answer.value == pytest.approx(alone.value, rel=1e-5)


@pytest.mark.filterwarnings("ignore:All 54 rows")  # wrong labels teach nothing
def test_going_on(bank) -> None:
    more = [*ROWS, *({"text": f"{row['text']} it was fine", "label": "ok"} for row in ROWS[::4])]
    info = bank.learn(
        "mood",
        more,
        from_version="mood@1",
        **{**QUICK, "epochs": 4, "learning_rate": 3e-2},
        even_if_worse=True,
    )
    assert info.manifest.origin == "mood@1"
    assert info.manifest.labels == ("bad", "good", "ok")
    wrong = [{**row, "label": "good" if row["label"] == "bad" else "bad"} for row in ROWS]
    good = bank.learn("sure", ROWS, **{**QUICK, "epochs": 10})
    with pytest.raises(NotBetter, match="sure@1 stays"):
        bank.learn("sure", wrong, dev=ROWS, test=ROWS, from_version=str(good), **QUICK)
    assert bank.show("sure").version.version == 1


@pytest.mark.filterwarnings("ignore:All 54 rows")
def test_going_on_by_the_usual_metric_again(bank) -> None:
    bank.learn("even", ROWS, metric="macro_f1", **QUICK)
    kept = bank.learn("even", ROWS, from_version="even@1", even_if_worse=True, **QUICK)
    assert kept.manifest.metric == "macro_f1"
    asked = bank.learn(
        "even", ROWS, from_version="even@1", metric="accuracy", even_if_worse=True, **QUICK
    )
    assert asked.manifest.metric == "accuracy"


def test_a_stopped_run_leaves_nothing_and_goes_on(bank, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adapterbank.training.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("adapterbank.training.checkpoint.COST", 1e9)
    before = bank.store.record("mood")
    events = bank.learning("mood", ROWS, **QUICK)
    next(event for event in events if isinstance(event, Epoch))
    events.close()
    assert bank.store.record("mood") == before
    assert list((tmp_path / "bank" / ".runs" / "default" / "mood").iterdir())
    bank.learn("mood", ROWS, **QUICK, resume=True)
    assert not list((tmp_path / "bank" / ".runs" / "default" / "mood").iterdir())
    assert bank.show("mood").version.version == 3


def test_a_base_that_changed_in_memory_publishes_nothing(bank) -> None:
    *_, learnt = bank.learning("mood", TASK, **QUICK)
    with torch.no_grad():
        next(bank.encoder.model.parameters()).view(-1)[0] += 1
    with pytest.raises(BaseDamaged, match="has changed in memory since it was loaded"):
        bank.publish("mood", learnt)
    with pytest.raises(WrongBase):
        bank.verify()
    assert bank.show("mood").version.version == 2


def test_asking_draws_no_random_numbers(bank) -> None:
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    bank.predict_mixed([("mood", TEXTS[0]), (None, TEXTS[0])])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_threads_take_turns(bank) -> None:
    expected = {task: bank.predict(task, TEXTS) for task in ("mood", "mood@1", "tags")}
    wrong: list[str] = []

    def ask(task: str) -> None:
        wrong.extend(task for _ in range(5) if bank.predict(task, TEXTS) != expected[task])

    threads = [threading.Thread(target=ask, args=(task,)) for task in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_wrong_settings_are_named(bank) -> None:
    with pytest.raises(ConfigError, match=r"no setting 'epoch'. Did you mean epochs\?"):
        bank.learn("x", ROWS, epoch=1)
    with pytest.raises(ConfigError, match="kind: a Task has been read already"):
        bank.learn("x", TASK, kind="span")
    with pytest.raises(ConfigError, match="is not a task's name"):
        bank.learn("../x", ROWS)
    with pytest.raises(TaskNotFound):
        bank.learn("x", ROWS, from_version="y@1")
    with pytest.raises(ConfigError, match="positive goes with a task that begins anew"):
        bank.learn("x", ROWS, from_version="y@1", positive="good")
    for layer in ("1", 1.0, True):
        with pytest.raises(ConfigError, match=f"first_layer is {layer!r}; this base has layers 0"):
            bank.learn("x", ROWS, first_layer=layer)
    with pytest.raises(ConfigError, match="'5' rows of train can't be had"):
        bank.learn("x", ROWS, max_rows="5")
    with pytest.raises(ConfigError, match="top_k is 9, and this encoder has 4 layers"):
        bank.learn("x", ROWS, method="top-k", top_k=9)


def test_settings_of_numpys_are_numbers(bank) -> None:
    settings = QUICK | {"seed": np.arange(4)[3], "size": np.int64(3)}
    learnt = bank.learn("counted", ROWS, max_rows=np.int64(40), **settings).manifest
    assert (learnt.recipe["seed"], learnt.adapter.size, learnt.data.rows["train"]) == (3, 3, 40)


def test_one_text_in_place_of_a_list_is_refused(bank) -> None:
    for ask in (lambda: bank.predict("mood", "good"), lambda: bank.predict_mixed("good"),
                lambda: bank.predict("mood", {"text_a": "a", "text_b": "b"})):  # fmt: skip
        with pytest.raises(ConfigError, match=r"One input came.*Give it as \[input\]"):
            ask()


# --- one bank, one base


def test_a_bank_stays_on_its_base(made, base, tmp_path) -> None:
    assert Bank.open(made, str(base)).encoder.fingerprint == Bank.open(made).store.base.fingerprint
    changed = tiny("bert")
    with torch.no_grad():
        list(changed.parameters())[-3].view(-1)[0] += 1e-3  # one number of one weight
    others = {
        "other": save_base(tmp_path / "other", model=tiny("bert", seed=1)),
        "one weight": save_base(tmp_path / "weight", model=changed),
    }
    here = Bank.open(made).store.base.fingerprint
    for folder in others.values():
        with pytest.raises(WrongBase) as caught:
            Bank.open(made, str(folder))
        there = load_encoder(str(folder)).fingerprint
        assert here in caught.value.message
        assert there in caught.value.message


def test_a_base_whose_folder_has_changed_is_refused_at_first_use(tmp_path) -> None:
    folder = save_base(tmp_path / "base")
    bank = Bank.open(tmp_path / "bank", str(folder))
    bank.learn("mood", ROWS, **QUICK)
    save_base(folder, model=tiny("bert", seed=1))
    with pytest.raises(WrongBase):
        Bank.open(tmp_path / "bank").verify()


def _other_words(tokenizer: dict) -> None:
    words = tokenizer["model"]["vocab"]
    words["good"], words["bad"] = words["bad"], words["good"]


def _other_cuts(tokenizer: dict) -> None:
    tokenizer["pre_tokenizer"] = {"type": "WhitespaceSplit"}


@pytest.mark.parametrize("change", [_other_words, _other_cuts])
def test_a_base_that_reads_texts_otherwise_is_found(tmp_path, change) -> None:
    folder = save_base(tmp_path / "base")
    bank = Bank.open(tmp_path / "bank", str(folder))
    bank.learn("mood", ROWS, **QUICK)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    change(tokenizer)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (verdict,) = Bank.open(tmp_path / "bank").verify()
    assert not verdict.ok
    assert "reads texts otherwise than when it was learnt" in verdict.problem


def test_a_missing_base_is_said_so_and_can_be_named_anew(tmp_path) -> None:
    folder = save_base(tmp_path / "base")
    Bank.open(tmp_path / "bank", str(folder)).learn("mood", ROWS, **QUICK)
    folder.rename(tmp_path / "moved")
    bank = Bank.open(tmp_path / "bank")
    assert [str(info) for info in bank.tasks()] == ["mood@1"]  # looking needs no base
    with pytest.raises(BaseNotFound, match="is not a folder"):
        bank.verify()
    moved = Bank.open(tmp_path / "bank", str(tmp_path / "moved"))
    assert moved.verify()[0].ok


def test_answers_need_no_base_once_it_was_exported(tmp_path) -> None:
    folder = save_base(tmp_path / "base", model=tiny("bert", seed=2))
    bank = Bank.open(tmp_path / "bank", str(folder))
    bank.learn("mood", ROWS, **QUICK)
    before = bank.predict("mood", TEXTS)
    folder.rename(tmp_path / "moved")
    assert Bank.open(tmp_path / "bank").predict("mood", TEXTS) == before


def test_what_is_published_is_served_at_once_and_what_is_removed_never(bank) -> None:
    other = Bank.open(bank.store.files.url)  # as another process would have it open
    before = other.predict("mood", TEXTS)
    bank.learn("mood", ROWS, **QUICK, seed=7)
    after = other.predict("mood", TEXTS)
    assert after != before
    assert after == bank.predict("mood@3", TEXTS)
    bank.rollback("mood", 2)
    assert other.predict("mood", TEXTS) == before
    bank.remove("mood")
    with pytest.raises(TaskNotFound):
        other.predict("mood", TEXTS)
    bank.remove("tags", purge=True)
    with pytest.raises(TaskNotFound):
        other.predict("tags", TEXTS)


def test_a_bank_knows_its_base_from_any_folder(tmp_path, monkeypatch) -> None:
    save_base(tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    Bank.open("bank", "base").learn("mood", ROWS, **QUICK)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Bank.open("../bank").predict("mood", TEXTS[:1])[0].label


def test_no_bank_is_made_unless_wanted(tmp_path) -> None:
    with pytest.raises(BankNotFound):
        Bank.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()


# --- verify


def test_verify_replays_every_version(bank) -> None:
    verdicts = bank.verify()
    assert [(v.task, v.version) for v in verdicts] == [
        ("mood", 1), ("mood", 2), ("tags", 1), ("shop/stars", 1)
    ]  # fmt: skip
    assert all(v.ok and v.exact and not v.problem for v in verdicts)
    assert [(v.task, v.version) for v in bank.verify("mood@1", "tags")] == [
        ("mood", 1),
        ("tags", 1),
    ]
    with pytest.raises(TaskNotFound):
        bank.verify("eggs")


def forge(bank: Bank, reference: str, change) -> None:
    """Publish a package that is whole in every digest but not what was learnt."""
    package = bank.store.load(bank.store.find(reference))
    manifest, tensors = change(package.manifest, package.tensors)
    bank.store.publish(reference, manifest, tensors)


def test_verify_finds_answers_that_are_others(bank) -> None:
    def nudge(manifest, tensors):
        return manifest, {**tensors, "head.bias": tensors["head.bias"] + 1e-6}

    forge(bank, "mood", nudge)
    verdict = bank.verify("mood@3")[0]
    assert not verdict.ok
    assert "gives other bits than when it was published, off by" in verdict.problem


def test_other_software_is_allowed_rounding_and_no_more(bank) -> None:
    def elsewhere(manifest, tensors, off=1e-6):
        software = {**manifest.software, "torch": "1.0.0"}
        return replace(manifest, software=software), {
            **tensors,
            "head.bias": tensors["head.bias"] + off,
        }

    forge(bank, "mood", elsewhere)
    verdict = bank.verify("mood@3")[0]
    assert verdict.ok
    assert not verdict.exact
    forge(bank, "mood", lambda m, t: elsewhere(m, t, 1e-3))
    verdict = bank.verify("mood@4")[0]
    assert not verdict.ok
    assert "0.0001 at most is rounding" in verdict.problem


@pytest.mark.parametrize(
    "probe",
    [
        Probe((2, 999, 3), (0.0, 0.0), "0" * 64),
        Probe((2, -1, 3), (0.0, 0.0), "0" * 64),
        Probe((), (0.0, 0.0), "0" * 64),
        Probe((5,) * 100, (0.0, 0.0), "0" * 64),
        Probe((2, 5, 3), (0.0,) * 64, "0" * 64),
        Probe((2, 5, 3), (), "0" * 64),
        None,
    ],
    ids=["beyond the vocabulary", "below it", "empty", "long", "more", "none", "no room"],
)
def test_probes_that_cannot_be_run_are_one_version_s_problem(bank, tmp_path, probe) -> None:
    def change(manifest, tensors):
        software = {**manifest.software, "torch": "1.0.0"}  # so that bits may be others
        if probe is None:
            return replace(manifest, max_length=2), tensors
        return replace(manifest, probes=(probe,), software=software), tensors

    forge(bank, "mood", change)
    verdicts = {(v.task, v.version): v for v in bank.verify()}
    assert [key for key, verdict in verdicts.items() if not verdict.ok] == [("mood", 3)]
    assert len(verdicts) == 5
    bank.export("mood", tmp_path / "out")
    with pytest.raises(PackageError, match=r"probe|max_length"):
        bank.import_(tmp_path / "out", "again")


def test_a_task_purged_while_verify_runs_is_passed_over(bank) -> None:
    """Whether it is before its turn, or in the midst of it."""
    verdicts = verify(bank.store, bank.encoder, ["mood", "tags", "shop/stars"])
    assert str(next(verdicts).task) == "mood"
    bank.remove("mood", purge=True)
    bank.remove("tags", purge=True)
    assert [(v.task, v.ok) for v in verdicts] == [("shop/stars", True)]
    with pytest.raises(TaskNotFound):
        bank.verify("shop/stars", "tags")


def test_asking_does_not_wait_for_learning(bank) -> None:
    expected = bank.predict("mood", TEXTS)  # once asked, the base's export is there
    other = Bank.open(bank.store.files.url)
    events = other.learning("another", ROWS, **QUICK)
    next(event for event in events if isinstance(event, Epoch))
    with ThreadPoolExecutor(1) as pool:  # the first time, too
        assert pool.submit(other.predict, "mood", TEXTS).result(60) == expected
        assert pool.submit(other.predict_mixed, [(None, TEXTS[0])]).result(60)[0].embedding
        pool.submit(other.route, TEXTS[0]).result(60)
    events.close()


def test_500_flipped_bytes_are_caught_and_hurt_nobody_else(bank, tmp_path) -> None:
    draw = random.Random(0)
    expected = {task: bank.predict(task, TEXTS[:1]) for task in ("mood@1", "shop/stars", "tags")}
    package = bank.store.find("mood@2").version.package
    folder = tmp_path / "bank" / "tasks" / "default" / "mood" / "packages" / package
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    for i in range(500):
        path = draw.choice(sorted(whole))
        place, bit = draw.randrange(len(whole[path])), 1 << draw.randrange(8)
        content = bytearray(whole[path])
        content[place] ^= bit
        path.write_bytes(content)
        with pytest.raises(PackageError):
            bank.store.load(bank.store.find("mood"))
        if i % 100 == 0:
            assert {t: bank.predict(t, TEXTS[:1]) for t in expected} == expected
            verdicts = {(v.task, v.version): v.ok for v in bank.verify()}
            assert [key for key, ok in verdicts.items() if not ok] == [("mood", 2)]
        path.write_bytes(whole[path])
    assert bank.predict("mood", TEXTS)


# --- carrying


@pytest.mark.parametrize("name", ["out", "out.tar.gz"])
def test_a_package_carried_to_another_bank_is_the_same(bank, base, tmp_path, name) -> None:
    assert bank.export("mood@1", tmp_path / name) == []
    other = Bank.open(tmp_path / "other", str(base))
    entry, notes = other.import_(tmp_path / name, "shop/mood")
    assert (str(entry), notes) == ("shop/mood@1", [])
    assert entry.version.package == bank.store.find("mood@1").version.package
    assert other.predict("shop/mood", TEXTS) == bank.predict("mood@1", TEXTS)
    entry, _ = other.import_(tmp_path / name)
    assert str(entry) == "mood@1"


def test_what_does_not_fit_is_not_imported(bank, tmp_path) -> None:
    bank.export("mood", tmp_path / "out")
    strange = save_base(tmp_path / "strange", model=tiny("bert", seed=1))
    other = Bank.open(tmp_path / "other", str(strange))
    with pytest.raises(WrongBase):
        other.import_(tmp_path / "out")
    # A package that is whole but does not answer as it says.
    package = read_package(tmp_path / "out")
    from adapterbank.store.package import write_package

    wrong = {**package.tensors, "head.bias": package.tensors["head.bias"] + 1}
    write_package(tmp_path / "wrong", package.manifest, wrong)
    with pytest.raises(PackageError, match="gives other bits than when it was published"):
        bank.import_(tmp_path / "wrong", "wrong")
    with pytest.raises(PackageError, match="There is no package 'nothing'"):
        bank.import_(tmp_path / "nothing")
    with pytest.raises(PackageError, match="already something called 'out'"):
        bank.export("mood", tmp_path / "out")
    assert [info.task for info in bank.tasks()] == ["mood", "tags", "shop/stars"]


def test_adapterhub_both_ways(bank, tmp_path) -> None:
    with pytest.raises(PackageError):
        bank.export("mood", tmp_path / "hub", "adapterhub")  # LayerNorms cannot cross
    assert not (tmp_path / "hub").exists()
    pooled = Bank.open(tmp_path / "pooled", str(save_base(tmp_path / "base")))
    pooled._encoder = pooled.encoder.pooled("first")
    pooled.learn("mood", ROWS, **QUICK, train_layer_norms=False)
    notes = pooled.export("mood", tmp_path / "hub", "adapterhub")
    assert notes
    assert json.loads((tmp_path / "hub" / "adapter_config.json").read_text())["name"] == "mood"
    _, notes = pooled.import_(tmp_path / "hub", "back")
    assert notes
    then, now = pooled.predict("mood", TEXTS), pooled.predict("back", TEXTS)
    assert [a.label for a in then] == [a.label for a in now]
    assert pooled.show("back").manifest.origin == "adapterhub"
    assert all(verdict.ok and verdict.exact for verdict in pooled.verify("back"))
