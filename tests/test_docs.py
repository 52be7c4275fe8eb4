"""The documents say what is so: their commands run, their code runs, their tables match."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification
from typer.testing import CliRunner

import adapterbank
from adapterbank.cli.main import app
from adapterbank.errors import AdapterBankError
from adapterbank.model.config import AdapterConfig
from adapterbank.model.sites import SITES
from tiny import CONFIGS, roughened, save_base
from training.toy import EXAMPLES

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
COMMANDS = sorted(
    {
        command
        for page in PAGES
        for command in re.findall(r"^\$ adapterbank (.*?)(?:\s+#.*)?$", page.read_text(), re.M)
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str) -> None:
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output


def test_the_readme_has_commands() -> None:
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("page", ["README.md", "docs/adapters.md"])
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A tiny base in place of the embedded one, and the file that the examples learn from.
    monkeypatch.setattr("adapterbank.bank.MINILM", str(save_base(tmp_path / "base")))
    monkeypatch.chdir(tmp_path)
    lines = [f"{e.text},{'spam' if e.label == 'bad' else 'ham'}" for e in EXAMPLES]
    (tmp_path / "sms.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    for block in blocks:
        model = roughened(AutoModelForSequenceClassification.from_config(CONFIGS["bert"]))
        # The tests reach no hub: the line that loads a model is left out, and a tiny one is there.
        code = "\n".join(line for line in block.splitlines() if "from_pretrained" not in line)
        exec(code, {"model": model, "torch": torch})  # noqa: S102 - our own documents


def test_the_settings_table_is_adapter_config() -> None:
    page = (ROOT / "docs" / "adapters.md").read_text()
    table = page.split("<!-- settings:")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", table, re.M))
    fields = {field.name: repr(field.default) for field in dataclasses.fields(AdapterConfig)}
    assert {name: value.replace('"', "'") for name, value in rows.items()} == fields


def test_lists_of_tasks_are_read(tmp_path: Path) -> None:
    from adapterbank.streams.arrivals import read_list

    (block,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "bank.md").read_text(), re.S)
    (tmp_path / "tasks.toml").write_text(block)
    (tmp_path / "messages.csv").write_text("text,label\na,b\n")
    names = [arrival.name for arrival in read_list(tmp_path / "tasks.toml", {})]
    assert names == ["helpdesk", "reviews"]


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_supported_architecture_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text().lower().replace("xlm-r,", "xlm-roberta,")
    assert not [name for name in SITES if name not in text]


def test_every_field_of_the_settings_is_documented() -> None:
    source = Path(adapterbank.__file__).parent / "model" / "config.py"
    for field in dataclasses.fields(AdapterConfig):
        assert re.search(rf'    {field.name}: .*\n    """', source.read_text()), field.name


def test_the_error_tree_in_the_docstring_is_the_tree() -> None:
    import adapterbank.errors as errors

    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__)) | {"AdapterBankError"}
    found = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, AdapterBankError)
    }
    assert drawn == found


def test_package_and_project_have_one_version() -> None:
    assert f'version = "{adapterbank.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_the_fields_of_a_manifest_are_documented_in_their_order() -> None:
    from adapterbank.store.manifest import Manifest

    page = (ROOT / "docs" / "package-format.md").read_text()
    table = page.split("<!-- fields:")[1].split("\n\n")[0]
    fields = [field.name for field in dataclasses.fields(Manifest)]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == fields


def test_a_reader_written_from_the_page_alone(tmp_path: Path) -> None:
    """What docs/package-format.md says of the manifest's text, in a few lines of plain Python."""
    import hashlib
    import json

    from adapterbank.store.package import write_package
    from store.samples import manifest, tensors

    write_package(tmp_path / "p", manifest(), tensors())
    raw = (tmp_path / "p" / "manifest.json").read_bytes()
    values = json.loads(raw)
    digest = values.pop("digest")

    def text(found: dict[str, object]) -> bytes:
        return (json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()

    assert hashlib.sha256(text(values)).hexdigest() == digest
    assert text({**values, "digest": digest}) == raw
    weights = (tmp_path / "p" / "weights.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == values["weights_sha256"]
    assert len(weights) == values["weights_bytes"]


def test_every_verb_of_the_bank_is_on_its_page() -> None:
    page = (ROOT / "docs" / "bank.md").read_text()
    for verb in ("tasks", "show", "verify", "rollback", "remove", "gc", "export", "import"):
        assert verb in {command.name for command in app.registered_commands}
        assert f"`{verb}" in page
