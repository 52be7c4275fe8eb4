"""The curl lines of the README and of the page on HTTP do what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.conftest import make_bank
from service.server import served
from service.test_training import rows

ROOT = Path(__file__).parents[2]


def curls(page: str) -> list[str]:
    """The curl commands of a page, lines that go on put together."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("curl ")]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", ["README.md", "docs/http-api.md"])
def test_word_for_word(page, tmp_path, encoder) -> None:
    make_bank(tmp_path / "bank", encoder, {"plain": {}})
    (tmp_path / "messages.csv").write_text(rows())
    made = subprocess.run(
        [sys.executable, "-m", "adapterbank", "keys", "create", "acme"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"ab_[0-9a-f]{16}_[\w-]{43}\n", made.stdout)
    answers = {}
    with served(tmp_path / "bank", tmp_path) as server:
        environment = os.environ | {"KEY": made.stdout.strip()}
        job = ""
        for command in curls(page):
            ran = subprocess.run(
                ["bash", "-c", command.replace("localhost:8000", server.url).replace("JOB", job)],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                env=environment,
                timeout=120,
            )
            assert ran.returncode == 0, ran.stderr
            route = re.search(r"/v1/\S+/(\w+)", command)[1]
            answers[route] = ran.stdout
            if route == "train":
                job = json.loads(ran.stdout)["id"]
                follow = f"curl -sN {server.url}/v1/jobs/{job}/events"
                header = f'-H "Authorization: Bearer {environment["KEY"]}"'
                subprocess.run(["bash", "-c", f"{follow} {header}"], timeout=120, check=True)
    assert json.loads(answers["train"])["task"] == "helpdesk"
    (found,) = json.loads(answers["predict"])["predictions"]
    assert found["label"] in ("odd", "even")
    if "rollback" in answers:
        assert json.loads(answers["rollback"]) == {"task": "helpdesk", "version": 1}
        assert '"state": "done"' in answers["events"]
