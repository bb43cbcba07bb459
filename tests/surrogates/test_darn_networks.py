"""The networks and their chain, equation (3)."""

from dataclasses import replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmbo.surrogates.darn_networks import ACTIVATIONS, Hidden, Network, Stack, Weights, cosine

NUMPY_ACTIVATIONS = {
    "tanh": np.tanh,
    "cosine": lambda x: np.sqrt(2) * np.cos(x),
    "identity": lambda x: x,
}


def numpy_features(network, hidden, inputs, dim):
    """The features written out anew, in double precision."""
    inputs = values = np.asarray(inputs, np.float64)
    learned, half = network.scaling == "learned", network.width // 2
    of_units = np.repeat([0, 1], [half, network.width - half])
    relevance = np.exp(np.asarray(hidden.log_relevance, np.float64)) if learned else None
    for layer in range(network.depth):
        weight, bias = (np.asarray(leaf[layer], np.float64) for leaf in (hidden.weights, hidden.biases))
        if learned:
            of_weight, of_bias = np.exp(np.asarray(hidden.log_scales[layer], np.float64))
            weight, bias = weight * of_weight / np.sqrt(weight.shape[0]), bias * of_bias
        if relevance is not None and layer == 0:
            weight = weight * relevance[of_units].T
            weight[dim:, :half] = 0.0
        values = NUMPY_ACTIVATIONS[network.activation](values @ weight + bias)
    one = np.ones((len(values), 1))
    if relevance is None:
        return np.concatenate([values, one], axis=1)
    values = values * np.exp(np.asarray(hidden.log_amplitude, np.float64))[of_units] / np.sqrt(network.width)
    return np.concatenate([values, inputs[:, :dim], inputs[:, dim:] * relevance[1, dim:], one], axis=1)


def random_levels(stack, dim, num_levels, seed=0):
    """Gentle networks: a third of a prior draw, so that a chain of them stays of order one."""
    # From numpy: jax.random compiles for every shape.
    rng, network = np.random.default_rng(seed), stack.network
    learned = network.scaling == "learned"

    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape) / 3, jnp.float32)

    def hidden(num_inputs):
        sizes = (num_inputs, *[network.width] * network.depth)
        return Hidden(
            weights=tuple(normal(*shape) for shape in pairwise(sizes)),
            biases=tuple(normal(size) for size in sizes[1:]),
            log_scales=normal(network.depth, 2) if learned else None,
            log_relevance=normal(2, num_inputs) if learned else None,
            log_amplitude=normal(2) if learned else None,
        )

    return tuple(
        Weights(hidden(stack.num_inputs(dim, level)), normal(stack.num_features(dim, level)))
        for level in range(num_levels)
    )


def points(num, dim, seed=1):
    return jnp.asarray(np.random.default_rng(seed).uniform(size=(num, dim)), jnp.float32)


@pytest.mark.parametrize("scaling", ["unit", "learned"])
@pytest.mark.parametrize(("depth", "activation"), [(1, "cosine"), (2, "tanh"), (3, "identity")])
def test_every_level_is_fed_the_input_and_all_lower_outputs(depth, activation, scaling):
    network = Network(width=5, depth=depth, activation=activation, scaling=scaling)
    stack = Stack(network)
    levels, unit = random_levels(stack, 2, 3), points(7, 2)

    centred = (np.asarray(unit, np.float64) - 0.5) * np.sqrt(12)
    lower = []
    for weights in levels:
        inputs = np.column_stack([centred, *lower])
        lower.append(numpy_features(network, weights.hidden, inputs, 2) @ np.asarray(weights.last, np.float64))

    np.testing.assert_allclose(stack.outputs(levels, unit), np.column_stack(lower), rtol=1e-4, atol=1e-5)


def test_with_links_to_the_previous_level_only_its_output_is_fed():
    network = Network(width=5, depth=1)
    stack = Stack(network, links="previous")
    levels, unit = random_levels(stack, 2, 3), points(7, 2)
    outputs = np.asarray(stack.outputs(levels, unit), np.float64)
    centred = (np.asarray(unit, np.float64) - 0.5) * np.sqrt(12)

    features = numpy_features(network, levels[2].hidden, np.column_stack([centred, outputs[:, 1]]), 2)

    np.testing.assert_allclose(outputs[:, 2], features @ np.asarray(levels[2].last, np.float64), atol=1e-5)


@pytest.mark.parametrize("num_levels", [1, 2])
def test_up_to_two_levels_links_to_all_are_links_to_the_previous(num_levels):
    network = Network(width=4)
    every, previous = Stack(network, "all"), Stack(network, "previous")
    key, unit = jax.random.key(3), points(6, 3)
    of_both = [jax.tree.leaves(stack.draw(key, 3, num_levels)) for stack in (every, previous)]

    for mine, theirs in zip(*of_both, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    levels = random_levels(every, 3, num_levels)
    np.testing.assert_array_equal(every.outputs(levels, unit), previous.outputs(levels, unit))


def test_from_three_levels_on_links_to_all_have_more_inputs():
    network = Network(width=4)
    every, previous = Stack(network, "all"), Stack(network, "previous")
    assert [every.num_inputs(3, m) for m in range(4)] == [3, 4, 5, 6]
    assert [previous.num_inputs(3, m) for m in range(4)] == [3, 4, 4, 4]
    assert [level.weights[0].shape[0] for level in every.draw(jax.random.key(0), 3, 4)] == [3, 4, 5, 6]
    assert [level.weights[0].shape[0] for level in previous.draw(jax.random.key(0), 3, 4)] == [3, 4, 4, 4]


def test_the_third_level_sees_the_first_directly_only_with_links_to_all():
    unit = points(6, 2)

    def reach(links):
        """How the third output changes with the first network when the second is cut off from the first."""
        stack = Stack(Network(width=4, depth=1), links)
        first, second, third = random_levels(stack, 2, 3)
        cut = replace(second.hidden, weights=(second.hidden.weights[0].at[-1].set(0.0),))

        def square(last):
            levels = (Weights(first.hidden, last), Weights(cut, second.last), third)
            return jnp.sum(stack.outputs(levels, unit)[:, 2] ** 2)

        return np.abs(jax.jit(jax.grad(square))(first.last)).max()

    assert reach("all") > 1e-3
    assert reach("previous") == 0.0


def test_the_cosine_is_a_cosine_and_so_is_its_derivative():
    x = np.linspace(-40, 40, 20001)
    with jax.enable_x64(True):
        np.testing.assert_allclose(cosine(jnp.asarray(x)), np.sqrt(2) * np.cos(x), rtol=0, atol=1e-7)
        slope = jax.vmap(jax.grad(cosine))(jnp.asarray(x))
        np.testing.assert_allclose(slope, -np.sqrt(2) * np.sin(x), rtol=0, atol=1e-5)


def test_the_cosine_in_single_precision_is_off_by_the_rounding_of_its_argument():
    x = jnp.linspace(-1000, 1000, 200001, dtype=jnp.float32)
    exact = np.asarray(x, np.float64)
    # 2^-24 is the rounding of a number of order one; twice that of the argument, and a few of the polynomial.
    allowed = 1e-6 + 2 * np.sqrt(2) * 2**-24 * np.abs(exact)
    assert np.all(np.abs(cosine(x) - np.sqrt(2) * np.cos(exact)) < allowed)
    slope = jax.vmap(jax.grad(cosine))(x)
    assert np.all(np.abs(slope + np.sqrt(2) * np.sin(exact)) < 1e-4 + allowed)


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["unit", "learned"])
def test_prior_draws_are_standard_normal(scaling):
    stack = Stack(Network(width=8, depth=2, scaling=scaling))
    num = 400
    draws = jax.jit(jax.vmap(lambda key: stack.draw(key, 3, 2)))(jax.random.split(jax.random.key(5), num))
    for leaf in jax.tree.leaves(draws):
        # Five standard errors, of the mean and of the variance of a standard normal.
        assert abs(np.mean(leaf)) < 5 / np.sqrt(leaf.size)
        assert abs(np.var(leaf) - 1) < 5 * np.sqrt(2 / leaf.size)


def test_parts_of_a_prior_draw_are_not_copies_of_each_other():
    hidden = Stack(Network(width=8, depth=2, scaling="learned")).draw(jax.random.key(6), 3, 3)
    numbers = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(hidden)])
    assert len(np.unique(numbers)) == len(numbers)


@pytest.mark.parametrize("scaling", ["unit", "learned"])
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_features_end_in_a_one_and_are_finite(activation, scaling):
    network = Network(width=6, depth=2, activation=activation, scaling=scaling)
    features = network.features(network.draw(jax.random.key(7), 4), points(9, 4), 3)
    assert features.shape == (9, network.num_features(4))
    np.testing.assert_array_equal(features[:, -1], 1.0)
    assert np.all(np.isfinite(features))


@pytest.mark.slow
def test_learned_scaling_keeps_outputs_of_order_one_whatever_the_width():
    unit = points(20, 3)

    def spread(width):
        stack = Stack(Network(width=width, depth=1, activation="cosine", scaling="learned"))

        def output(key):
            key_hidden, key_last = jax.random.split(key)
            hidden = stack.draw(key_hidden, 3, 1)[0]
            units = stack.network.features(hidden, stack.first_inputs(unit), 3)[:, :width]
            assert hidden.log_amplitude is not None
            units = units / jnp.repeat(jnp.exp(hidden.log_amplitude), width // 2)[None]
            return jnp.mean((units @ jax.random.normal(key_last, (width,))) ** 2)

        return float(np.mean(jax.jit(jax.vmap(output))(jax.random.split(jax.random.key(8), 500))))

    # A sum of `width` terms of mean square one over `width` has mean square one.
    assert spread(4) == pytest.approx(1.0, abs=0.3)
    assert spread(64) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("links", ["all", "previous"])
def test_half_of_the_first_learned_units_ignore_lower_outputs(links):
    stack, dim, level = Stack(Network(width=7, depth=1, activation="cosine", scaling="learned"), links), 2, 2
    num_inputs = stack.num_inputs(dim, level)
    hidden = stack.network.draw(jax.random.key(9), num_inputs)

    def units(inputs):
        return stack.network.features(hidden, inputs[None], dim)[0, : stack.network.width]

    slopes = np.abs(jax.jit(jax.jacrev(units))(jax.random.normal(jax.random.key(10), (num_inputs,))))
    np.testing.assert_array_equal(slopes[:3, dim:], 0.0)
    assert np.all(slopes[3:, dim:] > 0)
    assert np.all(slopes[:, :dim] > 0)


def test_the_half_that_ignores_lower_outputs_has_a_relevance_of_its_own():
    network = Network(width=6, depth=1, activation="cosine", scaling="learned")
    hidden, inputs = network.draw(jax.random.key(11), 3), points(5, 3)
    assert hidden.log_relevance is not None
    before = network.features(hidden, inputs, 2)
    for half, rows in ((0, slice(0, 3)), (1, slice(3, 6))):
        moved = replace(hidden, log_relevance=hidden.log_relevance.at[half, :2].add(0.5))
        changed = np.any(np.asarray(network.features(moved, inputs, 2) != before), axis=0)
        np.testing.assert_array_equal(np.flatnonzero(changed), np.arange(6)[rows])


@pytest.mark.parametrize("links", ["all", "previous"])
def test_linear_features_let_each_level_equal_the_one_below_exactly(links):
    stack, dim = Stack(Network(width=6, depth=1, activation="cosine", scaling="learned"), links), 2
    levels = list(random_levels(stack, dim, 3))
    for level in (1, 2):
        # The last of the linear inputs, before the constant, is the output below; its learned factor is set to one.
        hidden = levels[level].hidden
        assert hidden.log_relevance is not None
        hidden = replace(hidden, log_relevance=hidden.log_relevance.at[1, -1].set(0.0))
        levels[level] = Weights(hidden, jnp.zeros(stack.num_features(dim, level)).at[-2].set(1.0))
    outputs = np.asarray(stack.outputs(tuple(levels), points(8, dim)))
    assert np.ptp(outputs[:, 0]) > 0.1
    np.testing.assert_array_equal(outputs[:, 1], outputs[:, 0])
    np.testing.assert_array_equal(outputs[:, 2], outputs[:, 0])


def test_linear_features_are_the_cube_as_it_is_and_lower_outputs_by_their_relevance():
    network, inputs = Network(width=4, depth=2, scaling="learned"), points(5, 4)
    hidden = network.draw(jax.random.key(12), 4)
    assert hidden.log_relevance is not None
    linear = network.features(hidden, inputs, 3)[:, 4:8]
    np.testing.assert_array_equal(linear[:, :3], inputs[:, :3])
    np.testing.assert_allclose(linear[:, 3], inputs[:, 3] * np.exp(hidden.log_relevance[1, 3]), rtol=1e-6)


def test_unit_scaling_has_no_linear_features():
    assert Network(width=5).num_features(3) == 6
    assert Network(width=5, scaling="learned").num_features(3) == 9
    stack = Stack(Network(width=5, scaling="learned"))
    assert [stack.num_features(2, level) for level in range(3)] == [8, 9, 10]


def test_the_cube_is_fed_with_mean_zero_and_variance_one():
    middle = (np.arange(10000) + 0.5) / 10000
    fed = Stack(Network()).first_inputs(jnp.asarray(middle, jnp.float32)[:, None])
    assert float(jnp.mean(fed)) == pytest.approx(0.0, abs=1e-4)
    assert float(jnp.var(fed)) == pytest.approx(1.0, abs=1e-4)


BAD = [
    (lambda: Network(width=0), "width must be a whole number of at least 1, got 0"),
    (lambda: Network(depth=0), "depth must be a whole number of at least 1, got 0"),
    (lambda: Network(activation="sine"), "unknown activation 'sine'; choose from tanh"),
    (
        lambda: Network(scaling="none"),  # pyright: ignore[reportArgumentType]
        "unknown scaling 'none'; choose 'unit' or 'learned'",
    ),
    (
        lambda: Stack(Network(), links="some"),  # pyright: ignore[reportArgumentType]
        "unknown links 'some'; choose 'all' or 'previous'",
    ),
]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("make", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_a_bad_option_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
