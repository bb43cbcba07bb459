"""Write the page of a study to a file, in one step, and never over a file of another kind."""

import re
import uuid
from importlib import import_module
from pathlib import Path

from bmbo.report.report_data import ReportData

MARK = b'name="generator" content="bmbo report"'
"""Is at the beginning of every page, so that a page of an earlier report may be replaced."""
WHERE_THE_MARK_IS = 1000
LONGEST_NAME = 100
"""How many characters of a study's name its page has by default: files of most systems may have 255 bytes."""


def report_path(study_name: str) -> Path:
    """Return where the page of a study goes by default: NAME.html in the working directory."""
    return Path(f"{re.sub(r'[^A-Za-z0-9._-]+', '_', study_name)[:LONGEST_NAME]}.html")


def check_report(path: Path) -> None:
    """Raise an error if no page can be written to a path.

    Raises:
        ImportError: plotly or jinja2 is not installed.
        ValueError: There is another kind of file at this path, or no folder.
    """
    _check_libraries()
    if path.is_dir():
        raise ValueError(f"the report needs the name of a file, got the folder {path}")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} of the report {path.name} does not exist")
    if path.exists() and not is_report(path):
        raise ValueError(f"{path} exists and is no report of bmbo; choose another name or remove it")


def is_report(path: Path) -> bool:
    """Return whether a file is a page that bmbo made."""
    with path.open("rb") as file:
        return MARK in file.read(WHERE_THE_MARK_IS)


def write_report(data: ReportData, path: Path) -> Path:
    """Write the page of a study and return its path; a reader sees the old page or the new one, never a part.

    Raise the errors of `check_report`.
    """
    check_report(path)
    from bmbo.report.page import page  # noqa: PLC0415 - needs the extras

    text = page(data)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return path


def _check_libraries() -> None:
    """Raise ImportError with what to install if the libraries that draw the page are missing."""
    for name in ("plotly", "jinja2"):
        try:
            # Both are extras.
            import_module(name)
        except ImportError:
            raise ImportError(f"a report needs {name}, which is not installed: pip install bmbo[plot]") from None
