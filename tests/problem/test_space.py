"""The space: configurations to the unit cube and back."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmbo.problem import Categorical, Float, Int, Space
from bmbo.problem.parameters import MAX_VALUES

# The checker of types looks at a random element of a container, also while hypothesis builds an example.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")


# --- random spaces --------------------------------------------------------------------------------------------------

magnitudes = st.floats(-1e6, 1e6)
widths = st.floats(1e-3, 1e6)
# Narrower against its bounds than a thousandth, a range loses digits of float64 by itself.
floats = st.builds(lambda low, width: Float(low, low + width * (1 + abs(low))), magnitudes, widths)
log_floats = st.builds(
    lambda low, decades: Float(low, low * 10**decades, log=True), st.floats(1e-9, 1e3), st.floats(0.01, 12)
)
stepped_floats = st.builds(
    lambda low, step, num: Float(low / 100, (low + step * num) / 100, step=step / 100),
    st.integers(-1000, 1000),
    st.integers(1, 300),
    st.integers(1, 50),
)
ints = st.builds(
    lambda low, num, step: Int(low, low + num * step, step=step),
    st.integers(-(10**6), 10**6),
    st.integers(1, 10**6),
    st.integers(1, 100),
)
log_ints = st.builds(
    lambda low, num: Int(low, low + num, log=True),
    st.integers(1, 2000),
    st.one_of(st.integers(0, 100), st.integers(0, 10**6)),
)
scalars = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.floats(-5, 5), st.booleans(), st.none())
categoricals = st.builds(
    Categorical,
    st.lists(scalars, min_size=1, max_size=6, unique_by=lambda c: (isinstance(c, bool), c)),
    ordered=st.booleans(),
)
parameters = st.one_of(floats, log_floats, stepped_floats, ints, log_ints, categoricals)
spaces = st.dictionaries(st.text(min_size=1, max_size=4), parameters, min_size=1, max_size=5).map(Space)


def points_of(space, seed, num=40):
    """Points of the cube: uniform ones, then its corners and points on coarse lines, where edges of bins lie."""
    generator = np.random.default_rng(seed)
    uniform = generator.random((num, space.dim))
    lattice = generator.integers(0, 13, (num, space.dim)) / 12
    return np.concatenate([uniform, lattice, np.zeros((1, space.dim)), np.ones((1, space.dim))])


def assert_same_configs(space, one, other):
    """Discrete values are equal with their types; real ones to the rounding of float64 over their range."""
    assert list(one) == list(other) == list(space.names)
    for name, param in space.params:
        if isinstance(param, Float) and param.step is None:
            scale = abs(one[name]) if param.log else max(abs(param.low), abs(param.high))
            assert abs(one[name] - other[name]) <= 1e-13 * scale
        else:
            assert type(one[name]) is type(other[name])
            assert one[name] == other[name]


# --- round trips ----------------------------------------------------------------------------------------------------


@given(spaces, st.integers(0, 2**32 - 1))
def test_decoding_what_was_encoded_gives_the_configuration_back(space, seed):
    for unit in points_of(space, seed, num=10).tolist():
        config = space.decode(unit)
        assert_same_configs(space, space.decode(space.encode(config)), config)
        exact, at = space.exact_at(config)
        assert at == space.encode(exact)


@given(spaces, st.integers(0, 2**32 - 1))
def test_encoding_what_was_decoded_is_the_snapped_point(space, seed):
    points = points_of(space, seed, num=10)
    there_and_back = [space.encode(space.decode(unit)) for unit in points.tolist()]
    np.testing.assert_allclose(there_and_back, space.snap(points), rtol=0, atol=1e-11)


@given(spaces, st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_snapping_twice_is_snapping_once(space, seed, dtype):
    points = points_of(space, seed).astype(dtype)
    once = space.snap(points)
    assert once.dtype == dtype
    assert once.shape == points.shape
    assert ((once >= 0) & (once <= 1)).all()
    np.testing.assert_array_equal(space.snap(once), once)


@settings(max_examples=25)  # each example compiles
@given(spaces, st.integers(0, 2**32 - 1))
def test_the_jitted_snap_is_the_plain_one_and_idempotent_in_float32(space, seed):
    snap = jax.jit(Space.snap, static_argnums=0)
    points = points_of(space, seed).astype(np.float32)
    once = snap(space, jnp.asarray(points))
    assert once.dtype == jnp.float32
    np.testing.assert_array_equal(snap(space, once), once)
    for name, block in zip(space.names, space.blocks, strict=True):
        plain, jitted = space.snap(points)[:, block], np.asarray(once)[:, block]
        if isinstance(space[name], Int) and space[name].log:
            # exp and log of the two libraries differ in the last digits, and so may a point on the edge of a bin.
            assert (np.abs(plain - jitted) < 1e-6).mean() > 0.9
        else:
            np.testing.assert_array_equal(plain, jitted)


@given(spaces, st.integers(0, 2**32 - 1))
def test_a_point_snapped_in_float32_runs_the_same_configuration_as_its_own_snap(space, seed):
    snapped = space.snap(points_of(space, seed, num=10).astype(np.float32)).astype(np.float64)
    np.testing.assert_allclose(space.snap(snapped), snapped, rtol=0, atol=1e-6)
    for unit in snapped.tolist():
        assert_same_configs(space, space.decode(space.encode(space.decode(unit))), space.decode(unit))


@given(spaces)
def test_a_space_survives_json_and_is_a_static_argument(space):
    back = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert back == space
    assert hash(back) == hash(space)
    assert back.to_json() == space.to_json()


@given(spaces, st.integers(0, 2**32 - 1))
def test_decoded_values_obey_their_bounds_exactly_and_are_plain_python(space, seed):
    for unit in points_of(space, seed, num=5).tolist():
        for name, value in space.decode(unit).items():
            param = space[name]
            if isinstance(param, Categorical):
                assert any(value is choice or value == choice for choice in param.choices)
            else:
                assert param.low <= value <= param.high
                assert type(value) is (int if isinstance(param, Int) else float)


# --- the encoding itself --------------------------------------------------------------------------------------------


def one(param):
    return Space({"x": param})


def snapped(param, *unit):
    return tuple(one(param).snap(np.array(unit)).tolist())


def test_a_float_is_linear_and_a_log_float_linear_in_the_logarithm():
    assert one(Float(-2, 6)).encode({"x": 0}) == (0.25,)
    assert one(Float(-2, 6)).decode([0.75]) == {"x": 4.0}
    assert one(Float(1e-5, 1e-1, log=True)).encode({"x": 1e-3}) == (pytest.approx(0.5, abs=1e-12),)
    assert one(Float(1e-5, 1e-1, log=True)).decode([0.25])["x"] == pytest.approx(1e-4)


def test_the_ends_of_a_float_are_met_exactly_and_points_outside_are_clipped():
    for param in (Float(0.1, 0.7), Float(1e-5, 0.3, log=True), Float(1e6, math.nextafter(1e6, 2e6), log=True)):
        assert [one(param).decode([u])["x"] for u in (-1.0, 0.0, 1.0, 2.0)] == [
            param.low,
            param.low,
            param.high,
            param.high,
        ]
    assert snapped(Float(0, 1), 1.5) == (1.0,)


def test_integers_share_the_coordinate_evenly_and_sit_in_the_middle_of_their_bins():
    space = one(Int(1, 4))
    assert [space.encode({"x": i}) for i in (1, 2, 3, 4)] == [(0.125,), (0.375,), (0.625,), (0.875,)]
    assert [space.decode([u])["x"] for u in (0.0, 0.2499, 0.25, 0.5, 0.99, 1.0)] == [1, 1, 2, 3, 4, 4]
    assert [one(Int(0, 10, step=4)).decode([u])["x"] for u in (0.1, 0.5, 1.0)] == [0, 4, 8]


def test_a_log_integer_is_represented_at_its_logarithm_between_the_edges_half_way():
    space, low, high = one(Int(1, 100, log=True)), math.log(0.5), math.log(100.5)
    for value in (1, 2, 37, 100):
        (unit,) = space.encode({"x": value})
        assert unit == pytest.approx((math.log(value) - low) / (high - low), abs=1e-12)
        for edge, inside in ((value - 0.5, 1e-9), (value + 0.5, -1e-9)):
            assert space.decode([(math.log(edge) - low) / (high - low) + inside]) == {"x": value}


@pytest.mark.parametrize("param", [Int(1, MAX_VALUES, log=True), Int(0, MAX_VALUES - 1), Int(-(10**25), 7 - 10**25)])
def test_the_widest_integers_still_come_back_exactly(param):
    space = one(param)
    for value in (param.low, param.low + 1, (param.low + param.high) // 2, param.high - 1, param.high):
        assert space.decode(space.encode({"x": value})) == {"x": value}


@pytest.mark.parametrize("param", [Int(1, 10**9, log=True), Int(0, 10**9), Int(10**7, 10**7 + 5, log=True)])
def test_in_float32_wide_integers_snap_as_far_as_the_rounding_allows(param):
    points = np.random.default_rng(0).random((2000, 1)).astype(np.float32)
    once = one(param).snap(points)
    np.testing.assert_array_equal(one(param).snap(once), once)
    jitted = jax.jit(one(param).snap)
    np.testing.assert_array_equal(jitted(jitted(jnp.asarray(points))), jitted(jnp.asarray(points)))
    exact = one(param).snap(points.astype(np.float64))
    assert np.quantile(np.abs(once - exact), 0.99) < 1e-6
    if param.high - param.low == 5:
        assert len(np.unique(once)) == 6


def test_steps_of_a_tenth_meet_the_decimals_that_the_user_wrote():
    space = one(Float(0, 0.3, step=0.1))
    assert [space.decode([u])["x"] for u in (0.1, 0.3, 0.6, 1.0)] == [0.0, 0.1, 0.2, 0.3]
    assert space.encode({"x": 0.1 + 0.2}) == space.encode({"x": 0.3})
    assert one(Float(0, 1, step=0.3)).decode([1.0]) == {"x": 0.9}


def test_two_choices_take_one_coordinate_and_three_take_three():
    assert one(Categorical(["a", "b"])).dim == 1
    assert one(Categorical(["a", "b"])).encode({"x": "b"}) == (0.75,)
    space = one(Categorical(["a", "b", "c"]))
    assert space.dim == 3
    assert space.encode({"x": "b"}) == (0.0, 1.0, 0.0)
    assert space.decode([0.2, 0.7, 0.7]) == {"x": "b"}, "the first of ties"
    assert snapped(space["x"], 0.2, 0.7, 0.7) == (0.0, 1.0, 0.0)


def test_ordered_choices_take_one_coordinate():
    space = one(Categorical(["small", "medium", "large", "huge"], ordered=True))
    assert space.dim == 1
    assert [space.decode([u])["x"] for u in (0.1, 0.3, 0.6, 1.0)] == ["small", "medium", "large", "huge"]


@pytest.mark.parametrize("param", [Int(3, 3), Int(3, 3, log=True), Categorical(["only"])])
def test_a_constant_takes_one_coordinate_that_snaps_to_the_middle(param):
    assert one(param).dim == 1
    assert snapped(param, 0.9) == (0.5,)
    assert one(param).decode([0.1])["x"] in (3, "only")


def test_true_and_one_are_different_choices_but_one_and_one_point_zero_are_not():
    space = one(Categorical([True, 1, "1", None]))
    found = space["x"]
    assert isinstance(found, Categorical)
    for place, choice in enumerate(found.choices):
        assert space.encode({"x": choice})[place] == 1.0
        assert space.decode(space.encode({"x": choice}))["x"] is choice
    with pytest.raises(ValueError, match=r"choices must differ, got 1.0 more than once"):
        Categorical([1, 1.0])


@pytest.mark.usefixtures("as_a_user")
def test_numbers_of_numpy_become_plain_ones():
    space = Space(
        {
            "a": Int(np.int64(1), np.int32(3)),  # pyright: ignore[reportArgumentType]
            "b": Float(np.float64(0), 1),
            "c": Categorical([np.str_("u"), np.int64(2)]),  # pyright: ignore[reportArgumentType]
        }
    )
    json.dumps(space.to_json())
    found = space["c"]
    assert isinstance(found, Categorical)
    assert type(found.choices[1]) is int
    assert space.decode(space.encode({"a": np.int64(2), "b": np.float32(0.5), "c": np.int64(2)})) == {
        "a": 2,
        "b": 0.5,
        "c": 2,
    }


def test_a_space_keeps_its_order_and_finds_its_parameters():
    space = Space({"z": Float(0, 1), "a": Categorical(["p", "q", "r"]), "m": Int(1, 2)})
    assert space.names == ("z", "a", "m")
    assert space.dim == 5
    assert space["m"] == Int(1, 2)
    assert space.decode([0.5, 0.0, 0.0, 1.0, 0.9]) == {"z": 0.5, "a": "r", "m": 2}


def test_snap_takes_any_number_of_leading_axes():
    space = Space({"z": Float(0, 1), "a": Categorical(["p", "q", "r"]), "m": Int(1, 2)})
    points = np.random.default_rng(0).random((3, 4, 5))
    np.testing.assert_array_equal(space.snap(points)[1, 2], space.snap(points[1, 2]))
    single = points.astype(np.float32)
    np.testing.assert_array_equal(jax.vmap(space.snap)(jnp.asarray(single)), space.snap(single))


def test_snap_works_in_float64_when_that_is_enabled():
    with jax.enable_x64(True):
        points = jnp.asarray(np.random.default_rng(0).random((50, 1)))
        once = jax.jit(one(Int(1, 10**9, log=True)).snap)(points)
        assert once.dtype == jnp.float64
        np.testing.assert_allclose(once, one(Int(1, 10**9, log=True)).snap(np.asarray(points)), rtol=0, atol=1e-9)
