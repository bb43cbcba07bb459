"""The joint probability, equation (4), in both parametrisations."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree

from bmbo.history import Dataset, Scale
from bmbo.surrogates.darn_density import CollapsedModel, Parameters, SampledModel, log_prior
from bmbo.surrogates.darn_networks import Hidden, Network, Stack

COUNTS = (9, 5, 3)
NETWORKS = [
    Network(width=4, depth=1, activation="cosine", scaling="learned"),
    Network(width=3, depth=2, activation="tanh", scaling="unit"),
]
NAMES = ["cosine-learned", "tanh-unit"]


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


def dataset(counts=COUNTS, *, dim=2, sizes=None, dtype: type[np.floating] = np.float32, seed=0):
    """Raw values without standardisation; what is padded holds numbers that would show if they were used."""
    rng = np.random.default_rng(seed)
    units = [rng.uniform(size=(count, dim)) for count in counts]
    values = [np.sin(4 * unit.sum(axis=1)) + 0.3 * rng.normal(size=len(unit)) for unit in units]
    sizes = tuple(count + 2 for count in counts) if sizes is None else sizes
    rows_unit, rows_value, rows_mask = [], [], []
    for unit, value, size in reversed(list(zip(units, values, sizes, strict=True))):
        missing = size - len(value)
        rows_unit.append(np.concatenate([unit, np.full((missing, dim), 0.77)]))
        rows_value.append(np.concatenate([value, np.full(missing, 55.0)]))
        rows_mask.append(np.arange(size) < len(value))
    data = Dataset(
        unit=jnp.asarray(np.concatenate(rows_unit), dtype),
        value=jnp.asarray(np.concatenate(rows_value), dtype),
        mask=jnp.asarray(np.concatenate(rows_mask)),
        scales=(Scale(),) * len(sizes),
        sizes=sizes,
    )
    return data, units, values


def parameters(stack, seed, *, dim=2, num_levels=3):
    """Half a prior draw: a chain of networks that stays of order one; hidden layers in single precision."""
    rng = np.random.default_rng(seed)
    network = stack.network

    def normal(*shape, dtype=jnp.float32):
        return jnp.asarray(0.5 * rng.normal(size=shape), dtype)

    def hidden(num_inputs):
        sizes = (num_inputs, *[network.width] * network.depth)
        learned = network.scaling == "learned"
        return Hidden(
            weights=tuple(normal(*shape) for shape in itertools.pairwise(sizes)),
            biases=tuple(normal(size) for size in sizes[1:]),
            log_scales=normal(network.depth, 2) if learned else None,
            log_relevance=normal(2, num_inputs) if learned else None,
            log_amplitude=normal(2) if learned else None,
        )

    dtype = jnp.result_type(float)
    return Parameters(
        hidden=tuple(hidden(stack.num_inputs(dim, level)) for level in range(num_levels)),
        last=tuple(normal(stack.num_features(dim, level), dtype=dtype) for level in range(num_levels)),
        log_precision=1.0 + 2.0 * normal(num_levels, dtype=dtype),
    )


def equation_four(model, params, units, values):
    """The log of equation (4) as the paper writes it, as a density of log tau."""
    total = sum(
        scipy.stats.norm.logpdf(np.asarray(leaf, np.float64)).sum()
        for leaf in jax.tree.leaves((params.hidden, params.last))
    )
    for level, (unit, value) in enumerate(zip(units, values, strict=True)):
        tau = np.exp(float(params.log_precision[level]))
        # d tau / d log tau = tau.
        total += scipy.stats.gamma.logpdf(tau, model.a0, scale=1 / model.b0) + np.log(tau)
        inputs = (unit - 0.5) * np.sqrt(12)
        for lower in range(level + 1):
            output = _numpy_network(
                model.stack.network, params.hidden[lower], params.last[lower], inputs, unit.shape[1]
            )
            inputs = np.column_stack([inputs, output])
        # The last column is the output of the level itself.
        total += scipy.stats.norm.logpdf(value, inputs[:, -1], tau**-0.5).sum()
    return total


def _numpy_network(network, hidden, last, inputs, dim):
    learned = network.scaling == "learned"
    activation = {"cosine": lambda x: np.sqrt(2) * np.cos(x), "tanh": np.tanh}[network.activation]
    hidden, last = jax.tree.leaves_with_path(hidden), np.asarray(last, np.float64)
    parts = {jax.tree_util.keystr(path): np.asarray(leaf, np.float64) for path, leaf in hidden}
    half, values = network.width // 2, inputs
    of_units = np.repeat([0, 1], [half, network.width - half])
    for layer in range(network.depth):
        weight, bias = parts[f".weights[{layer}]"], parts[f".biases[{layer}]"]
        if learned:
            scales = np.exp(parts[".log_scales"][layer])
            weight, bias = weight * scales[0] / np.sqrt(len(weight)), bias * scales[1]
        if learned and layer == 0:
            weight = weight * np.exp(parts[".log_relevance"])[of_units].T
            weight[dim:, :half] = 0.0
        values = activation(values @ weight + bias)
    if learned:
        values = values * np.exp(parts[".log_amplitude"])[of_units] / np.sqrt(network.width)
        lower = inputs[:, dim:] * np.exp(parts[".log_relevance"][1, dim:])
        values = np.column_stack([values, inputs[:, :dim], lower])
    return values @ last[:-1] + last[-1]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("counts", [COUNTS, (4, 0, 6), (0, 3, 0)], ids=str)
@pytest.mark.parametrize("network", NETWORKS, ids=NAMES)
def test_the_log_joint_is_equation_four(network, counts):
    model = SampledModel(Stack(network), a0=2.5, b0=0.7)
    data, units, values = dataset(counts, dtype=np.float64)
    log_joint = jax.jit(lambda p: model.log_joint(p, data)[0])
    chosen = [parameters(model.stack, seed) for seed in range(4)]

    ours = np.asarray([log_joint(p) for p in chosen])
    written_out = np.asarray([equation_four(model, p, units, values) for p in chosen])

    # The constant is left out, so differences are compared; the prior of single-precision leaves is rounded to 1e-7.
    np.testing.assert_allclose(np.diff(ours), np.diff(written_out), rtol=1e-5, atol=1e-4)


def test_the_log_joint_in_single_precision_is_equation_four_to_single_precision():
    model = SampledModel(Stack(NETWORKS[0]))
    data, units, values = dataset()
    chosen = [parameters(model.stack, seed) for seed in range(3)]
    log_joint = jax.jit(lambda p: model.log_joint(p, data)[0])
    ours = np.asarray([log_joint(p) for p in chosen])
    written_out = np.asarray([equation_four(model, p, units, values) for p in chosen])
    assert ours.dtype == np.float32
    np.testing.assert_allclose(np.diff(ours), np.diff(written_out), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("kind", [SampledModel, CollapsedModel])
def test_with_two_levels_links_to_all_are_links_to_the_previous(kind):
    every, previous = (kind(Stack(NETWORKS[0], links)) for links in ("all", "previous"))
    data, *_ = dataset(COUNTS[:2])
    params = parameters(every.stack, 0, num_levels=2)
    assert jax.jit(every.log_joint)(params, data)[0] == jax.jit(previous.log_joint)(params, data)[0]


@pytest.mark.slow
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kind", [SampledModel, CollapsedModel])
def test_padding_does_not_matter(kind):
    model = kind(Stack(NETWORKS[0]), a0=2.0, b0=0.5)
    tight, *_ = dataset(sizes=COUNTS, dtype=np.float64)
    loose, *_ = dataset(sizes=(16, 8, 11), dtype=np.float64)
    params = parameters(model.stack, 1)
    of_tight, of_loose = (
        jax.jit(jax.value_and_grad(lambda p, d=data: model.log_joint(p, d)[0]))(params) for data in (tight, loose)
    )
    np.testing.assert_allclose(of_tight[0], of_loose[0], rtol=1e-10)
    for mine, theirs in zip(jax.tree.leaves(of_tight[1]), jax.tree.leaves(of_loose[1]), strict=True):
        # Gradients in hidden layers come back in their own, single, precision.
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kind", [SampledModel, CollapsedModel])
def test_the_order_of_observations_does_not_matter(kind):
    model = kind(Stack(NETWORKS[0]), a0=2.0, b0=0.5)
    data, *_ = dataset(dtype=np.float64)
    order = np.arange(len(data.mask))
    for level in range(3):
        order[data.rows(level)] = order[data.rows(level)][::-1]
    turned = replace(data, unit=data.unit[order], value=data.value[order], mask=data.mask[order])
    params = parameters(model.stack, 2)
    log_joint = jax.jit(lambda d: model.log_joint(params, d)[0])
    np.testing.assert_allclose(log_joint(data), log_joint(turned), rtol=1e-10)


def likelihood_gradients(model, params, data):
    """What the data say about each leaf: the gradient without the prior's, by the leaf's name."""
    slope = jax.grad(lambda p: model.log_joint(p, data)[0] - log_prior(p, model.a0, model.b0))
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(jax.jit(slope)(params))}


@pytest.mark.slow
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("network", NETWORKS, ids=NAMES)
@pytest.mark.parametrize("kind", [SampledModel, CollapsedModel])
def test_the_data_reach_every_parameter(kind, network):
    model = kind(Stack(network))
    gradients = likelihood_gradients(model, parameters(model.stack, 3), dataset(dtype=np.float64)[0])
    unreached = {name for name, leaf in gradients.items() if not np.abs(leaf).max() > 1e-4}
    # The top level's xi is independent of all data: that is what makes it safe to draw anew.
    assert unreached == (set() if kind is SampledModel else {".last[2]"})


@pytest.mark.usefixtures("double")
def test_the_top_xi_of_a_collapsed_model_has_the_gradient_of_its_prior():
    model = CollapsedModel(Stack(NETWORKS[0]))
    params, (data, *_) = parameters(model.stack, 3), dataset(dtype=np.float64)
    slope = jax.jit(jax.grad(lambda p: model.log_joint(p, data)[0]))(params)
    assert np.all(np.abs(params.last[-1]) > 0)
    np.testing.assert_allclose(slope.last[-1], -params.last[-1], rtol=1e-10)


@pytest.mark.slow
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kind", [SampledModel, CollapsedModel])
def test_data_of_the_top_level_alone_reach_every_network_below(kind):
    model = kind(Stack(NETWORKS[0]))
    data, *_ = dataset((0, 0, 8), dtype=np.float64)
    gradients = likelihood_gradients(model, parameters(model.stack, 4), data)
    for name, leaf in gradients.items():
        if name == ".log_precision":
            # A level without data says nothing about its noise.
            np.testing.assert_array_equal(leaf[:2], 0.0)
            assert leaf[2] != 0.0
        elif not (kind is CollapsedModel and name == ".last[2]"):
            assert np.abs(leaf).max() > 1e-6, name


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kind", [SampledModel, CollapsedModel])
def test_the_gradient_is_the_finite_difference(kind):
    model = kind(Stack(NETWORKS[0]))
    data, *_ = dataset(dtype=np.float64)
    params = parameters(model.stack, 5)
    # In the coordinates that are in double precision under both models.
    direction = jax.tree.map(
        lambda leaf: jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape),
        (params.last, params.log_precision),
    )

    @jax.jit
    def along(step):
        moved = jax.tree.map(lambda leaf, d: leaf + step * d, (params.last, params.log_precision), direction)
        return model.log_joint(Parameters(params.hidden, *moved), data)[0]

    step = 1e-5
    np.testing.assert_allclose(jax.jit(jax.grad(along))(0.0), (along(step) - along(-step)) / (2 * step), rtol=1e-6)


def test_an_estimate_from_a_share_of_the_data_is_unbiased():
    model = SampledModel(Stack(NETWORKS[0]), share=0.3)
    data, *_ = dataset()
    params = parameters(model.stack, 6)
    num = 4000

    @jax.jit
    def estimates(keys):
        return jax.vmap(lambda key: model.log_joint_estimate(key, params, data))(keys)

    drawn = np.asarray(estimates(jax.random.split(jax.random.key(0), num)), np.float64)
    exact = float(jax.jit(model.log_joint)(params, data)[0])
    assert np.std(drawn) > 0
    assert abs(np.mean(drawn) - exact) < 4 * np.std(drawn) / np.sqrt(num)


@pytest.mark.usefixtures("double")
def test_an_estimate_of_a_collapsed_model_is_the_whole():
    model = CollapsedModel(Stack(NETWORKS[0]))
    params, (data, *_) = parameters(model.stack, 7), dataset()
    estimate = jax.jit(model.log_joint_estimate)(jax.random.key(0), params, data)
    assert estimate == jax.jit(model.log_joint)(params, data)[0]


def in_both_coordinates(collapsed, sampled, params, data):
    """The log density in xi; that in the weights which xi stands for; and how these change with all xi."""
    flat, unravel = ravel_pytree(params.last)

    def last_layers(xi):
        levels = collapsed.log_joint(replace(params, last=unravel(xi)), data)[1]
        return jnp.concatenate([weights.last for weights in levels])

    in_weights = replace(params, last=unravel(last_layers(flat)))
    in_xi = collapsed.log_joint(params, data)[0]
    return in_xi, sampled.log_joint(in_weights, data)[0], jax.jacrev(last_layers)(flat)


# With data in double precision both models compute the very same features, and the identity holds to rounding; with
# data as they come the collapsed model's features are rounded to single precision.
IDENTITY = [
    (NETWORKS[0], "all", COUNTS, np.float64, 1e-12),
    (NETWORKS[0], "all", (6, 0, 4), np.float64, 1e-12),
    (NETWORKS[0], "previous", COUNTS, np.float64, 1e-12),
    (NETWORKS[1], "all", COUNTS, np.float64, 1e-12),
    (NETWORKS[0], "all", COUNTS, np.float32, 1e-6),
]


@pytest.mark.slow
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("network", "links", "counts", "dtype", "tolerance"), IDENTITY)
def test_the_collapsed_model_is_the_sampled_one_in_other_coordinates(network, links, counts, dtype, tolerance):
    stack = Stack(network, links)
    collapsed, sampled = CollapsedModel(stack, a0=2.0, b0=0.3), SampledModel(stack, a0=2.0, b0=0.3)
    data, *_ = dataset(counts, dtype=dtype)
    # One program: two would round the single-precision hidden layers differently.
    both = jax.jit(lambda p: in_both_coordinates(collapsed, sampled, p, data))
    for seed in range(4):
        in_xi, in_weights, jacobian = map(np.asarray, both(parameters(stack, seed)))

        # Not only up to a constant: both leave out the same one.
        np.testing.assert_allclose(in_xi, in_weights + np.linalg.slogdet(jacobian)[1], rtol=tolerance)

        # Block triangular, and below the diagonal not zero, or the nested dependence would go untested.
        first, second = np.cumsum([stack.num_features(2, level) for level in range(2)])
        assert np.all(jacobian[:first, first:] == 0)
        assert np.all(jacobian[first:second, second:] == 0)
        assert np.abs(jacobian[second:, :first]).max() > 1e-6


@pytest.mark.usefixtures("double")
def test_a_level_without_data_has_its_prior_for_a_last_layer():
    model = CollapsedModel(Stack(NETWORKS[0]))
    data, *_ = dataset((5, 0, 4), dtype=np.float64)
    params = parameters(model.stack, 8)
    np.testing.assert_allclose(jax.jit(model.log_joint)(params, data)[1][1].last, params.last[1], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS, ids=NAMES)
@pytest.mark.parametrize("kind", [SampledModel, CollapsedModel])
def test_starts_are_finite_differ_by_key_and_begin_at_the_stated_noise(kind, network):
    model = kind(Stack(network), a0=3.0, b0=1.5)
    one, two = (model.start(jax.random.key(seed), 2, 3) for seed in (0, 1))
    data, *_ = dataset()
    assert np.isfinite(jax.jit(model.log_joint)(one, data)[0])
    assert np.any(one.hidden[0].weights[0] != two.hidden[0].weights[0])
    expected = np.log(2.0) if kind is SampledModel else 4.0
    np.testing.assert_allclose(one.log_precision, expected, rtol=1e-6)
