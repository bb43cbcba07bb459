"""The dashboard in a real browser: our figures are drawn beside its own, and nothing complains."""

import threading

import pytest

import bmbo
from bmbo.dashboard import DashboardServer
from bmbo.ledger import Ledger, open_storage
from support.browser import browser_of_tests, visit

# Starts a browser.
pytestmark = pytest.mark.slow

pytest.importorskip("optuna_dashboard")


def figure(name):
    """Where the dashboard draws one of our figures."""
    return f'[id="user-defined-plot:bmbo-{name}-0"] .main-svg'


def test_our_figures_are_drawn_in_the_dashboard_and_nothing_is_fetched_from_elsewhere():
    storage = open_storage(None)
    study = bmbo.create_study(
        study_name="study",
        storage=storage,
        space={"x": bmbo.Float(0, 1)},
        fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(9, cost=9)],
        method=bmbo.random_search(),
    )
    study.optimize(lambda trial: trial.params["x"], n_trials=6, show_progress_bar=False)
    server = DashboardServer(Ledger.load(storage, "study"), study.policy, host="127.0.0.1", port=0, model=False)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        with browser_of_tests() as browser, visit(browser, server.address, until=figure("progress")) as seen:
            for name in ("progress", "spending", "timeline"):
                assert seen.page.locator(figure(name)).count() > 0, name
            assert [text for text in seen.said if text.startswith("error")] == []
            assert all(address.startswith((server.address[:18], "data:", "blob:")) for address in seen.fetched)
    finally:
        server.close()
        thread.join()
