"""Check that the page on the architecture fits the code: its picture, its tree, its tables and its guides."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from test_layers import MAY_IMPORT, MODULES, SOURCE

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    """Return the text under a heading, up to the next heading of the same rank."""
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def reachable(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return all parts that can be reached from each part along arrows."""
    found = {part: set(after) for part, after in arrows.items()}
    # A way without circles has fewer steps than there are parts.
    for _ in found:
        found = {part: after.union(*(found.get(each, set()) for each in after)) for part, after in found.items()}
    return found


# The tree: lines of a name and a purpose; a name that ends in "/" is a folder and stands for its __init__.py.


def tree() -> dict[str, str]:
    """Return the purpose of each file, by its path inside the package."""
    found: dict[str, str] = {}
    folders: list[str] = []
    for line in blocks("text")[0].splitlines():
        match = re.fullmatch(r"( *)(\S+) {2,}(\S.*)", line)
        assert match, f"a line of the tree has a name, two spaces and a purpose: {line}"
        indent, name, purpose = match.groups()
        folders = folders[: len(indent) // 4]
        if name.endswith("/"):
            folders.append(name)
            name = "__init__.py"
        found["".join([*folders, name])] = purpose
    return found


def test_the_tree_names_every_module_and_nothing_else() -> None:
    assert set(tree()) == {path.relative_to(SOURCE).as_posix() for path in MODULES}


def test_every_file_that_the_page_names_exists() -> None:
    # Without the blocks: the guides there make new files, and the tree has a test of its own.
    prose = re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"`([\w./]+\.(?:py|md))`", prose)) | set(re.findall(r"\]\(([\w./]+)", prose))
    assert named
    assert not [name for name in named if not any((at / name).exists() for at in (SOURCE, ROOT, PAGE.parent))]


def test_the_table_of_imports_is_the_one_that_is_checked() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section("What each part may import"), re.MULTILINE)
    assert {part: set(re.findall(r"`(\w+)`", allowed)) for part, allowed in rows} == MAY_IMPORT
    assert all(allowed == "nothing" or "`" in allowed for _, allowed in rows)


def test_the_picture_shows_the_table_of_imports() -> None:
    arrows: dict[str, set[str]] = {part: set() for part in MAY_IMPORT if part != "__main__"}
    for part, other in re.findall(r"(\w+) --> (\w+)", blocks("mermaid")[0]):
        assert other in MAY_IMPORT[part], f"{part} must not import {other}"
        arrows[part].add(other)
    allowed = {part: MAY_IMPORT[part] for part in arrows}
    assert reachable(arrows) == reachable(allowed)


TYPES = re.findall(r"^\| `(\w+)` \| `([\w/]+)\.py` \|", section("The way of a trial"), re.MULTILINE)


def test_there_is_a_table_of_types() -> None:
    assert len(TYPES) > 5


@pytest.mark.parametrize(("name", "module"), TYPES)
def test_a_type_that_carries_a_trial_is_in_the_file_that_the_page_says(name: str, module: str) -> None:
    found = importlib.import_module(f"bmbo.{module.replace('/', '.')}")
    assert getattr(found, name).__module__ == found.__name__
    assert getattr(found, name).__dataclass_params__.frozen


def test_methods_that_the_page_names_exist() -> None:
    owners = {"Study": "study.study", "Ledger": "ledger.ledger", "Executor": "protocols", "Policy": "protocols"}
    owners |= {"Surrogate": "protocols", "Bayes": "policies", "WarmStart": "policies", "Planner": "study.planner"}
    owners |= {"Screening": "policies"}
    named = set(re.findall(r"`([A-Z]\w+)\.(\w+)`", section("The way of a trial")))
    assert named
    for owner, method in named:
        assert hasattr(getattr(importlib.import_module(f"bmbo.{owners[owner]}"), owner), method)


# The guides: blocks of Python run; the first line may say which new file of the package a block is. Blocks of changes
# name a file after "---", and "@@" begins a change: lines that stay (" "), go ("-") and come ("+").


def test_the_examples_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "architecture"}
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), namespace)


def changes() -> Iterator[tuple[str, str, str]]:
    """Yield the file, the old text and the new text of each change that the guides ask for."""
    for block in blocks("diff"):
        for text in re.split(r"^--- ", block, flags=re.MULTILINE)[1:]:
            path, *hunks = re.split(r"^@@\n", text, flags=re.MULTILINE)
            for hunk in hunks:
                lines = hunk.splitlines(keepends=True)
                old, new = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
                yield path.strip(), old, new


STUDY_FILE = """
[study]
name = "turning"
[space.heading]
type = "angle"
num = 8
[[fidelities]]
value = 1
cost = 1
[objective]
function = "module:function"
"""

FOLLOWED = """
import bmbo
from bmbo.cli.study_file import StudyFile

space = bmbo.Space({"heading": bmbo.Angle(8)})
assert StudyFile.read("study.toml").space == space
for storage in ("sqlite:///study.db", "study.folder"):
    study = bmbo.create_study(
        study_name="turning",
        storage=storage,
        space=space,
        fidelities=[bmbo.Fidelity(1, cost=1)],
        method=bmbo.random_search(),
    )
    study.optimize(lambda trial: abs(trial.params["heading"] - 180), n_trials=8, show_progress_bar=False)
    again = bmbo.load_study(study_name="turning", storage=storage)
    assert again.problem.space == space
    assert again.trials == study.trials
    assert len({trial.params["heading"] for trial in again.trials}) > 1
"""


@pytest.mark.slow
def test_a_copy_of_the_package_that_follows_the_guides_has_the_new_kind_and_the_new_storage(tmp_path: Path) -> None:
    copy = tmp_path / "source"
    shutil.copytree(SOURCE, copy / "src" / "bmbo", ignore=shutil.ignore_patterns("__pycache__"))
    new_files = [match for block in blocks("python") if (match := re.match(r"# (src/\S+)\n", block))]
    assert len(new_files) == 2
    for match in new_files:
        (copy / match[1]).write_text(match.string[match.end() :])
    for path, old, new in changes():
        text = (copy / path).read_text()
        assert text.count(old) == 1, f"{path} has {text.count(old)} times:\n{old}"
        (copy / path).write_text(text.replace(old, new))
    (tmp_path / "study.toml").write_text(STUDY_FILE)
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    command = [sys.executable, "-c", FOLLOWED]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_change_of_a_guide_is_read_as_it_is_written() -> None:
    found = list(changes())
    assert len({path for path, _, _ in found}) == 7
    assert all(old and new != old for _, old, new in found)
