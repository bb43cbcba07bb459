"""The networks and their chain, equation (3)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmbo.nets import ACTIVATIONS, Network, Stack, Weights, cosine

NUMPY_ACTIVATIONS = {
    "tanh": np.tanh,
    "cosine": lambda x: np.sqrt(2) * np.cos(x),
    "identity": lambda x: x,
}


def numpy_features(network, hidden, inputs):
    """The features written out anew, in double precision."""
    values = np.asarray(inputs, np.float64)
    if network.scaling == "learned":
        values = values * np.exp(np.asarray(hidden.log_relevance, np.float64))
    for layer in range(network.depth):
        weight, bias = (np.asarray(leaf[layer], np.float64) for leaf in (hidden.weights, hidden.biases))
        if network.scaling == "learned":
            of_weight, of_bias = np.exp(np.asarray(hidden.log_scales[layer], np.float64))
            weight, bias = weight * of_weight / np.sqrt(weight.shape[0]), bias * of_bias
        values = NUMPY_ACTIVATIONS[network.activation](values @ weight + bias)
    if network.scaling == "learned":
        values = values * np.exp(float(hidden.log_amplitude)) / np.sqrt(network.width)
    return np.concatenate([values, np.ones((len(values), 1))], axis=1)


def random_levels(stack, dim, num_levels, seed=0):
    """Gentle networks: a third of a prior draw, so that a chain of them stays of order one."""
    key_hidden, key_last = jax.random.split(jax.random.key(seed))
    hidden = jax.tree.map(lambda leaf: leaf / 3, stack.draw(key_hidden, dim, num_levels))
    last = jax.random.normal(key_last, (num_levels, stack.network.num_features)) / 3
    return tuple(Weights(hidden[m], last[m]) for m in range(num_levels))


def points(num, dim, seed=1):
    return jax.random.uniform(jax.random.key(seed), (num, dim))


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
        lower.append(numpy_features(network, weights.hidden, inputs) @ np.asarray(weights.last, np.float64))

    np.testing.assert_allclose(stack.outputs(levels, unit), np.column_stack(lower), rtol=1e-4, atol=1e-5)


def test_with_links_to_the_previous_level_only_its_output_is_fed():
    network = Network(width=5, depth=1)
    stack = Stack(network, links="previous")
    levels, unit = random_levels(stack, 2, 3), points(7, 2)
    outputs = np.asarray(stack.outputs(levels, unit), np.float64)
    centred = (np.asarray(unit, np.float64) - 0.5) * np.sqrt(12)

    features = numpy_features(network, levels[2].hidden, np.column_stack([centred, outputs[:, 1]]))

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
    features = network.features(network.draw(jax.random.key(7), 4), points(9, 4))
    assert features.shape == (9, network.num_features)
    np.testing.assert_array_equal(features[:, -1], 1.0)
    assert np.all(np.isfinite(features))


def test_learned_scaling_keeps_outputs_of_order_one_whatever_the_width():
    unit = points(20, 3)

    def spread(width):
        stack = Stack(Network(width=width, depth=1, activation="cosine", scaling="learned"))

        def output(key):
            key_hidden, key_last = jax.random.split(key)
            hidden = stack.draw(key_hidden, 3, 1)[0]
            last = jax.random.normal(key_last, (width + 1,)).at[-1].set(0.0)
            features = stack.network.features(hidden, stack.first_inputs(unit)) / jnp.exp(hidden.log_amplitude)
            return jnp.mean((features @ last) ** 2)

        return float(np.mean(jax.jit(jax.vmap(output))(jax.random.split(jax.random.key(8), 500))))

    # A sum of `width` terms of mean square one over `width` has mean square one.
    assert spread(4) == pytest.approx(1.0, abs=0.3)
    assert spread(64) == pytest.approx(1.0, abs=0.3)


def test_the_cube_is_fed_with_mean_zero_and_variance_one():
    middle = (np.arange(10000) + 0.5) / 10000
    fed = Stack(Network()).first_inputs(jnp.asarray(middle, jnp.float32)[:, None])
    assert float(jnp.mean(fed)) == pytest.approx(0.0, abs=1e-4)
    assert float(jnp.var(fed)) == pytest.approx(1.0, abs=1e-4)


BAD = [
    (lambda: Network(width=0), "width and depth of at least 1"),
    (lambda: Network(depth=0), "width and depth of at least 1"),
    (lambda: Network(activation="sine"), "unknown activation 'sine'; choose from tanh"),
    (lambda: Network(scaling="none"), "unknown scaling 'none'; choose 'unit' or 'learned'"),
    (lambda: Stack(Network(), links="some"), "unknown links 'some'; choose 'all' or 'previous'"),
]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("make", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_a_bad_option_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
