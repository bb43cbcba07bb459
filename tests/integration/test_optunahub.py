"""The folder for OptunaHub fits its registry, and its example runs."""

import re
import runpy
from pathlib import Path
from typing import Any

import optuna
import optunahub
import pytest
import yaml

from bmbo.integration.optuna import BMBOPruner, BMBOSampler

REGISTRY = Path(__file__).parents[2] / "optunahub" / "package"
NAME = "samplers/bmbo"
README = (REGISTRY / NAME / "README.md").read_text(encoding="utf-8")
FIELDS = {"author", "title", "description", "tags", "optuna_versions", "license"}


@pytest.fixture(autouse=True)
def local(monkeypatch):
    """Load packages of the hub from the folder of this repository."""
    monkeypatch.setattr(optunahub, "load_module", loaded)
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def loaded(package):
    return optunahub.load_local_module(package, registry_root=str(REGISTRY))


def test_the_package_offers_our_classes():
    package = loaded(NAME)
    assert package.BMBOSampler is BMBOSampler
    assert package.BMBOPruner is BMBOPruner
    assert package.__all__ == re.findall(r"^- (BMBO\w+)$", README, re.MULTILINE)[::-1]


def test_the_readme_has_the_front_matter_and_the_sections_that_the_registry_asks_for():
    front = yaml.safe_load(README.split("---\n")[1])
    assert front.keys() == FIELDS
    assert "sampler" in front["tags"]
    assert optuna.__version__ in front["optuna_versions"]
    assert re.findall(r"^## (.+)$", README, re.MULTILINE) == [
        "Abstract",
        "Class or Function Names",
        "Installation",
        "Example",
        "Others",
    ]


def test_the_licence_is_that_of_the_repository():
    assert (REGISTRY / NAME / "LICENSE").read_text() == (REGISTRY.parents[1] / "LICENSE").read_text()


@pytest.mark.slow
def test_the_example_runs(capsys):
    runpy.run_path(str(REGISTRY / NAME / "example.py"))
    assert "'x'" in capsys.readouterr().out


@pytest.mark.slow
def test_the_example_of_the_readme_runs():
    block = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[0]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), namespace)
    assert namespace["study"].best_value < 0.2
