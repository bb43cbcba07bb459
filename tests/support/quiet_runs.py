"""Runs that show nothing, their records, files to run in, and an executor that finishes the last first."""

import time
from dataclasses import dataclass, field

import pytest

from bmbo import Fidelity, Float, Int, create_study, random_search
from bmbo.protocols import Finished
from support.small_studies import bowl

SPACE = {"x": Float(0, 1), "n": Int(1, 9)}
FIDELITIES = [Fidelity(1, cost=1), Fidelity(10, cost=10)]


def study_in(storage=None, method=None, name="study", **options):
    return create_study(
        study_name=name,
        storage=storage,
        load_if_exists=True,
        space=SPACE,
        fidelities=FIDELITIES,
        method=method or random_search(),
        **options,
    )


def run(study, objective=bowl, **options):
    study.optimize(objective, show_progress_bar=False, **options)
    return study


def record(study):
    """All but durations."""
    return [
        (t.number, t.query, t.outcome and (t.outcome.value, t.outcome.cost, t.outcome.error))
        for t in study.history.trials
    ]


@pytest.fixture(params=["sqlite", "journal"])
def storage(request, tmp_path):
    return {"sqlite": f"sqlite:///{tmp_path}/study.db", "journal": str(tmp_path / "study.log")}[request.param]


@dataclass
class LastFirst:
    """An executor that finishes what it began last; jobs may be lost on the way."""

    num_workers: int = 3
    lose: set = field(default_factory=set)
    jobs: dict = field(default_factory=dict)
    most: int = 0

    def submit(self, number, job):
        assert len(self.jobs) < self.num_workers
        self.jobs[number] = job
        self.most = max(self.most, len(self.jobs))

    def collect(self, seconds):
        if not self.jobs:
            time.sleep(min(seconds, 0.01))
            return []
        number, job = self.jobs.popitem()
        if number in self.lose:
            self.lose.remove(number)
            return [Finished(number, lost=True, error="the node is gone")]
        try:
            return [Finished(number, job(), 0.5)]
        except Exception as error:
            return [Finished(number, None, 0.5, f"{type(error).__name__}: {error}", error)]

    def close(self):
        self.jobs.clear()
