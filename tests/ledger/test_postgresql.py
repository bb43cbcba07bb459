"""A study on a real PostgreSQL server: passwords, a server that is restarted, and processes that share it.

The ledger's own tests run on it too, see test_ledger.py and test_owners.py.
"""

import logging
import threading
import time

import pytest

import bmbo
from bmbo.history import Outcome
from bmbo.ledger import Ledger, open_storage, redacted
from support import servers
from support.cutting_proxy import CuttingProxy
from support.study_ledgers import ledger_in, query_at

# Every test starts a server.
pytestmark = pytest.mark.slow

postgresql, postgresql_url = servers.postgresql, servers.postgresql_url


def new_study(url, **options):
    return bmbo.create_study(
        study_name="study",
        storage=url,
        load_if_exists=True,
        space={"x": bmbo.Float(0, 1), "n": bmbo.Int(1, 9)},
        fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)],
        seed=5,
        method=bmbo.random_search(),
        **options,
    )


def square(trial):
    return trial.params["x"] ** 2


def test_a_study_is_run_left_and_loaded_again(postgresql_url):
    study = new_study(postgresql_url)
    study.optimize(square, n_trials=6, batch_size=3, show_progress_bar=False)
    again = bmbo.load_study(study_name="study", storage=postgresql_url, method=bmbo.random_search())
    assert again.history == study.history
    again.optimize(square, n_trials=9, batch_size=3, show_progress_bar=False)
    assert [trial.value for trial in again.trials] == [trial.params["x"] ** 2 for trial in again.trials]
    assert len(study.trials) == 9
    # The same choices as in memory: the storage has no part in them.
    alone = new_study(None)
    alone.optimize(square, n_trials=9, batch_size=3, show_progress_bar=False)
    assert [trial.params for trial in alone.trials] == [trial.params for trial in again.trials]


def test_the_password_is_never_shown(postgresql_url, caplog):
    with caplog.at_level(logging.DEBUG, logger="bmbo"):
        study = new_study(postgresql_url)
        study.optimize(square, n_trials=1, show_progress_bar=False)
    assert servers.PASSWORD in postgresql_url
    for said in (study.storage, redacted(open_storage(postgresql_url)), caplog.text):
        assert servers.PASSWORD not in said
    wrong = postgresql_url.replace(servers.PASSWORD, "a-wrong-secret")
    for storage in (wrong, f"{postgresql_url}_which_is_not_there"):
        with pytest.raises(ValueError, match="cannot be opened") as refusal:
            open_storage(storage)
        assert "secret" not in str(refusal.value)
        assert servers.PASSWORD not in str(refusal.value)


def test_a_run_outlives_a_restart_of_the_server(postgresql):
    url = servers.new_database(postgresql)
    study, restarted = new_study(url), []

    def objective(trial):
        if trial.number == 2:
            postgresql.stop()
            # Started again while the result is being written.
            restarted.append(threading.Timer(1.0, postgresql.start))
            restarted[0].start()
        return square(trial)

    try:
        study.optimize(objective, n_trials=6, batch_size=2, show_progress_bar=False)
    finally:
        restarted[0].join()
    assert [trial.value for trial in study.trials] == [trial.params["x"] ** 2 for trial in study.trials]
    assert [trial.number for trial in Ledger.load(url, "study").read().history.done] == list(range(6))


@pytest.fixture
def proxy(postgresql):
    proxy = CuttingProxy(postgresql.port)
    yield proxy
    proxy.close()


def test_a_lost_answer_to_a_commit_doubles_nothing(postgresql, postgresql_url, proxy):
    ledger = ledger_in(postgresql_url.replace(f":{postgresql.port}/", f":{proxy.port}/"))
    for number in range(4):
        proxy.lose_answers(2)
        assert ledger.add(query_at(0.1), Outcome(1.0, 1.0)) == number
    proxy.lose_answers(2)
    ledger.plan(0, [query_at(place / 8) for place in range(3)], lambda: True)
    assert len(ledger.read().entries) == 7
    assert proxy.cuts == 10


def test_a_run_through_a_network_that_cuts_connections_has_the_same_record(postgresql, postgresql_url, proxy, capfd):
    study = new_study(postgresql_url.replace(f":{postgresql.port}/", f":{proxy.port}/"))
    proxy.cut(0.4)
    study.optimize(square, n_trials=12, batch_size=3, show_progress_bar=False)
    proxy.cut(0.0)
    alone = new_study(None)
    alone.optimize(square, n_trials=12, batch_size=3, show_progress_bar=False)
    assert [trial.params for trial in study.trials] == [trial.params for trial in alone.trials]
    assert [trial.value for trial in study.trials] == [trial.value for trial in alone.trials]
    assert proxy.cuts > 5
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert "SELECT" not in said


def test_runs_outlive_backends_that_are_terminated(postgresql, capfd):
    url = servers.new_database(postgresql)
    new_study(url)
    failures = []

    def work():
        try:
            new_study(url).optimize(square, n_trials=30, batch_size=3, show_progress_bar=False)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    # While they work, so for as long as they do.
    while any(thread.is_alive() for thread in threads):
        postgresql.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{url.rpartition('/')[2]}' AND random() < 0.5"
        )
        time.sleep(0.3)
    assert failures == []
    study = new_study(url)
    assert [trial.value for trial in study.trials] == [trial.params["x"] ** 2 for trial in study.trials]
    assert len(study.trials) == 30
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert "SELECT" not in said
