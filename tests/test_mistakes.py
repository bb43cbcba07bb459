"""The page on likely mistakes shows what is really said: every mistake on it is made again."""

from pathlib import Path

import pytest

from benchmarks.mistakes_page import MISTAKES, page

PAGE = Path(__file__).parents[1] / "docs" / "mistakes.md"


def test_thirty_mistakes_are_shown():
    assert sum(len(mistakes) for mistakes in MISTAKES.values()) == 30


@pytest.mark.usefixtures("as_a_user")
def test_the_page_says_what_is_said(monkeypatch):
    monkeypatch.setattr("bmbo.logging._handler.writes", None)
    assert page() == PAGE.read_text(encoding="utf-8"), "python benchmarks/mistakes_page.py --out docs/mistakes.md"


def test_no_mistake_meets_a_bare_error():
    said = PAGE.read_text(encoding="utf-8")
    for bare in ("is not iterable", "object has no attribute", "unexpected keyword", "Traceback", "0x"):
        assert bare not in said
