"""A problem with every kind of parameter, and its ledger in every kind of storage: for the tests of the ledger."""

import pytest
from optuna.storages import InMemoryStorage

from bmbo.history import Query
from bmbo.ledger import Ledger
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Categorical, Fidelity, Float, Int, Ladder, Problem, Space

SPACE = Space(
    {
        "lr": Float(1e-5, 1e-1, log=True),
        "share": Float(0, 1),
        "grid": Float(0, 1, step=0.3),
        "n": Int(1, 9),
        "wide": Int(1, 1000, log=True),
        "even": Int(0, 11, step=4),
        "pool": Categorical(["max", "average", None, 3, 0.5, True]),
        "size": Categorical(["small", "large"], ordered=True),
    }
)
PROBLEM = Problem(SPACE, Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10), Fidelity("full", cost=50)]))
DEFINITION = StudyDefinition(PROBLEM, 7)


def storage_of_kind(request, tmp_path):
    if request.param == "memory":
        return InMemoryStorage()
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return {"sqlite": f"sqlite:///{tmp_path}/study.db", "journal": str(tmp_path / "study.log")}[request.param]


@pytest.fixture(params=["memory", "sqlite", "journal", pytest.param("postgresql", marks=pytest.mark.slow)])
def storage(request, tmp_path):
    return storage_of_kind(request, tmp_path)


def ledger_in(storage, definition=DEFINITION, name="study"):
    return Ledger.create(storage, name, definition, load_if_exists=True)


def query_at(share, level=0, **tag):
    """A query as the ledger gives it back."""
    return Query(SPACE.encode(SPACE.decode((share,) * SPACE.dim)), level, tag)


def always():
    return True


def planned(ledger, *queries):
    queries = queries or [query_at(0.1), query_at(0.4, 1), query_at(0.7, 2)]
    ledger.plan(ledger.read().next_batch, queries, always)
    return ledger.read().entries
