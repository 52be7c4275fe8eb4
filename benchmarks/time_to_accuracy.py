"""Seconds of training until dev accuracy is there, against the `adapters` package's own trainer.

    python benchmarks/time_to_accuracy.py [--tasks corporate_messaging airline …] [--rates 1e-4 …]

Ours is the default recipe. The peer trains its Houlsby preset for six epochs with length-grouped
batches of 32, at the learning rate its documentation gives (1e-4) and at one that suits adapters on
this base (1e-3). Both see the same rows (at most 2,500) and are scored on dev every few steps; the
clock stands still meanwhile. Two times are taken: to 99 % of one's own final dev accuracy, and to
99 % of the lower of the two finals, which both reach. ADAPTERBANK_DATA names the folder of the
tasks. Results go to results/time_to_accuracy.json, the curves to a picture in docs/.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.model.methods import Method
from adapterbank.model.wheel import minilm_folder
from adapterbank.tasks.known import known_task
from adapterbank.tasks.task import Task
from adapterbank.training.evaluate import logits_of
from adapterbank.training.loop import Run, Step
from adapterbank.training.recipe import make_recipe
from adapterbank.training.rows import Rows, prepare
from adapterbank.training.start import seeded_model
from peers import HERE, environment

TRAIN, DEV = 2_500, 300  # rows at most
CURVE = 20  # steps between scores
RATES = (1e-4, 1e-3)  # of the peer
OURS = "adapterbank"
RESULTS = HERE / "results" / "time_to_accuracy.json"
PICTURE = HERE.parent / "docs" / "images" / "time_to_accuracy.svg"
Curve = list[tuple[float, float]]  # seconds so far, dev accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=["corporate_messaging", "airline", "sst2"])
    parser.add_argument("--rates", nargs="+", type=float, default=RATES, help="of the peer")
    options = parser.parse_args()
    encoder = load_encoder()
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in options.tasks:
        found[name] = measure(encoder, known_task(name), options.rates)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")
        print(json.dumps({name: found[name]["times"]}, indent=2))
    draw({name: each["curves"] for name, each in found.items()})


def measure(encoder: Encoder, task: Task, rates: Sequence[float]) -> dict[str, Any]:
    """Curves of both, and the times taken from them."""
    recipe = make_recipe("default", "adapters", min(TRAIN, len(task.train)))
    train = prepare(encoder, task, task.train[:TRAIN], recipe.max_length)
    dev = prepare(encoder, task, task.dev[:DEV], recipe.max_length)
    curves = {OURS: list(our_curve(encoder, task, train, dev))}
    for rate in rates:
        curves[f"adapters 1.3.0, rate {rate:g}"] = list(
            peer_curve(train, dev, len(task.labels), rate)
        )
    times = {}
    for name, curve in curves.items():
        finals = curve[-1][1], curves[OURS][-1][1]
        times[name] = {
            "final": round(finals[0], 4),
            "to 99 % of its own": round(reached(curve, finals[0]), 1),
            "to 99 % of the lower": round(reached(curve, min(finals)), 1),
            "ours to the same": round(reached(curves[OURS], min(finals)), 1),
        }
    return {"times": times, "curves": curves}


def our_curve(
    encoder: Encoder, task: Task, train: Rows, dev: Rows
) -> Iterator[tuple[float, float]]:
    """The default recipe, scored every few steps."""
    recipe = make_recipe("default", "adapters", len(train), products="fp32")
    seconds = 0.0
    with seeded_model(encoder, task, Method(), recipe) as model:

        def score() -> dict[str, float]:
            hits = logits_of(model, dev).argmax(-1) == dev.targets.numpy()
            return {"accuracy": float(hits.mean())}

        run = Run(model, train, recipe, score, "accuracy")
        for event in run.events():
            if isinstance(event, Step):
                seconds += event.seconds
                if event.step % CURVE == 0 or event.step == event.steps:
                    yield seconds, score()["accuracy"]


def peer_curve(train: Rows, dev: Rows, labels: int, rate: float) -> Iterator[tuple[float, float]]:
    """The peer's trainer on the same rows."""
    data = {"train": rows_of(train), "dev": rows_of(dev), "labels": labels}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(data, file)
        file.flush()
        ran = subprocess.run(
            [
                environment(),
                HERE / "workers" / "adapters_trainer.py",
                minilm_folder(),
                file.name,
                str(rate),
            ],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    for line in ran.stdout.splitlines():
        point = json.loads(line)
        yield point["seconds"], point["score"]


def rows_of(rows: Rows) -> list[tuple[list[int], list[int], int]]:
    """Ids, types and label of each."""
    ids, types = rows.encoded.take()
    labels = rows.targets.tolist()
    return [(i.tolist(), t.tolist(), y) for i, t, y in zip(ids, types, labels, strict=True)]


def reached(curve: Curve, final: float) -> float:
    """Seconds until 99 % of this."""
    return next(seconds for seconds, score in curve if score >= 0.99 * final)


def draw(curves: dict[str, dict[str, Curve]]) -> None:
    """Dev accuracy over time, one panel a task."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "adapterbank"  # the same bytes for the same figures
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(curves), figsize=(11, 3.2), squeeze=False)
    styles = {OURS: ("#0072b2", "-"), f"adapters 1.3.0, rate {RATES[0]:g}": ("#777777", ":")}
    for panel, (task, systems) in zip(panels[0], curves.items(), strict=True):
        for system, curve in systems.items():
            colour, line = styles.get(
                system, ("#777777", "--" if system.endswith("0.001") else ":")
            )
            seconds, scores = zip(*curve, strict=True)
            panel.plot(seconds, scores, color=colour, linestyle=line, label=system)
        panel.set_title(task, fontsize=10)
        panel.set_xlabel("seconds of training")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("dev accuracy")
    named = {line.get_label(): line for panel in panels[0] for line in panel.get_lines()}
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.legend(named.values(), named, frameon=False, loc="lower center", ncols=len(named))
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
