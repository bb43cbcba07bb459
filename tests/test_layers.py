"""Imports go one way, and importing the package costs and changes nothing."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bmbo

SOURCE = Path(bmbo.__file__).parent

# From the bottom; parts of one layer may not import each other.
LAYERS = [
    ["parameters"],
    ["space"],
    ["problem", "spaces"],
    ["trial", "scale"],
    ["data"],
    ["protocols"],
    ["nets"],
    ["inference"],
    ["acquisition", "surrogates"],
    ["runtime"],
    ["policies"],
    ["methods"],
    ["progress", "synthetic", "checkpoints", "ledger", "planning", "executors"],
    ["views"],
    ["exchange", "runner", "checks"],
    ["telling"],
]
# The shell, above all layers: its parts may use each other, and the test of cycles keeps that one way.
SHELL = {"testing", "study", "demo", "command", "tomlsource", "studyfile", "cli", "__main__"}
# The one place that may set what jax does, and only inside a function: see the test below.
CONFIGURES = {"runtime"}
# A problem that knows its optimum must not lean on what is judged by it.
NARROWER = {"synthetic": {"problem", "space", "parameters"}}

HEIGHTS = {part: height for height, layer in enumerate(LAYERS) for part in layer}
MODULES = sorted(SOURCE.rglob("*.py"))


def part_of(path):
    """The part of the package that a file belongs to; None for the list of public names."""
    relative = path.relative_to(SOURCE)
    return None if relative.name == "__init__.py" and len(relative.parts) == 1 else relative.with_suffix("").parts[0]


def imported_names(path):
    """Dotted names of all that a file imports, wherever in it, relative imports made absolute."""
    package = ["bmbo", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from bmbo import data` imports a part, `from bmbo.data import Dataset` a name of one.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def names_in(tree):
    """All names in a piece of source, dotted ones whole."""
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)}


def imported_parts(path):
    """Parts of the package that a file imports, without its own."""
    names = [name.split(".") for name in imported_names(path)]
    return {name[1] for name in names if name[0] == "bmbo" and len(name) > 1} - {part_of(path)}


def test_every_module_has_a_layer():
    unknown = {part_of(path) for path in MODULES} - {None} - set(HEIGHTS) - SHELL
    assert not unknown, f"{sorted(unknown)} have no layer: add them to LAYERS or SHELL in {Path(__file__).name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_lower_layers(path):
    part = part_of(path)
    if part is None:
        return
    if part in NARROWER:
        allowed = NARROWER[part]
    elif part in SHELL:
        allowed = set(HEIGHTS) | SHELL
    else:
        allowed = {other for other, height in HEIGHTS.items() if height < HEIGHTS.get(part, 0)}
    # Names of the top package that are no parts, such as its version.
    beyond = {name for name in imported_parts(path) if not name.startswith("__")} - allowed
    assert not beyond, f"{part} may import {sorted(allowed)}, but {path.name} imports {sorted(beyond)}"


def test_parts_do_not_import_each_other_in_a_circle():
    uses = {}
    for path in MODULES:
        uses.setdefault(part_of(path), set()).update(imported_parts(path))
    while uses:
        free = {part for part, used in uses.items() if not used & set(uses)}
        assert free, f"an import cycle runs through {sorted(map(str, uses))}"
        uses = {part: used for part, used in uses.items() if part not in free}


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


AFTER_THE_IMPORT = """
import json, sys, jax
before = dict(jax.config.values)
assert "jax_enable_x64" in before
import bmbo
print(json.dumps({
    "modules": sorted({name.split(".")[0] for name in sys.modules}),
    "changed": [name for name, value in jax.config.values.items() if before.get(name, value) != value],
}))
"""


@pytest.fixture(scope="module")
def after_the_import():
    """What a fresh process says of itself after `import bmbo`."""
    # As a user has it, without what the tests set.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BMBO_")}
    command = [sys.executable, "-c", AFTER_THE_IMPORT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_pulls_no_extra(after_the_import):
    extras = {"torch", "plotly", "ray", "matplotlib", "pandas", "ConfigSpace", "botorch", "numpyro"}
    assert "bmbo" in after_the_import["modules"]
    assert not extras & set(after_the_import["modules"])


def test_importing_leaves_the_configuration_of_jax_alone(after_the_import):
    assert after_the_import["changed"] == []
