"""The suite that Optuna ships for samplers."""

from functools import partial

import pytest
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

from bmbo.integration.optuna import BMBOSampler

pytestmark = pytest.mark.slow


class TestSuite(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return partial(BMBOSampler, seed=0)


# With several objectives, trials of Optuna cannot report, so that there are no fidelities: the last case checks that.
class TestSuiteWithFidelities(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return partial(BMBOSampler, seed=0, fidelities={1: 1.0, 9: 9.0, 27: 27.0})
