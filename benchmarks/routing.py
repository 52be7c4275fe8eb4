"""Which task is meant: how often the statistics in packages name the right one, or none.

    python benchmarks/routing.py

Eighteen tasks of single texts, learnt in any order: statistics of one never change another's. Every
task's unseen test texts are routed among all eighteen; texts of CLINC150 that belong to no task of
its own are to be told from them. ADAPTERBANK_DATA names the folder of the tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from adapterbank.model.encoder import Encoder, load_encoder
from adapterbank.serving.which_task import FAR, nearest
from adapterbank.store.statistics import Statistics, read_statistics, write_statistics
from adapterbank.tasks.batches import encode
from adapterbank.tasks.catalog import load_split
from adapterbank.tasks.known import known_task
from adapterbank.tasks.limit import limited
from adapterbank.tasks.task import Example
from adapterbank.training.features import features_of
from adapterbank.training.rows import prepare
from adapterbank.training.statistics import summarise

TASKS = (
    "sst2", "cola", "20newsgroups", "airline", "corporate_messaging", "emotion", "global_warming",
    "political_bias", "primary_emotions", "us_economic_performance", "customer_complaints",
    "news_aggregator", "sms_spam", "clinc150", "snips", "subj", "agnews7600", "tweeteval_irony",
)  # fmt: skip
TRAIN, DEV, TEST, LENGTH = 1_500, 300, 200, 64
RESULTS = Path(__file__).parent / "results" / "routing.json"


def main() -> None:
    encoder = load_encoder()
    statistics, texts = {}, {}
    for name in TASKS:
        task = limited(known_task(name), TRAIN, DEV, TEST)
        train, dev = (prepare(encoder, task, rows, LENGTH) for rows in (task.train, task.dev))
        summary = summarise(encoder, train, dev)
        assert summary is not None  # there are rows enough
        statistics[name] = read_statistics(write_statistics(*summary), encoder.width)
        texts[name] = vectors(encoder, task.test)
    outside = vectors(encoder, load_split("clinc150", "out_of_scope"))
    found = measure(statistics, texts, outside)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


def vectors(encoder: Encoder, examples: Sequence[Example]) -> NDArray[np.float32]:
    return features_of(encoder, encode(encoder.tokenizer, examples, LENGTH))


def measure(
    statistics: dict[str, Statistics],
    texts: dict[str, NDArray[np.float32]],
    outside: NDArray[np.float32],
) -> dict[str, object]:
    first, three, refused, near = {}, {}, {}, []
    for name, rows in texts.items():
        routes = [[route.task for route in nearest(row, statistics, 3)] for row in rows]
        first[name] = float(np.mean([found[:1] == [name] for found in routes]))
        three[name] = float(np.mean([name in found for found in routes]))
        refused[name] = float(np.mean([not found for found in routes]))
        near += [nearness(row, statistics) for row in rows]
    far = [nearness(row, statistics) for row in outside]
    return {
        "tasks": len(texts),
        "texts": sum(map(len, texts.values())),
        "right task first": float(np.mean(list(first.values()))),
        "right task among three": float(np.mean(list(three.values()))),
        "chance": 1 / len(texts),
        "own texts refused": float(np.mean(list(refused.values()))),
        "texts of no task refused": float(np.mean([each < -FAR for each in far])),
        "area under the curve, own texts against texts of no task": float(
            roc_auc_score([1] * len(near) + [0] * len(far), near + far)
        ),
        "right task first, by task": first,
    }


def nearness(row: NDArray[np.float32], statistics: dict[str, Statistics]) -> float:
    """Deviations from the task that it is nearest to."""
    direction = row / np.linalg.norm(row)
    return max(
        (float((each.centres @ direction).max()) - each.near) / each.spread
        for each in statistics.values()
    )


if __name__ == "__main__":
    main()
