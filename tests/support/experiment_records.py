"""Make records of runs that never happened, for the tests of reports."""

from dataclasses import replace

from experiments.harness.run_record import Evaluation, Record
from experiments.harness.run_settings import Settings, Task


def record_of(method="a", problem="p", seed=0, losses=(1.0, 0.5), *, takes_starts=True, **changes):
    """Return a record of evaluations at the top that cost 10 each, after starts that cost 11."""
    rows = (Evaluation(0, 0, 5.0, 6.0), Evaluation(0, 1, 4.0, 4.0, recommended=4.0)) if takes_starts else ()
    rows += tuple(
        Evaluation(batch + 1, 1, loss, loss, wall=0.5, cpu=0.25, recommended=loss) for batch, loss in enumerate(losses)
    )
    head = {
        "settings": Settings(11.0 + 10.0 * len(losses), 5, 1).to_json(),
        "costs": [1.0, 10.0],
        "maximise": False,
        "optimum": 0.0,
        "takes_starts": takes_starts,
        "start_cost": 11.0,
        "versions": {},
    }
    return replace(Record(Task(problem, method, seed), head, rows, seconds=1.5), **changes)
