"""The pages about other tools tell the truth: their code runs, one block after the other."""

import re
from pathlib import Path
from typing import Any

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


@pytest.mark.slow
def test_the_search_for_ray_tune_on_the_page_suggests():
    tune = pytest.importorskip("ray.tune", reason="ray[tune] is not installed", exc_type=ImportError)
    (block,) = re.findall(r"^```py\n(.*?)^```", (DOCS / "integrations.md").read_text(encoding="utf-8"), re.S | re.M)
    space = {"x": tune.uniform(0, 1), "kind": tune.choice(["a", "b"])}
    names: dict[str, Any] = {"train": lambda config: {"loss": config["x"]}, "space": space}
    exec(compile(block, "integrations.md", "exec"), names)
    search = names["search"]
    search.set_search_properties("loss", "min", space)
    found = []
    for number in range(12):
        found.append(search.suggest(str(number)))
        loss = (found[-1]["x"] - 0.3) ** 2 + (found[-1]["kind"] == "a")
        search.on_trial_complete(str(number), {"loss": loss, "training_iteration": 1})
    assert min(abs(each["x"] - 0.3) for each in found if each["kind"] == "b") < 0.02
