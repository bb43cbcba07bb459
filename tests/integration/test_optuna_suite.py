"""The suite that Optuna ships for samplers."""

from functools import partial

import pytest
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

from bmbo.integration.optuna import BMBOSampler

pytestmark = pytest.mark.slow


# Optuna's MultiObjectiveSamplerTestCase does not apply: bmbo has one objective, as the last case checks.
class TestSuite(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return partial(BMBOSampler, seed=0)


class TestSuiteWithFidelities(TestSuite):
    @pytest.fixture
    def sampler(self):
        return partial(BMBOSampler, seed=0, fidelities={1: 1.0, 9: 9.0, 27: 27.0})
