"""Values to standardised numbers and back."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from bmbo.history.value_scaling import Scale

VALUES = st.lists(st.floats(-1e6, 1e6), max_size=40)
KINDS = {"linear": Scale.linear, "squeezing": Scale.squeezing}


def draws(num=400):
    return np.random.default_rng(3).normal(size=num)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(VALUES)
def test_a_scale_keeps_the_order_and_comes_back(kind, values):
    seen = np.asarray(values, np.float64)
    scale = KINDS[kind](seen)
    standardised = scale.standardise(seen)
    assert np.all(np.isfinite(standardised))
    assert np.all(np.diff(standardised[np.argsort(seen)]) >= -1e-9)
    np.testing.assert_allclose(
        scale.restore(standardised),
        seen,
        rtol=1e-7,
        atol=1e-7 * np.max(np.abs(seen), initial=1.0),
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(VALUES)
def test_values_that_differ_have_mean_zero_and_deviation_one(kind, values):
    seen = np.asarray(values, np.float64)
    assume(len(seen) > 1 and np.std(seen) > 1e-3)
    standardised = KINDS[kind](seen).standardise(seen)
    assert np.mean(standardised) == pytest.approx(0, abs=1e-6)
    assert np.std(standardised) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [[], [7.0], [7.0] * 6, [0.1 + 0.2, 0.3, 0.3, 0.3, 0.1 + 0.2]])
def test_what_has_no_spread_keeps_its_unit(kind, values):
    scale = KINDS[kind](np.asarray(values))
    assert scale.shift == pytest.approx(values[0] if values else 0.0)
    assert scale == Scale(scale.shift)


def test_a_power_is_that_of_yeo_and_johnson():
    values = np.linspace(-5, 5, 41)
    for power in (1.0, 1.3, 1.9999, 2.0):
        expected = cast(Any, stats.yeojohnson(values, power))
        np.testing.assert_allclose(Scale(power=power).standardise(values), expected, rtol=1e-9)


def test_one_value_out_of_all_proportion_does_not_hide_the_others():
    seen = np.append(draws(20), -1e9)
    plain, scale = Scale.linear(seen).standardise(seen), Scale.squeezing(seen)
    squeezed = scale.standardise(seen)
    assert np.std(plain[:-1]) < 1e-8
    assert np.std(squeezed[:-1]) > 0.1
    assert np.argmin(squeezed) == 20
    assert scale.power > 1.5


def test_the_power_is_the_likeliest():
    seen = np.append(draws(20), [-200.0, -300.0, -1e3])
    scale = Scale.squeezing(seen)
    assert 1.0 < scale.power < 2.0
    centred = (seen - scale.shift) / scale.unit
    likely = [stats.yeojohnson_llf(scale.power + step, centred) for step in (-0.02, 0.0, 0.02)]
    assert np.argmax(likely) == 1


@pytest.mark.parametrize(
    "seen",
    [
        draws(),
        -np.exp(draws()),
        np.append(draws(20), 1e9),
        np.append(draws(20), -50.0),
        np.asarray([0.0, 1.0, 2.0, -1e9]),
        np.asarray([3.0] * 10 + [-1e9]),
    ],
    ids=["normal", "a tail", "a good value", "a bad value", "few", "no spread but for one"],
)
def test_what_is_not_bad_out_of_all_proportion_is_left_as_it_is(seen):
    assert Scale.squeezing(seen) == Scale.linear(seen)
