"""A program reports while it runs, and is ended where its trial should stop."""

import textwrap

import pytest

from bmbo.cli.command_objective import CommandObjective
from bmbo.study.reported_values import ReportedValues
from bmbo.study.trial import Trial

SOURCE = """
import json, sys, time
for step in range(1, 9):
    print(json.dumps({"step": step, "report": 10.0 / step}), flush=True)
    print("epoch", step, '{"report": broken', flush=True)
    time.sleep(float(sys.argv[1]) if step == 4 else 0.0)
print(json.dumps({"value": 1.25}))
"""


def started(others):
    values = ReportedValues(0, {2: 0, 4: 1}, {1: others}, -1.0, None)
    return Trial(number=0, params={"pause": 0.0}, fidelity=8, level=2, _on_the_way=values)


def command(tmp_path, pause):
    (tmp_path / "program.py").write_text(textwrap.dedent(SOURCE))
    return CommandObjective(["{python}", str(tmp_path / "program.py"), str(pause), "{pause}"])


def test_lines_with_a_step_and_a_report_are_reported(tmp_path):
    trial = started(())
    assert command(tmp_path, 0.0)(trial) == 1.25
    assert trial.reported_levels == {0: 5.0, 1: 2.5}
    assert trial.stopped_at is None


def test_a_program_is_ended_where_its_trial_should_stop(tmp_path):
    trial = started((-1.0, -1.0, -1.0, -1.0))
    assert command(tmp_path, 600.0)(trial) == pytest.approx(2.5)
    assert trial.stopped_at == 1
