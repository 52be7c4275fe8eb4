"""What a study may measure on a trained package besides its scores. No training code is involved.

| probe    | what                                                                    |
|----------|-------------------------------------------------------------------------|
| ablation | the score without the adapters of layers i to j: the paper's figure 6   |
| fp16     | the score, and the share of other answers, once stored in half the size |
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapterbank.model.encoder import Encoder
    from adapterbank.store.package import Package
    from adapterbank.tasks.task import Task

PROBES = ("ablation", "fp16")


def probe(name: str, encoder: Encoder, package: Package, task: Task) -> dict[str, Any]:
    """Measure it on the task's test rows."""
    return (
        _ablation(encoder, package, task) if name == "ablation" else _fp16(encoder, package, task)
    )


def _ablation(encoder: Encoder, package: Package, task: Task) -> dict[str, Any]:
    from adapterbank.ablation import ablate

    if task.kind == "classification":  # as in the paper, whatever the task is chosen by
        package = replace(package, manifest=replace(package.manifest, metric="accuracy"))
    return ablate(encoder, package, task.test).as_dict()


def _fp16(encoder: Encoder, package: Package, task: Task) -> dict[str, Any]:
    from adapterbank.serving.predictor import Predictor
    from adapterbank.store.package import pack
    from adapterbank.training.evaluate import scores_of

    def answers(of: Package) -> Any:
        with Predictor(encoder, of) as predictor:
            return predictor.predict(task.test)

    half = pack(replace(package.manifest, precision="fp16"), package.tensors)
    before, after = answers(package), answers(half.unpack())
    other = sum(
        (a.label, a.labels, a.answer) != (b.label, b.labels, b.answer)
        for a, b in zip(before, after, strict=True)
    )
    return {
        "test": scores_of(task, task.test, after),
        "other_answers": other / len(task.test),
        "bytes": half.bytes,
        "bytes_fp32": pack(package.manifest, package.tensors).bytes,
    }
