"""The worst rows first; a label is suspected only where the model is sure of another."""

from __future__ import annotations

from adapterbank.tasks.predictions import Prediction
from adapterbank.tasks.task import Answer, Example, Task
from adapterbank.training.mistakes import mistakes


def classes(*chances_of_a: float) -> list[Prediction]:
    return [
        Prediction(label="a" if p > 0.5 else "b", probabilities={"a": p, "b": 1 - p})
        for p in chances_of_a
    ]


def test_classification() -> None:
    labels = ["a", "a", "a", "b", "b", "b", "a"]
    examples = [Example(f"text {i}", label) for i, label in enumerate(labels)]
    task = Task("t", ("a", "b"), examples, ())
    predictions = classes(0.95, 0.9, 0.45, 0.05, 0.1, 0.97, 0.8)
    worst = mistakes(task, examples, predictions, 9)
    assert [m.row for m in worst] == [6, 3]
    assert (worst[0].text, worst[0].label, worst[0].predicted) == ("text 5", "b", "a")
    assert round(worst[0].probability, 6) == 0.03
    assert worst[0].likely_wrong_label  # surer of "a" than it is of rows labelled "a"
    assert not worst[1].likely_wrong_label  # wrong, but in doubt
    assert len(mistakes(task, examples, predictions, 1)) == 1


def test_other_kinds() -> None:
    tagged = [Example("x", ("p",), "y"), Example("z", ())]
    task = Task("t", ("p", "q"), tagged, (), kind="multi-label")
    chances = {"p": 0.2, "q": 0.9}
    (only,) = mistakes(
        task,
        tagged,
        [Prediction(labels=("q",), probabilities=chances), Prediction(labels=(), probabilities={})],
        5,
    )
    assert (only.row, only.text, only.label, only.predicted) == (1, "x ⟂ y", "p", "q")
    assert round(only.probability, 6) == 0.02

    numbers = [Example("x", 1.0), Example("y", 5.0)]
    task = Task("t", (), numbers, (), kind="regression")
    found = mistakes(task, numbers, [Prediction(value=1.5), Prediction(value=2.0)], 1)
    (only,) = found
    assert (only.row, only.label, only.predicted) == (2, "5", "2")
    assert (only.probability, only.distance) == (None, 3.0)

    spans = [
        Example("who?", None, "Ada", "1", (Answer("Ada", 0),)),
        Example("why?", None, "Ada", "2"),
        Example("when?", None, "1843", "3", (Answer("1843", 0),)),
    ]
    task = Task("t", (), spans, (), kind="span")
    answers = [Prediction(answer="the Ada"), Prediction(answer="Ada"), Prediction(answer="")]
    assert [m.row for m in mistakes(task, spans, answers, 5)] == [2, 3]
