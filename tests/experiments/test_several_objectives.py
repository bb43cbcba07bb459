"""The comparison of several objectives: problems, records and the page."""

import numpy as np
import pytest

from experiments import several_objectives as compared
from experiments.problems.several_objectives import PROBLEMS


@pytest.mark.parametrize("name", [name for name in PROBLEMS if not name.startswith("lcbench")])
def test_the_levels_differ_and_no_run_has_more_than_the_whole_front(name):
    case = PROBLEMS[name]
    rng = np.random.default_rng(0)
    configs = [case.space.decode(tuple(row)) for row in rng.random((200, case.space.dim))]
    values = [case.values(config, case.top.value) for config in configs]
    assert all(len(each) == case.num_objectives for each in values)
    assert values[0] != case.values(configs[0], case.fidelities[0].value)
    run = [(0.0, each) for each in values]
    assert 0.0 <= compared.shares(case, run)[-1] <= 1.0


def test_on_the_front_of_zdt1_and_dtlz2_almost_all_of_the_volume_is_reached():
    for name, fixed in (("zdt1, 2 objectives", 0.0), ("dtlz2, 3 objectives", 0.5)):
        case = PROBLEMS[name]
        free = case.num_objectives - 1
        grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 40)] * free), axis=-1).reshape(-1, free)
        units = [(*row, *[fixed] * (case.space.dim - free)) for row in grid]
        run = [(0.0, case.values(case.space.decode(unit), case.top.value)) for unit in units]
        assert 0.0 < compared.shares(case, run)[-1] < 0.08


def test_what_is_spent_later_counts_later():
    case = PROBLEMS["zdt1, 2 objectives"]
    total = compared.TOP_EVALUATIONS * 10.0
    run = [(0.2 * total, ()), (0.4 * total, (0.5, 0.5)), (total, (0.2, 0.6))]
    at_quarter, at_half, at_end = compared.shares(case, run)
    assert (at_quarter, at_half > at_end) == (1.0, True)


def test_records_are_kept_and_make_the_page(tmp_path):
    path = tmp_path / "records.csv.gz"
    found = {("zdt1, 2 objectives", name, seed): (1.0, 0.5, 0.1 + seed) for name in compared.METHODS for seed in (0, 1)}
    compared.write_records(path, found)
    assert compared.read_records(path) == found
    text = compared.page(found, 2)
    assert "| screening | 1.000 | 0.500 | 0.600 |" in text
    assert "+0.000 (+0.000 to +0.000)" in text
    assert compared.read_records(tmp_path / "none") == {}
