"""What is said while a study runs, to whom, and how a progress bar stays whole."""

import io
import logging
import re

import pytest

import bmbo
from support.small_studies import bowl, study_of


class Terminal(io.StringIO):
    """What a terminal receives, and what it shows: a carriage return goes to the start of the line."""

    def isatty(self):
        return True

    @property
    def lines(self):
        lines, column = [""], 0
        for character in self.getvalue():
            if character == "\n":
                lines.append("")
            elif character != "\r":
                assert character.isprintable(), "this terminal knows no escape sequences"
                line = lines[-1].ljust(column)
                lines[-1] = line[:column] + character + line[column + 1 :]
            column = 0 if character in "\r\n" else column + 1
        return [line.rstrip() for line in lines if line.strip()]


@pytest.fixture(params=[Terminal, io.StringIO], ids=["terminal", "file"])
def in_a_program(request, monkeypatch):
    """Makes this process a program that has not set up logging, and returns its standard error."""

    def begun():
        monkeypatch.setattr("sys.stderr", stream := request.param())
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        return stream

    # Called in each test: pytest sets its own stream and handlers between the fixtures and the test.
    return begun


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Take back what a test chooses."""
    monkeypatch.setattr(bmbo.logging._handler, "writes", bmbo.logging._handler.writes)
    before = bmbo.logging.get_verbosity()
    yield
    bmbo.logging.set_verbosity(before)


def test_each_trial_has_a_line_and_at_the_end_there_is_an_answer(in_a_program):
    stream = in_a_program()
    study = study_of()
    study.optimize(bowl, n_trials=3, show_progress_bar=False)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 5
    date = "" if stream.isatty() else r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
    for number, line in enumerate(lines[:3]):
        pattern = (
            rf'{date}bmbo: trial {number}: level "10" value \S+ in \d+\.\d s \(.*, {number + 1} of 3 trials, cost .*\)'
        )
        assert re.fullmatch(pattern, line)
    assert "the run is over: 3 trials for a cost of 30" in lines[3]
    assert lines[4].endswith(study.answer())


def test_a_bar_and_lines_do_not_garble_each_other(in_a_program):
    stream = in_a_program()
    study_of().optimize(lambda trial: bowl(trial) if trial.number else float("nan"), total_cost=40, batch_size=2)
    if not stream.isatty():
        assert "%" not in stream.getvalue(), "no bar is drawn into a file"
        return
    bars = [line for line in stream.lines if "%" in line]
    assert len(bars) == 1
    assert re.fullmatch(r"bmbo: 100%\|.*\| 40/40 cost \[.*, best .*, 1:0 10:4\]", bars[0])
    others = [line for line in stream.lines if "%" not in line]
    assert len(others) == 6
    assert all(line.startswith("bmbo: ") for line in others)
    assert "bmbo, choosing the next batch (0 s)" in stream.getvalue()


@pytest.mark.parametrize(("verbosity", "number"), [(bmbo.logging.WARNING, 1), (bmbo.logging.ERROR, 0)])
def test_a_user_chooses_how_much_is_said(in_a_program, verbosity, number):
    stream = in_a_program()
    bmbo.logging.set_verbosity(verbosity)
    assert bmbo.logging.get_verbosity() == verbosity
    study_of().optimize(
        lambda trial: bowl(trial) if trial.number else float("nan"), n_trials=3, show_progress_bar=False
    )
    assert len(stream.getvalue().splitlines()) == number


def test_no_answer_is_worked_out_where_nobody_sees_it(monkeypatch):
    asked = []
    monkeypatch.setattr(bmbo.Study, "answer", lambda study: asked.append(study) or "use this")
    study = study_of()
    study.optimize(bowl, n_trials=1)
    assert asked == [study]
    study.optimize(bowl, n_trials=1)
    assert asked == [study], "nothing was run"
    bmbo.logging.set_verbosity(bmbo.logging.WARNING)
    study.optimize(bowl, n_trials=2)
    assert asked == [study]


def test_a_program_that_has_set_up_logging_gets_each_message_once(in_a_program, caplog):
    stream = in_a_program()
    # As `logging.basicConfig` does.
    logging.getLogger().addHandler(caplog.handler)
    study_of().optimize(bowl, n_trials=1, show_progress_bar=False)
    assert stream.getvalue() == ""
    assert len(caplog.records) == 3
    bmbo.logging.enable_default_handler()
    study_of().optimize(bowl, n_trials=1, show_progress_bar=False)
    assert len(stream.getvalue().splitlines()) == 3
    bmbo.logging.disable_default_handler()
    study_of().optimize(bowl, n_trials=1, show_progress_bar=False)
    assert len(stream.getvalue().splitlines()) == 3
    assert len(caplog.records) == 9
