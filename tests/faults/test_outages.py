"""Storages that are restarted, cut off or locked, and clocks that are set, while a fleet runs a study."""

import contextlib
import time

import pytest

from faults.audit import audit
from faults.fleet import Fleet
from support import servers
from support.cutting_proxy import CuttingProxy
from support.outages import Lock

pytestmark = pytest.mark.faults

postgresql, postgresql_url = servers.postgresql, servers.postgresql_url

N_TRIALS = 30
OUTAGES = 4
AWAY_SECONDS = 4.0
"""Longer than the grace period of the fleet."""


def fleet_of(folder, storage, name, seed, **options):
    common = ["--marked", "--batch-size", "4", "--seconds", "0.2", "--asynchronous"]
    return Fleet(folder, storage, name=name, size=4, n_trials=N_TRIALS, seed=seed, options=common, **options)


def audited(fleet):
    tally = audit(fleet)
    assert tally.problems == []
    return tally


def test_a_server_that_is_restarted(postgresql, tmp_path):
    url = servers.new_database(postgresql)

    def restart():
        postgresql.stop()
        time.sleep(AWAY_SECONDS)
        postgresql.start()

    with fleet_of(tmp_path, url, "postgresql, restarted", 11) as fleet:
        fleet.disturb(OUTAGES, restart)
        fleet.finish()
    assert audited(fleet).outages >= 1


def test_connections_that_are_cut_within_transactions(postgresql, postgresql_url, tmp_path):
    proxy = CuttingProxy(postgresql.port, seed=12)
    proxy.cut(0.2)
    through = postgresql_url.replace(f":{postgresql.port}/", f":{proxy.port}/")
    with contextlib.closing(proxy), fleet_of(tmp_path, through, "postgresql, cut", 12) as fleet:
        fleet.finish()
        proxy.cut(0.0)
        fleet.tally.outages = proxy.cuts
        assert audited(fleet).outages > 10


def test_a_database_that_is_locked(tmp_path):
    path = tmp_path / "study.db"

    def locked():
        lock = Lock(path)
        lock.take()
        time.sleep(AWAY_SECONDS)
        lock.close()

    with fleet_of(tmp_path, f"sqlite:///{path}", "sqlite, locked", 13) as fleet:
        fleet.disturb(OUTAGES, locked)
        fleet.finish()
    assert audited(fleet).outages >= 1


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_clocks_that_are_set(kind, tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db" if kind == "sqlite" else str(tmp_path / "study.log")
    with fleet_of(tmp_path, storage, f"{kind}, clocks set", 14, hidden=False, clocks=True, grace=60.0) as fleet:
        fleet.finish()
    tally = audited(fleet)
    # Nobody was taken for dead, so nothing was run twice.
    assert (tally.requeues, tally.duplicates, tally.evaluations) == (0, 0, N_TRIALS)
