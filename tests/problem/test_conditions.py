"""Parameters that exist only where others have certain values: points, configurations, and what is refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmbo.problem import Categorical, Float, Int, Space

# The checker of types looks at a random element of a container, also while hypothesis builds an example.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")

TREE = Space(
    {
        "depth": Int(1, 9, when={"booster": ["tree", "dart"]}),  # before its parent, which is no matter
        "booster": Categorical(["tree", "dart", "linear"]),
        "rate": Float(0.1, 0.9, when={"booster": "dart"}),
        "kind": Categorical(["a", "b", "c"], when={"depth": range(1, 4), "on": True}),
        "on": Categorical([False, True]),
        "x": Float(0, 1),
    }
)


@st.composite
def trees(draw):
    """Random spaces in which each parameter may depend on earlier ones that take few values."""
    params, whens = {}, {}
    for place in range(draw(st.integers(2, 6))):
        when = {}
        for parent in draw(st.lists(st.sampled_from(sorted(params)), max_size=2, unique=True)) if params else []:
            values = _values(params[parent])
            # The first value is always among them, so that no two conditions exclude each other.
            when[parent] = [values[0], *draw(st.lists(st.sampled_from(values), max_size=2))] if values else []
        when = {parent: values for parent, values in when.items() if values}
        kind = draw(st.sampled_from(["real", "int", "log", "step", "two", "choice", "order"]))
        makers = {
            "real": lambda **more: Float(-1, 3, **more),
            "int": lambda **more: Int(2, 6, **more),
            "log": lambda **more: Int(1, 300, log=True, **more),
            "step": lambda **more: Float(0, 1, step=0.1, **more),
            "two": lambda **more: Categorical([True, 1.5], **more),
            "choice": lambda **more: Categorical(["a", None, 3, 0.5], **more),
            "order": lambda **more: Categorical(["s", "m", "l"], ordered=True, **more),
        }
        params[f"p{place}"] = makers[kind](when=when or None)
        whens[f"p{place}"] = when
    return Space(params)


def _values(param):
    if isinstance(param, Categorical):
        return list(param.choices)
    if isinstance(param, Int):
        return list(range(param.low, param.high + 1, 7))
    return [] if param.step is None else [0.0, 0.3, 0.7]


@given(trees(), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_snapping_twice_is_snapping_once(space, seed, dtype):
    points = np.random.default_rng(seed).random((30, space.dim)).astype(dtype)
    once = space.snap(points)
    assert once.dtype == dtype
    assert once.shape == points.shape
    np.testing.assert_array_equal(space.snap(once), once)


@given(trees(), st.integers(0, 2**32 - 1))
def test_encoding_what_was_decoded_is_the_snapped_point(space, seed):
    points = np.random.default_rng(seed).random((15, space.dim))
    there_and_back = [space.encode(space.decode(unit)) for unit in points.tolist()]
    np.testing.assert_allclose(there_and_back, space.snap(points), rtol=0, atol=1e-11)
    for unit in points.tolist():
        config = space.decode(unit)
        assert list(config) == [name for name in space.names if name in config]
        exact, at = space.exact_at(config)
        assert exact.keys() == config.keys()
        assert at == space.encode(exact)


@given(trees(), st.integers(0, 2**32 - 1))
def test_points_that_differ_only_in_what_does_not_exist_are_one_point(space, seed):
    generator = np.random.default_rng(seed)
    points = space.snap(generator.random((15, space.dim)))
    others = points.copy()
    if space.tree is not None:
        for block, exists in zip(space.blocks, space.tree.active(points), strict=True):
            if exists is not None:
                others[~exists, block] = generator.random((int((~exists).sum()), block.stop - block.start))
    np.testing.assert_array_equal(space.snap(others), points)
    assert [space.decode(unit) for unit in others.tolist()] == [space.decode(unit) for unit in points.tolist()]


@given(trees())
def test_a_space_comes_back_from_json_and_says_conditions_only_where_there_are_some(space):
    described = json.loads(json.dumps(space.to_json()))
    assert Space.from_json(described) == space
    assert [("when" in entry) for entry in described] == [bool(param.when) for _, param in space.params]


@settings(max_examples=5)  # each example compiles
@given(trees(), st.integers(0, 2**32 - 1))
def test_the_jitted_snap_is_the_plain_one(space, seed):
    points = np.random.default_rng(seed).random((20, space.dim)).astype(np.float32)
    once = jax.jit(Space.snap, static_argnums=0)(space, jnp.asarray(points))
    assert once.dtype == jnp.float32
    # exp and log of the two libraries differ in the last digits, and so may a point on the edge of a bin.
    assert (np.abs(space.snap(points) - np.asarray(once)).max(axis=1) < 1e-5).mean() > 0.9


def test_a_configuration_has_only_what_exists():
    config = {"booster": "linear", "on": True, "x": 0.5}
    assert TREE.decode(TREE.encode(config)) == config
    whole = {"depth": 2, "booster": "dart", "rate": 0.5, "kind": "b", "on": True, "x": 0.25}
    assert TREE.exact(whole) == whole


def test_neither_the_order_of_parents_nor_that_of_values_matters():
    one = Float(0, 1, when={"a": ["x", "y"], "b": 3})
    assert one == Float(0, 1, when={"b": (3,), "a": ["y", "x", "y"]})
    assert hash(one) == hash(Float(0, 1, when={"b": [3], "a": ["y", "x"]}))
    assert one != Float(0, 1, when={"a": ["x"]})
    assert "when" not in repr(Float(0, 1))


def test_a_notebook_shows_when_a_parameter_exists():
    assert "0.1 to 0.9, when booster is &#x27;dart&#x27;" in TREE._repr_html_()


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"booster": "linear", "on": True, "x": 0.5, "depth": 3},
            "parameter 'depth' exists only when booster is 'dart' or 'tree', and here booster is 'linear'; leave it",
        ),
        (
            {"booster": "linear", "on": True, "x": 0.5, "kind": "a"},
            "parameter 'kind' exists only when depth is 1 or 2 or 3 and on is True, and here depth is absent and on is",
        ),
        (
            {"booster": "tree", "on": True, "x": 0.5},
            r"needs \['booster', 'on', 'x', 'depth'\], got missing \['depth'\]",
        ),
        ({"on": True, "x": 0.5, "depth": 2}, r"missing \['booster'\], unknown \[\]"),
        ({"booster": "linear", "on": True, "x": 0.5, "deep": 3}, r"missing \[\], unknown \['deep'\]"),
        ({"booster": "forest", "on": True, "x": 0.5}, "parameter 'booster': Categorical: value must be one of"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_by_name(config, sentence):
    with pytest.raises(ValueError, match=sentence):
        TREE.encode(config)


@pytest.mark.parametrize(
    ("when", "error", "sentence"),
    [
        ({}, ValueError, "when must name at least one parameter"),
        (3, TypeError, "when must name parameters and their values, such as .*, got 3"),
        ({"a": []}, ValueError, "when needs at least one value of 'a', got none"),
        ({1: 2}, TypeError, "when must name parameters, such as .*, got 1"),
        ({"a": float("nan")}, ValueError, "a value of 'a' must be finite"),
        ({"a": {"b": 1}}, TypeError, "'a' must be a string, number, boolean or None"),
    ],
)
@pytest.mark.parametrize("make", [lambda when: Float(0, 1, when=when), lambda when: Categorical(["a"], when=when)])
@pytest.mark.usefixtures("as_a_user")
def test_a_condition_that_says_nothing_is_refused(make, when, error, sentence):
    with pytest.raises(error, match=sentence):
        make(when)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"a": Float(0, 1, when={"b": 1})}, r"parameter 'a': when names 'b', but the space has only \['a'\]"),
        ({"a": Float(0, 1, when={"a": 1})}, "when names 'a', a Float without a step"),
        ({"a": Int(0, 1, when={"a": 1})}, "the conditions of 'a' go round in a circle"),
        (
            {"a": Int(0, 1, when={"b": 1}), "b": Int(0, 1, when={"a": 1}), "c": Int(0, 1)},
            "the conditions of 'a', 'b' go round in a circle",
        ),
        ({"a": Float(0, 1), "b": Int(0, 1, when={"a": 0.5})}, "'a', a Float without a step, which never takes one"),
        ({"a": Int(0, 10**4), "b": Int(0, 1, when={"a": 5})}, "'a', which has more than 1000 values"),
        (
            {"a": Int(0, 1), "b": Int(0, 1, when={"a": 7})},
            "parameter 'b': when has a value that 'a' cannot take: Int: value must lie between 0 and 1, got 7",
        ),
        (
            {"a": Int(0, 1), "b": Int(0, 1, when={"a": 0}), "c": Int(0, 1, when={"b": 1, "a": 1})},
            "parameter 'c' would never exist: it needs a is 1 and b is 1",
        ),
    ],
)
def test_conditions_that_do_not_fit_the_space_are_refused(params, sentence):
    with pytest.raises(ValueError, match=sentence):
        Space(params)
