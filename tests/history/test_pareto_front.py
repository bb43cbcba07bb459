"""Fronts and their hypervolume."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmbo.history.pareto_front import hypervolume, hypervolume_gain, on_front, orders, reference_below

VALUES = st.integers(2, 4).flatmap(
    lambda size: st.lists(st.tuples(*[st.integers(0, 4)] * size), min_size=1, max_size=8)
)


def beats(one, other):
    return all(a >= b for a, b in zip(one, other, strict=True)) and one != other


def counted(rows):
    """The volume beyond zero, by counting cells of size one."""
    size = len(rows[0])
    cells = np.stack(np.meshgrid(*[np.arange(4)] * size, indexing="ij"), axis=-1).reshape(-1, size)
    return int(np.any([(cells < row).all(1) for row in rows], axis=0).sum())


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_a_row_is_on_the_front_if_no_other_beats_it(rows):
    found = on_front(np.array(rows, np.float64))
    assert found.tolist() == [not any(beats(other, row) for other in rows) for row in rows]


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_the_hypervolume_is_the_volume_that_is_counted(rows):
    values, zero = np.array(rows, np.float64), np.zeros(len(rows[0]))
    assert hypervolume(values, zero) == pytest.approx(counted(rows))
    gain = hypervolume_gain(values[1:], values[0], zero)
    assert gain == pytest.approx(counted(rows) - (counted(rows[1:]) if rows[1:] else 0))


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_the_order_begins_with_the_front_and_has_every_row_once(rows):
    values = np.array(rows, np.float64)
    order = orders(values)
    assert sorted(order) == list(range(len(rows)))
    num = int(on_front(values).sum())
    assert set(order[:num]) == set(np.flatnonzero(on_front(values)))
    for place, row in enumerate(order):
        assert not any(beats(rows[later], rows[row]) for later in order[place + 1 :])


def test_of_one_objective_the_order_is_that_of_the_values_and_equal_ones_keep_theirs():
    assert orders(np.array([[1.0], [3.0], [3.0], [2.0]])).tolist() == [1, 2, 3, 0]


def test_the_reference_lies_behind_the_front_also_of_a_single_point():
    assert reference_below(np.array([[0.0, 1.0], [1.0, 0.0], [-9.0, -9.0]])) == pytest.approx([-0.1, -0.1])
    assert (reference_below(np.array([[5.0, 0.0]])) < [5.0, 0.0]).all()
