"""`adapterbank params`: what a method trains, counted without loading weights."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from adapterbank.cli.output import JSON_HELP, print_json, print_table


def params(
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            help="A base: minilm, a folder or a hub id.",
            metavar="NAME",
            show_default="minilm",
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(help="A well-known shape instead: bert-base, bert-large …", metavar="NAME"),
    ] = None,
    method: Annotated[
        str, typer.Option(help="adapters, full, top-k, layer-norm or head.")
    ] = "adapters",
    size: Annotated[int, typer.Option(help="m, the width of the bottleneck.")] = 64,
    top_k: Annotated[int, typer.Option(help="Layers that top-k trains.")] = 1,
    labels: Annotated[
        int, typer.Option(min=0, help="Classes of the head; 0 counts no head, as the paper does.")
    ] = 0,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks on the one base.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Count what one task trains, and what many tasks cost beside one base.

    [bold]Examples[/bold]

      adapterbank params --arch bert-large --size 64

      adapterbank params --base minilm --size 32 --labels 4 --tasks 1000

      adapterbank params --arch bert-base --method top-k --top-k 3 --json
    """
    if base is not None and arch is not None:
        raise typer.BadParameter("--base and --arch do not go together: give one of them.")
    base = base or "minilm"
    from adapterbank.model.config import AdapterConfig
    from adapterbank.model.count import count
    from adapterbank.model.encoder import read_config
    from adapterbank.model.methods import Method
    from adapterbank.model.shapes import named_config

    config = named_config(arch) if arch else read_config(base)
    how: Any = Method(method, AdapterConfig(size=size), top_k)  # type: ignore[arg-type]
    counted = count(config, how, labels=labels, tasks=tasks)
    if as_json:
        print_json(counted.as_dict())
        return
    rows = [
        ("adapters", counted.adapters),
        ("LayerNorms", counted.layer_norms),
        ("other base parameters", counted.base_trained),
        ("head", counted.head),
        ("trained a task", counted.trained),
        ("base", counted.base),
        ("base without embeddings", counted.base_without_embeddings),
        (f"base and {tasks} task{'s' * (tasks > 1)}", counted.total_for_tasks),
    ]
    table = [(name, f"{value:,}") for name, value in rows]
    table.insert(5, ("  % of the base", f"{counted.percent_of_base:.2f}"))
    table.insert(6, ("  % without embeddings", f"{counted.percent_without_embeddings:.2f}"))
    table.append(("  times one model", f"{counted.times_one_model:.2f}"))
    print_table(f"{how} on {arch or base}", ("", "parameters"), table)
