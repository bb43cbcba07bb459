"""The pages about other tools tell the truth: their code runs, one block after the other."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCKS = [
    pytest.param(page, number, block, id=f"{page}-{number}")
    for page in ("integrations.md", "coming_from_optuna.md")
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    )
]


def test_the_pages_show_code():
    assert len(BLOCKS) > 3


@pytest.mark.slow
@pytest.mark.parametrize(("page", "number", "block"), BLOCKS)
def test_code_on_the_pages_runs(page, number, block, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, f"{page}, block {number}", "exec"), {"__name__": "page"})
