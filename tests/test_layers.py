"""Imports go one way, nothing is loaded before it is needed, and importing the package changes nothing."""

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bmbo

SOURCE = Path(bmbo.__file__).parent

# Each part, and the parts that it may import. The same table stands in docs/architecture.md; a test compares them.
NUMERIC = {"problem", "history", "protocols"}
MAY_IMPORT = {
    "problem": set(),
    "history": {"problem", "lazy_names"},
    "protocols": {"problem", "history", "lazy_names"},
    "inference": {"lazy_names"},
    "surrogates": NUMERIC | {"inference"},
    "acquisition": NUMERIC,
    "policies": NUMERIC | {"inference", "acquisition", "lazy_names"},
    "methods": {"protocols", "inference", "surrogates", "acquisition", "policies", "lazy_names"},
    "executors": {"problem", "protocols"},
    "ledger": {"problem", "history"},
    "report": NUMERIC | {"inference", "ledger"},
    "synthetic": {"problem"},
    "study": NUMERIC | {"policies", "methods", "executors", "ledger", "report"},
    "testing": NUMERIC | {"lazy_names"},
    "dashboard": {"problem", "protocols", "ledger", "report", "study"},
    "cli": {"problem", "history", "protocols", "methods", "executors", "ledger", "study", "dashboard"},
    "logging": set(),
    "lazy_names": set(),
    "integration": {"problem", "history", "protocols", "methods", "ledger", "study"},
    "demo": {"study", "synthetic"},
    "__main__": {"cli"},
}
# The only part that may set JAX options, and only inside a function: see the test below.
CONFIGURES = {"policies"}

MODULES = sorted(SOURCE.rglob("*.py"))


def part_of(path):
    """The part of the package that a file belongs to; None for the list of public names."""
    relative = path.relative_to(SOURCE)
    return None if relative.name == "__init__.py" and len(relative.parts) == 1 else relative.with_suffix("").parts[0]


def nodes_of(path):
    """All nodes of a file's syntax, and of the stub beside it, which lists what a package loads when it is used."""
    yield from ast.walk(ast.parse(path.read_text()))
    stub = path.with_suffix(".pyi")
    if stub.exists():
        yield from ast.walk(ast.parse(stub.read_text()))


def imported_names(path):
    """Dotted names of all that a file imports, wherever in it, relative imports made absolute."""
    package = ["bmbo", *path.relative_to(SOURCE).parts[:-1]]
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from bmbo import data` imports a part, `from bmbo.history.dataset import Dataset` a name of one.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def names_in(tree):
    """All names in a piece of source, dotted ones whole."""
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)}


def imported_parts(path):
    """Parts of the package that a file imports, without its own."""
    names = [name.split(".") for name in imported_names(path)]
    return {name[1] for name in names if name[0] == "bmbo" and len(name) > 1} - {part_of(path)}


def module_of(path):
    """The dotted name of a file; a package stands for its __init__.py."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(["bmbo", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def test_every_module_belongs_to_a_known_part():
    unknown = {part for path in MODULES if (part := part_of(path)) is not None} - set(MAY_IMPORT)
    assert not unknown, f"add {sorted(unknown)} to MAY_IMPORT in {Path(__file__).name} and to docs/architecture.md"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_its_part_may(path):
    part = part_of(path)
    if part is None:
        return
    # Names of the top package that are not parts, such as its version.
    beyond = {name for name in imported_parts(path) if not name.startswith("__")} - MAY_IMPORT[part]
    assert not beyond, f"{part} may import {sorted(MAY_IMPORT[part])}, but {path.name} imports {sorted(beyond)}"


def test_modules_do_not_import_each_other_in_a_circle():
    names = {module_of(path) for path in MODULES}
    uses = {}
    for path in MODULES:
        found = set()
        for name in imported_names(path):
            parts = name.split(".")
            prefixes = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
            found.add(next((prefix for prefix in prefixes if prefix in names), ""))
        # Importing a submodule runs its package first, which may import the submodule again: that is no circle.
        uses[module_of(path)] = {name for name in found if name not in ("", "bmbo", module_of(path))}
    while uses:
        free = {name for name, used in uses.items() if not used & set(uses)}
        assert free, f"an import cycle runs through {sorted(uses)}"
        uses = {name: used for name, used in uses.items() if name not in free}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_imports_for_type_checking_only(path):
    used = names_in(ast.parse(path.read_text()))
    assert not any(name.endswith("TYPE_CHECKING") for name in {*used, *imported_names(path)})


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_a_function_of_the_runtime_sets_what_jax_does(path):
    tree = ast.parse(path.read_text())
    if part_of(path) in CONFIGURES:
        # What is left runs on import.
        tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    assert not any(name.endswith("config.update") for name in names_in(tree))


PEERS = {"torch", "botorch", "numpyro"}
EXTRAS = {"plotly", "optuna_dashboard", "ray", "matplotlib", "pandas", "ConfigSpace", "sklearn"} | PEERS
COMPILING = {"jax", "jaxlib", "jaxtyping", "optax", "blackjax"}

LOADED = """
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
THE_DEFAULT_AT_WORK = """
import json, sys
import bmbo

def objective(trial):
    return trial.params["x"]

space, fidelities = {"x": bmbo.Float(0, 1)}, [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]
study = bmbo.create_study(space=space, fidelities=fidelities)
for trial in study.ask(2):
    study.tell(trial, objective(trial))
study.optimize(objective, n_trials=6, batch_size=2, show_progress_bar=False)
study.recommendation()
"""
THE_COMMANDS_AT_WORK = """
import json, sys
from bmbo.cli import main

assert main(["run", "study.toml", "--n-trials", "4"]) == 0
assert main(["status", "study.toml"]) == 0
assert main(["worker", "study.toml", "--n-trials", "6"]) == 0
"""
THE_DEMO_AT_WORK = """
import json, sys
from bmbo import demo

demo.main(["--total-cost", "80"])
"""
STUDY_FILE = """
[study]
name = "study"
[space.x]
type = "float"
low = 0
high = 1
[[fidelities]]
value = 1
cost = 1
[[fidelities]]
value = 10
cost = 10
[objective]
function = "objective_of_test:train"
[run]
n_trials = 4
"""


def last_line_of(script, folder):
    """What a fresh process prints last, read as JSON."""
    # As a user has it, without what the tests set.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BMBO_")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "script", [THE_DEFAULT_AT_WORK, THE_COMMANDS_AT_WORK, THE_DEMO_AT_WORK], ids=["study", "commands", "demo"]
)
def test_the_default_method_loads_neither_jax_nor_an_extra(script, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY_FILE)
    (tmp_path / "objective_of_test.py").write_text("def train(trial):\n    return trial.params['x']\n")
    loaded = set(last_line_of(script + LOADED, tmp_path))
    assert "bmbo" in loaded
    assert not (COMPILING | EXTRAS) & loaded


def test_only_the_use_of_a_name_loads_what_it_needs(tmp_path):
    script = """
import json, sys
import bmbo

assert "numpy" not in sys.modules
assert {"bmbo_gp", "create_study", "methods"} <= set(dir(bmbo))
assert "mf_mes" in dir(bmbo.methods)
from bmbo.history import History
from bmbo.methods import screening
from bmbo.protocols import Policy

assert isinstance(screening(), Policy)
assert "jax" not in sys.modules
assert isinstance(bmbo.bmbo_gp(), Policy)
from bmbo.history import Dataset
from bmbo.protocols import Posterior
"""
    assert set(last_line_of(script + LOADED, tmp_path)) >= {"bmbo", "numpy", "jax"}


def test_loading_every_method_leaves_the_configuration_of_jax_alone_and_needs_no_extra(tmp_path):
    script = """
import json, sys, jax
before = dict(jax.config.values)
assert "jax_enable_x64" in before
from bmbo import methods

assert len([getattr(methods, name)() for name in methods.__all__]) > 5
assert [name for name, value in jax.config.values.items() if before.get(name, value) != value] == []
"""
    assert not EXTRAS & set(last_line_of(script + LOADED, tmp_path))


LAZY = sorted(path for path in MODULES if path.with_suffix(".pyi").exists())


@pytest.mark.parametrize("path", LAZY, ids=module_of)
def test_a_package_offers_what_its_stub_lists(path):
    package = importlib.import_module(module_of(path))
    listed = ast.parse(path.with_suffix(".pyi").read_text()).body[-1]
    assert isinstance(listed, ast.Assign)
    assert sorted(ast.literal_eval(listed.value)) == sorted(package.__all__)
    assert all(getattr(package, name) is not None for name in package.__all__)
