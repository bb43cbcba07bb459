"""The commands that show a study in a browser."""

import pytest

from support import command_line

folder, said = command_line.folder, command_line.said


@pytest.fixture
def ran(folder, said):
    assert said("run", "study.toml")[0] == 0
    return folder


def test_a_report_is_written_beside_the_user(ran, said):
    code, out, _ = said("report", "study.toml")
    assert (code, out) == (0, "report written to study.html\n")
    assert "<h1>study</h1>" in (ran / "study.html").read_text()


def test_a_report_is_written_where_it_is_wanted(ran, said):
    where = ("--storage", "sqlite:///study.db", "--study", "study", "--method", "random_search")
    assert said("report", *where, "--out", "pages.html", "--no-model")[0] == 0
    assert "The page was made without a model." in (ran / "pages.html").read_text()


def test_a_report_names_what_is_wrong_in_one_sentence(ran, said):
    (ran / "notes.html").write_text("my own page")
    code, out, err = said("report", "study.toml", "--out", "notes.html")
    assert (code, out) == (1, "")
    assert err == "bmbo: notes.html exists and is no report of bmbo; choose another name or remove it\n"
    code, _, err = said("report", "--storage", "sqlite:///other.db", "--study", "study")
    assert code == 1
    assert err.startswith("bmbo: there is no storage sqlite:///other.db")
    assert not (ran / "other.db").exists()
