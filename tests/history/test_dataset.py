"""From a history to arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmbo.history import History, Outcome, Query
from bmbo.history.dataset import SMALLEST_BLOCK, Dataset, block_size
from bmbo.history.value_scaling import Scale
from bmbo.problem import Fidelity, Float, Ladder, Problem, Space

SPACE = Space({"x": Float(0, 1), "y": Float(0, 1)})
LADDER = Ladder([Fidelity("low", cost=1), Fidelity("middle", cost=5), Fidelity("high", cost=20)])


def history_of(results, maximise=True):
    """A history of (level, value) in this order; None is a failure. The trial's number is its first coordinate."""
    history = History(Problem(SPACE, LADDER, maximise))
    for number, (level, value) in enumerate(results):
        history = history.asked(Query((number / 64, 0.5), level))
        outcome = Outcome(None, 1.0, error="boom") if value is None else Outcome(float(value), 1.0)
        history = history.with_outcome(number, outcome)
    return history


def observed(history, level, told=None, **options):
    """First coordinates and values of one level in a dataset, in the objective's own unit but larger is better."""
    told = history.told if told is None else told
    data = Dataset.of_trials(history, told, **options)
    scales = data.scales
    rows = data.rows(level)
    mask = np.asarray(data.mask[rows])
    values = scales[level].restore(np.asarray(data.value[rows], np.float64))
    return np.asarray(data.unit[rows])[mask, 0] * 64, values[mask]


@pytest.mark.parametrize(("count", "size"), [(0, 32), (1, 32), (32, 32), (33, 64), (64, 64), (65, 128), (1000, 1024)])
def test_blocks_are_powers_of_two_from_the_smallest_on(count, size):
    assert SMALLEST_BLOCK == 32
    assert block_size(count) == size


def test_a_run_of_a_thousand_observations_meets_few_shapes():
    assert len({block_size(count) for count in range(1001)}) == 6


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(-100, 100)), max_size=60))
def test_the_rows_of_a_level_and_of_all_higher_ones_are_where_they_are_said_to_be(results):
    history = history_of(results)
    data = Dataset.of(history)
    counts = [sum(level == wanted for level, _ in results) for wanted in range(3)]
    assert data.sizes == tuple(block_size(count) for count in counts)
    assert data.unit.shape == (sum(data.sizes), 2)
    assert data.rows_from(0) == slice(0, sum(data.sizes))
    assert data.rows_from(2) == data.rows(2)
    for level in range(3):
        rows = data.rows(level)
        assert data.rows_from(level).stop == rows.stop, "the levels from here on are a prefix"
        np.testing.assert_array_equal(data.mask[rows], np.arange(data.sizes[level]) < counts[level])
        assert not np.asarray(data.value)[rows][counts[level] :].any()
        assert not np.asarray(data.unit)[rows][counts[level] :].any()
        numbers, values = observed(history, level)
        np.testing.assert_allclose(numbers, [n for n, (at, _) in enumerate(results) if at == level])
        np.testing.assert_allclose(values, [value for at, value in results if at == level], atol=1e-3)


def test_each_level_is_standardised_by_itself():
    generator = np.random.default_rng(0)
    results = [(level, value) for level in range(3) for value in 10.0**level * (generator.normal(size=20) + 3)]
    history = history_of(results)
    data = Dataset.of(history)
    for level, scale in enumerate(Dataset.of(history).scales):
        values = np.asarray(data.value[data.rows(level)])[np.asarray(data.mask[data.rows(level)])]
        assert values.mean() == pytest.approx(0, abs=1e-6)
        assert values.std() == pytest.approx(1, abs=1e-6)
        assert scale.shift == pytest.approx(np.mean([v for at, v in results if at == level]), rel=1e-6)


def test_minimising_is_maximising_the_negative():
    results = [(0, 1.0), (0, 4.0), (2, -3.0), (2, 5.0), (1, 0.5)]
    minimised = Dataset.of(history_of(results, maximise=False))
    maximised = Dataset.of(history_of([(level, -value) for level, value in results], maximise=True))
    for one, other in zip(jax.tree.leaves(minimised), jax.tree.leaves(maximised), strict=True):
        np.testing.assert_array_equal(one, other)
    assert minimised.value[minimised.rows(0)][0] > minimised.value[minimised.rows(0)][1], "the smaller value is better"


@pytest.mark.parametrize("value", [0.0, 7.0, -1e-9, 1e9])
@pytest.mark.parametrize("count", [1, 5])
def test_one_value_or_constant_values_become_zero_and_keep_their_unit(value, count):
    history = history_of([(2, value)] * count)
    data = Dataset.of(history)
    scale = data.scales[2]
    assert not np.asarray(data.value).any()
    assert scale.shift == pytest.approx(value)
    assert scale == Scale(scale.shift)
    assert int(data.mask.sum()) == count


def test_values_that_differ_by_rounding_alone_are_constant():
    data = Dataset.of(history_of([(2, 0.1 + 0.2), (2, 0.3)]))
    assert np.abs(np.asarray(data.value)).max() < 1e-6


def test_a_small_spread_about_a_large_mean_is_kept():
    data = Dataset.of(history_of([(2, 1e6), (2, 1e6 + 1e-3)]))
    np.testing.assert_allclose(data.value[data.rows(2)][:2], [-1, 1], rtol=1e-3)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7, -1e9])
def test_a_dataset_carries_the_scales_that_made_its_values_wherever_these_lie(offset):
    history = history_of([(2, offset), (2, offset + 1.0), (2, offset + 3.0)])
    data = Dataset.of(history)
    scale = data.scales[2]
    assert scale.standardised(offset + 3.0) == pytest.approx(float(data.value[data.rows(2)][2]), abs=1e-3)


def test_a_level_without_data_is_a_block_of_padding():
    history = history_of([(1, 2.0), (1, 3.0)])
    data = Dataset.of(history)
    assert data.num_levels == 3
    for level in (0, 2):
        assert not np.asarray(data.mask[data.rows(level)]).any()
        assert Dataset.of(history).scales[level] == Scale()


def test_a_history_without_outcomes_is_all_padding():
    data = Dataset.of(history_of([]).asked(Query((0.5, 0.5), 0)))
    assert data.unit.shape == (3 * SMALLEST_BLOCK, 2)
    assert not np.asarray(data.mask).any()


@pytest.mark.parametrize(("maximise", "worst"), [(True, 1.0), (False, -4.0)])
def test_a_failure_counts_as_the_worst_of_its_level(maximise, worst):
    history = history_of([(0, -50.0), (2, None), (2, 1.0), (2, 4.0), (0, 50.0)], maximise)
    numbers, values = observed(history, 2)
    np.testing.assert_allclose(numbers, [2, 3, 1])
    sign = 1.0 if maximise else -1.0
    np.testing.assert_allclose(values, [sign * 1.0, sign * 4.0, worst], rtol=1e-6)


def test_a_failure_at_a_level_without_values_is_left_out():
    data = Dataset.of(history_of([(2, None), (0, 1.0)]))
    assert int(data.mask.sum()) == 1


def test_a_failure_that_a_value_has_replaced_is_left_out():
    history = history_of([(2, None), (2, 5.0)])
    assert int(Dataset.of(history).mask.sum()) == 2
    history = history.asked(history.trials[0].query).with_outcome(2, Outcome(3.0, 1.0))
    numbers, values = observed(history, 2, history.learned_from)
    np.testing.assert_allclose(np.sort(values), [3.0, 5.0], rtol=1e-6)
    np.testing.assert_allclose(numbers, [1, 0])
    assert int(Dataset.of(history).mask.sum()) == 2


def test_rows_are_in_the_order_of_numbers_whatever_arrived_first():
    history = History(Problem(SPACE, LADDER, maximise=True))
    for number in range(3):
        history = history.asked(Query((number / 64, 0.5), 0))
    for number in (2, 0, 1):
        history = history.with_outcome(number, Outcome(float(number), 1.0))
    numbers, values = observed(history, 0)
    np.testing.assert_allclose(numbers, [0, 1, 2])
    np.testing.assert_allclose(values, [0, 1, 2], atol=1e-6)


def test_the_observations_of_some_trials_leave_the_others_out():
    history = history_of([(0, 1.0), (0, 2.0), (2, 3.0)])
    data = Dataset.of_trials(history, history.told[:1])
    assert int(data.mask.sum()) == 1
    np.testing.assert_allclose(observed(history, 0, history.told[:1]), [[0], [1.0]])


def test_a_dataset_passes_through_jit_with_its_sizes_static():
    data = Dataset.of(history_of([(0, 1.0), (2, 2.0), (2, 4.0)]))
    total = jax.jit(lambda data: jnp.sum(jnp.where(data.mask, data.value, 0)[data.rows_from(2)] ** 2))(data)
    assert float(total) == pytest.approx(2.0)


def test_the_arrays_are_float32_also_when_float64_is_enabled():
    with jax.enable_x64(True):
        data = Dataset.of(history_of([(0, 1.0), (2, 2.0)]))
        assert {part.dtype for part in (data.unit, data.value, data.mask)} == {jnp.dtype("float32"), jnp.dtype("bool")}


@pytest.mark.parametrize("maximise", [True, False])
def test_bad_values_are_squeezed_where_asked_for(maximise):
    sign = 1.0 if maximise else -1.0
    history = history_of([(2, sign * value) for value in (0.0, 0.1, 0.2, 0.3, 0.4, -300.0)], maximise)
    plain, squeezed = Dataset.of(history), Dataset.of(history, squeeze=True)
    spread = [float(jnp.ptp(each.value[each.rows(2)][:5])) for each in (plain, squeezed)]
    assert spread[0] < 0.01
    assert spread[1] > 10 * spread[0]
    np.testing.assert_allclose(observed(history, 2, squeeze=True), observed(history, 2), rtol=1e-4, atol=1e-4)
