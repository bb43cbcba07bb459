"""Few observations go to one surrogate, many to another."""

from dataclasses import dataclass, field

import jax
import numpy as np
import pytest

from bmbo.history import Dataset
from bmbo.surrogates.gp import AutoRegressiveGP
from bmbo.surrogates.switch_by_size import BySize
from bmbo.testing import check_surrogate


def observed(num):
    rng = np.random.default_rng(num)
    units = [rng.random((num, 2)), rng.random((2, 2))]
    return Dataset.of_arrays(units, [unit.sum(axis=1) for unit in units])


@dataclass(frozen=True)
class Noted:
    """Notes what it is asked to start from."""

    name: str
    starts: list[object] = field(hash=False)

    def fit(self, key, data, warm=None):
        self.starts.append(warm)
        posterior, _, _ = AutoRegressiveGP(num_functions=4, num_hyper=1, num_features=16, max_steps=2).fit(key, data)
        return posterior, f"warm {self.name}", self.name


def test_the_number_of_observations_decides_and_a_warm_start_of_the_other_is_not_used():
    small, large = Noted("small", []), Noted("large", [])
    surrogate = BySize(small, large, limit=6)
    warm, said = None, []
    for num in (3, 4, 5, 6):
        _, warm, info = surrogate.fit(jax.random.key(0), observed(num), warm)
        said.append(info)
    assert said == ["small", "small", "large", "large"]
    assert small.starts == [None, "warm small"]
    assert large.starts == [None, "warm large"]


@pytest.mark.slow
def test_it_is_a_surrogate_like_any_other():
    gp = AutoRegressiveGP(num_functions=32, num_hyper=4, num_features=64, max_steps=10)
    check_surrogate(BySize(gp, gp, limit=8), observed(5))


def test_a_limit_below_one_is_refused():
    gp = AutoRegressiveGP()
    with pytest.raises(ValueError, match="limit must be a whole number of at least 1, got 0"):
        BySize(gp, gp, limit=0)
