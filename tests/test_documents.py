"""Documents tell the truth: what they show runs, and what they name exists."""

import importlib
import re
from pathlib import Path

import pytest

import bmbo

ROOT = Path(__file__).parent.parent
NOT_RUN = "# not run"


def text_of(name):
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


README, NOTATION, CHANGELOG = (text_of(name) for name in ("README.md", "docs/notation.md", "CHANGELOG.md"))
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
NAMES = sorted(set(re.findall(r"`(bmbo(?:\.\w+)+)", NOTATION)))
# Rows of tables, without their heads and rules.
ROWS = re.findall(r"^\|(?![\s:|-]*$)(.+)\|\s*$(?!\n\|[\s:|-]+$)", NOTATION, re.MULTILINE)


def named(dotted):
    """What a dotted name stands for: a module, or something in one."""
    parts = dotted.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for name in parts[split:]:
            # A field without a default is no attribute of its class.
            found = vars(found).get("__dataclass_fields__", {}).get(name) or getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


@pytest.mark.parametrize("document", ["README.md", "docs/notation.md", "CHANGELOG.md", "LICENSE"])
def test_the_document_is_there(document):
    assert text_of(document).strip()


def test_the_readme_shows_code():
    assert BLOCKS


@pytest.mark.parametrize("block", [pytest.param(block, id=str(number)) for number, block in enumerate(BLOCKS)])
def test_code_in_the_readme_runs(block, monkeypatch, tmp_path):
    if block.lstrip().startswith(NOT_RUN):
        pytest.skip("an excerpt")
    monkeypatch.delenv("BMBO_EXAMPLE_BUDGET", raising=False)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_the_commands_to_begin_with_and_the_makefile_has_them(command):
    assert command in README
    assert re.search(rf"^{command.split()[1]}:", text_of("Makefile"), re.MULTILINE)


def test_the_table_of_notation_names_code():
    assert NAMES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[0].strip() or "row")
def test_every_row_of_the_notation_names_code(row):
    assert re.search(r"`bmbo\.", row), f"no code named in: {row}"


@pytest.mark.parametrize("dotted", NAMES)
def test_what_the_notation_names_exists(dotted):
    assert named(dotted) is not None


def test_a_name_that_does_not_exist_is_noticed():
    assert named("bmbo.study.Study.ask") is bmbo.Study.ask
    assert named("bmbo.history.dataset.Dataset.unit") is not None
    for wrong in ("bmbo.study.Study.askk", "bmbo.nothing.Study"):
        with pytest.raises((AttributeError, ModuleNotFoundError)):
            named(wrong)


def test_the_changelog_has_the_current_version():
    assert re.search(rf"^#+ .*\b{re.escape(bmbo.__version__)}\b", CHANGELOG, re.MULTILINE)
