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

# Each part, and the parts that it may import. The same table stands in docs/architecture.md; a test compares them.
NUMERIC = {"problem", "history", "protocols"}
MAY_IMPORT = {
    "problem": set(),
    "history": {"problem"},
    "protocols": {"problem", "history"},
    "inference": set(),
    "surrogates": NUMERIC | {"inference"},
    "acquisition": NUMERIC,
    "policies": NUMERIC | {"inference", "acquisition"},
    "methods": {"protocols", "inference", "surrogates", "acquisition", "policies"},
    "executors": {"problem", "protocols"},
    "ledger": {"problem", "history"},
    "synthetic": {"problem"},
    "study": NUMERIC | {"policies", "methods", "executors", "ledger"},
    "testing": NUMERIC,
    "cli": {"problem", "history", "protocols", "methods", "executors", "ledger", "study"},
    "demo": {"methods", "study", "synthetic"},
    "__main__": {"cli"},
}
# The only part that may set JAX options, and only inside a function: see the test below.
CONFIGURES = {"policies"}

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
