"""Where a report is written, and what is never written over."""

import stat
import sys
from pathlib import Path

import pytest

from bmbo.report import check_report, report_path, write_report
from support.report_records import record

DATA = record(4)


def test_the_page_is_named_after_the_study():
    assert report_path("cnn") == Path("cnn.html")
    assert report_path("a/b c: <d>") == Path("a_b_c_d_.html")


def test_an_earlier_report_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "study.html"
    assert write_report(DATA, path) == path
    first = path.read_text()
    assert "<h1>a study</h1>" in first
    path.write_text(first.replace("<h1>a study</h1>", "<h1>an older study</h1>"))
    write_report(DATA, path)
    assert "<h1>a study</h1>" in path.read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["study.html"]


def test_a_page_can_be_read_by_those_who_can_read_other_new_files(tmp_path):
    other = tmp_path / "other"
    other.touch()
    path = write_report(DATA, tmp_path / "study.html")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


@pytest.mark.parametrize("content", ["", "<html>my own page</html>", "{}"])
def test_another_file_is_not_written_over(tmp_path, content):
    path = tmp_path / "study.html"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"study\.html exists and is no report of bmbo; choose another name"):
        write_report(DATA, path)
    assert path.read_text() == content


def test_a_folder_is_no_place_for_a_page(tmp_path):
    with pytest.raises(ValueError, match="needs the name of a file, got the folder"):
        check_report(tmp_path)
    with pytest.raises(ValueError, match=r"the folder .*nowhere of the report study.html does not exist"):
        check_report(tmp_path / "nowhere" / "study.html")


def test_a_page_that_cannot_be_made_leaves_the_old_one(tmp_path, monkeypatch):
    path = write_report(DATA, tmp_path / "study.html")
    before = path.read_text()

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        write_report(DATA, path)
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["study.html"]


@pytest.mark.parametrize("missing", ["plotly", "jinja2"])
def test_a_missing_library_is_named_with_how_to_get_it(tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        ImportError, match=rf"a report needs {missing}, which is not installed: pip install bmbo\[plot\]"
    ):
        check_report(tmp_path / "study.html")
