"""A study whose processes are killed a few times; `make test-faults` does it a hundred times."""

from faults.fleet import Fleet


def test_a_study_survives_a_handful_of_kills(tmp_path):
    options = ["--batch-size", "3", "--marked", "--seconds", "0.05", "--grace", "1.5"]
    storage = f"sqlite:///{tmp_path}/study.db"
    with Fleet(tmp_path, storage, name="short", size=2, n_trials=9, seed=1, options=options, hidden=False) as fleet:
        fleet.kill(4)
        fleet.finish()
    tally = fleet.check()
    assert tally.problems == []
    assert tally.kills >= 2
