"""The pages of the site tell the truth: their code runs, their links lead somewhere, and the menu has all of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
# These run their blocks themselves.
TESTED_ELSEWHERE = {"architecture.md", "coming_from_optuna.md", "howto/track_runs.md", "integrations.md"}
MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]


def blocks(text):
    """The Python blocks of a page, in their order."""
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def links(text):
    """The targets of links to other files, without blocks of code."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [target.split("#")[0] for target in found if not re.match(r"https?:|#|mailto:", target)]


WITH_CODE = [page for page, text in PAGES.items() if blocks(text) and page not in TESTED_ELSEWHERE]


def test_the_pages_for_users_show_code():
    assert {"tutorial.md", "howto/resume.md", "howto/continue_training.md"} <= set(WITH_CODE)


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_runs_block_after_block(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for number, block in enumerate(blocks(PAGES[page])):
        exec(compile(block, f"{page}, block {number}", "exec"), namespace)


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_to_files(page):
    folder = (DOCS / page).parent
    assert not [target for target in links(PAGES[page]) if not (folder / target).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_stay_on_the_site(page):
    folder = (DOCS / page).parent
    assert not [target for target in links(PAGES[page]) if not (folder / target).resolve().is_relative_to(DOCS)]


def test_the_menu_has_every_page_once():
    assert sorted(re.findall(r"- (\S+\.md)$", MENU, re.MULTILINE)) == sorted(PAGES)


def test_the_workflow_builds_the_site_as_the_makefile_does():
    assert "run: make site" in (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^site: install\n\t\$\(BIN\)/mkdocs build --strict", makefile, re.MULTILINE)
