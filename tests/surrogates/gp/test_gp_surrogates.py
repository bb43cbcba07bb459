"""Gaussian processes as surrogates: independent, coregionalised and chained."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmbo.history import Dataset
from bmbo.history.value_scaling import Scale
from bmbo.protocols import Posterior, Surrogate
from bmbo.surrogates.gp import AutoRegressiveGP, CoregionalGP, IndependentGPs, coregional_model
from bmbo.testing import check_surrogate

CHAIN = AutoRegressiveGP(num_functions=32, num_hyper=4, num_features=256, num_proposals=8)
JOINT = CoregionalGP(num_functions=32, num_hyper=4, num_features=256, num_proposals=8)
APART = IndependentGPs(num_functions=32, num_hyper=4, num_features=256)
SURROGATES = [CHAIN, JOINT, APART]


def low(unit):
    return np.sin(5 * unit[:, 0]) + np.cos(4 * unit[:, 1] * unit[:, 0])


def dataset(counts, *, dim=2, seed=0, top=low):
    rng = np.random.default_rng(seed)
    units = [rng.uniform(size=(count, dim)) for count in counts]
    functions = [low] * (len(counts) - 1) + [top]
    return Dataset.of_arrays(units, [function(unit) for function, unit in zip(functions, units, strict=True)])


def points(num, dim=2, seed=1):
    return jnp.asarray(np.random.default_rng(seed).uniform(size=(num, dim)), jnp.float32)


def error(posterior, data, top):
    """Of the mean at the top level, in units of its data."""
    unit = points(400)
    rows = data.rows(data.num_levels - 1)
    scale = Scale.linear(top(np.asarray(data.unit[rows], np.float64)[np.asarray(data.mask[rows])]))
    truth = scale.standardise(top(np.asarray(unit, np.float64)))
    return float(np.sqrt(np.mean((np.asarray(posterior.draw(unit))[..., -1].mean(axis=0) - truth) ** 2)))


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda surrogate: type(surrogate).__name__)
def test_the_contract_is_kept(surrogate):
    check_surrogate(surrogate, dataset((9, 6)))


@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda surrogate: type(surrogate).__name__)
def test_surrogates_are_values_and_posteriors_give_single_precision(surrogate):
    assert hash(surrogate) == hash(replace(surrogate))
    assert isinstance(surrogate, Surrogate)
    posterior, *_ = surrogate.fit(jax.random.key(0), dataset((6, 4)))
    assert isinstance(posterior, Posterior)
    assert posterior.draw(points(3)).dtype == jnp.float32
    assert posterior.draw(points(3)).shape == (32, 3, 2)
    assert posterior.noise.dtype == jnp.float32


HARD = {
    "one observation at each level": lambda: dataset((1, 1)),
    "one observation in all": lambda: dataset((1, 0)),
    "nothing at the top": lambda: dataset((6, 0)),
    "nothing below": lambda: dataset((0, 6)),
    "nothing at all": lambda: dataset((0, 0)),
    "constant outputs": lambda: Dataset.of_arrays([np.asarray(points(6))] * 2, [np.full(6, 3.0), np.full(6, -1.0)]),
    "duplicated points": lambda: Dataset.of_arrays([np.full((6, 2), 0.3)] * 2, [np.arange(6.0), np.full(6, 2.0)]),
    "an outlier": lambda: Dataset.of_arrays(
        [np.asarray(points(8))] * 2, [np.asarray([0.0] * 7 + [1e6]), np.arange(8.0)]
    ),
    "twenty dimensions": lambda: dataset((5, 5), dim=20),
}


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", [CHAIN, JOINT], ids=lambda surrogate: type(surrogate).__name__)
@pytest.mark.parametrize("name", HARD)
def test_hard_data_give_finite_draws(name, surrogate):
    data = HARD[name]()
    posterior, warm, _ = surrogate.fit(jax.random.key(5), data)
    assert np.all(np.isfinite(posterior.draw(points(5, data.unit.shape[1]))))
    assert np.all(np.asarray(posterior.noise) > 0)
    again, *_ = surrogate.fit(jax.random.key(5), data, warm)
    assert np.all(np.isfinite(again.draw(points(5, data.unit.shape[1]))))


def test_without_data_draws_are_the_prior():
    posterior, *_ = CHAIN.fit(jax.random.key(0), dataset((0, 0)))
    drawn = np.asarray(posterior.draw(points(200)))
    assert np.all(drawn.std(axis=(0, 1)) > 0.5)


def test_a_chain_of_one_level_is_a_plain_gaussian_process():
    data, unit = dataset((8,)), points(5)
    key = jax.random.key(3)
    proposals = replace(CHAIN, num_proposals=AutoRegressiveGP().num_proposals)
    np.testing.assert_array_equal(proposals.fit(key, data)[0].draw(unit), APART.fit(key, data)[0].draw(unit))


def test_two_levels_see_the_same_whether_linked_to_all_or_to_the_previous():
    data, unit, key = dataset((8, 6)), points(5), jax.random.key(3)
    drawn = [replace(CHAIN, links=links).fit(key, data)[0].draw(unit) for links in ("all", "previous")]
    np.testing.assert_array_equal(*drawn)


def test_only_the_previous_level_enters_where_only_that_is_linked():
    posterior, *_ = replace(CHAIN, links="previous").fit(jax.random.key(0), dataset((8, 8, 8)))
    assert [level.links.shape[-1] - 1 for level in posterior.levels] == [0, 1, 1]
    posterior, *_ = CHAIN.fit(jax.random.key(0), dataset((8, 8, 8)))
    assert [level.links.shape[-1] - 1 for level in posterior.levels] == [0, 1, 2]


def shifted(unit):
    return 3.0 * low(unit) + 5.0


def squared(unit):
    return (low(unit) + 2.5) ** 2


def unrelated(unit):
    return np.cos(6 * unit[:, 1]) + unit[:, 0]


def test_a_lower_level_that_is_exact_up_to_scale_and_constant_is_used():
    data = dataset((40, 6), top=shifted)
    chained, _, info = CHAIN.fit(jax.random.key(0), data)
    alone, *_ = APART.fit(jax.random.key(0), data)
    assert error(chained, data, shifted) < 0.1
    assert error(chained, data, shifted) < 0.2 * error(alone, data, shifted)
    used = [share for (_, coupling), share in zip(info.rivals[1], info.shares[1], strict=True) if coupling != "alone"]
    assert sum(used) > 0.99


def test_a_lower_level_that_is_bent_is_used():
    data = dataset((40, 10), top=squared)
    chained, *_ = CHAIN.fit(jax.random.key(0), data)
    alone, *_ = APART.fit(jax.random.key(0), data)
    assert error(chained, data, squared) < 0.5 * error(alone, data, squared)


def test_a_useless_lower_level_costs_nothing():
    data = dataset((40, 14), top=unrelated)
    chained, _, info = CHAIN.fit(jax.random.key(0), data)
    alone, *_ = APART.fit(jax.random.key(0), data)
    assert error(chained, data, unrelated) < 1.2 * error(alone, data, unrelated) + 0.01
    used = [share for (_, coupling), share in zip(info.rivals[1], info.shares[1], strict=True) if coupling == "alone"]
    assert sum(used) > 0.8


def test_the_joint_model_learns_from_a_lower_level():
    data = dataset((40, 6), top=shifted)
    joint, *_ = JOINT.fit(jax.random.key(0), data)
    alone, *_ = APART.fit(jax.random.key(0), data)
    assert error(joint, data, shifted) < 0.5 * error(alone, data, shifted)


def joint_draws(flat, data, num, num_latent=2):
    """Draws of the joint model at given hyperparameters, and its exact posterior, at two points of both levels."""
    surrogate = replace(JOINT, num_functions=num, num_hyper=8, num_features=1024, num_latent=num_latent)
    sizes = coregional_model.Sizes(num_latent, 2, 2)
    mask = np.asarray(data.mask)
    level = np.repeat([1, 0], data.sizes[::-1])[mask]
    unit, value = np.asarray(data.unit, np.float64)[mask], np.asarray(data.value, np.float64)[mask]
    latents = coregional_model.Latents.of(flat, sizes)
    model = coregional_model.Evidence(unit, level, value, np.array([0.0, 1.0])[:num_latent], sizes)
    rng = np.random.default_rng(0)
    at = np.asarray(points(2), np.float64)
    both, levels = np.concatenate([unit, at, at]), np.concatenate([level, [0, 0, 1, 1]])
    whole = coregional_model.Evidence(both, levels, np.zeros(len(both)), model.roughness, sizes).covariance(latents)
    seen = len(value)
    inside, across = model.covariance(latents), whole[seen:, :seen]
    clean = whole[seen:, seen:] - np.diag(latents.noise[levels[seen:]])
    mean = across @ np.linalg.solve(inside, value)
    covariance = clean - across @ np.linalg.solve(inside, across.T)
    posterior = surrogate.posterior([surrogate.condition(rng, model, latents) for _ in range(8)], data)
    drawn = np.asarray(posterior.draw(jnp.asarray(at, jnp.float32)), np.float64)
    return np.swapaxes(drawn, 1, 2).reshape(num, -1), mean, covariance


def joint_vector(loadings):
    sizes = coregional_model.Sizes(2, 2, 2)
    flat = sizes.starts()[1].reshape(-1)
    grid = flat[:-2].reshape(2, sizes.each)
    grid[:, 3:5] = loadings
    grid[:, 5:] = np.log(0.3)
    return np.concatenate([grid.reshape(-1), np.log([0.02, 0.05])])


@pytest.mark.slow
@pytest.mark.parametrize("loadings", [[[1.0, 0.8], [0.5, -0.7]], [[0.0, 0.0], [0.0, 0.0]]], ids=["linked", "diagonal"])
def test_joint_draws_have_the_moments_of_the_exact_posterior(loadings):
    num = 4000
    drawn, mean, covariance = joint_draws(joint_vector(np.asarray(loadings)), dataset((7, 5)), num)
    deviations = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * deviations / np.sqrt(num) + 1e-4)
    difference = (np.cov(drawn.T) - covariance) / np.outer(deviations, deviations)
    # Beside the sampling error there is that of the random features: 8 x 1024 of them.
    assert np.all(np.abs(difference) < 5 * np.sqrt(2 / num) + 5 * np.sqrt(1 / 8192))


def test_a_joint_model_without_loadings_is_one_process_a_level():
    flat, sizes = joint_vector(np.zeros((2, 2))), coregional_model.Sizes(2, 2, 2)
    data = dataset((7, 5))
    mask = np.asarray(data.mask)
    level = np.repeat([1, 0], data.sizes[::-1])[mask]
    unit, value = np.asarray(data.unit, np.float64)[mask], np.asarray(data.value, np.float64)[mask]
    kinds = np.array([0.0, 1.0])
    whole = coregional_model.Evidence(unit, level, value, kinds, sizes)
    apart = [
        coregional_model.Evidence(unit[level == m], level[level == m], value[level == m], kinds, sizes) for m in (0, 1)
    ]
    prior = coregional_model.Evidence(unit[:0], level[:0], value[:0], kinds, sizes)(flat)
    assert whole(flat) + prior == pytest.approx(sum(model(flat) for model in apart), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda surrogate: type(surrogate).__name__)
def test_rows_that_are_masked_do_not_count_wherever_they_are(surrogate):
    data = dataset((8, 7))
    top = data.rows(1)
    holes = replace(data, mask=data.mask.at[top.start + 2].set(False), value=data.value.at[top.start + 2].set(1e3))
    other = replace(data, mask=data.mask.at[top.start + 2].set(False), value=data.value.at[top.start + 2].set(-7.0))
    first, second = (surrogate.fit(jax.random.key(0), each)[0].draw(points(4)) for each in (holes, other))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first).max() < 50


def test_draws_pass_through_observations_of_a_simulator_without_noise():
    data = dataset((30,))
    posterior, *_ = APART.fit(jax.random.key(0), data)
    drawn = np.asarray(posterior.draw(data.unit))[:, :30, 0]
    assert np.sqrt(np.mean((drawn - np.asarray(data.value)[:30]) ** 2)) < 0.01


def test_a_warm_fit_finds_what_a_cold_one_finds():
    data = dataset((20, 12), top=shifted)
    _, warm, cold_info = CHAIN.fit(jax.random.key(0), data)
    _, again, warm_info = CHAIN.fit(jax.random.key(0), data, warm)
    for level in range(2):
        assert warm_info.log_evidence[level] == pytest.approx(cold_info.log_evidence[level], abs=1.0)
        assert again[level].shape == warm[level].shape


def test_fits_to_growing_data_keep_the_posteriors_shapes():
    shapes = []
    for counts in ((5, 3), (17, 9), (32, 20)):
        posterior, *_ = CHAIN.fit(jax.random.key(0), dataset(counts))
        shapes.append([leaf.shape for leaf in jax.tree.leaves(posterior)])
    assert shapes[0] == shapes[1] == shapes[2]


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named():
    with pytest.raises(ValueError, match="kernels must be some of rbf, matern52; got"):
        AutoRegressiveGP(kernels=("cubic",))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="kernels must be some of"):
        CoregionalGP(kernels=())
    with pytest.raises(ValueError, match="couplings must be some of alone, linear, bent; got"):
        AutoRegressiveGP(couplings=("quadratic",))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="links must be one of all, previous, none; got 'some'"):
        AutoRegressiveGP(links="some")  # pyright: ignore[reportArgumentType]
    for surrogate in (AutoRegressiveGP, CoregionalGP, IndependentGPs):
        with pytest.raises(ValueError, match="num_hyper must divide num_functions, got 3 and 32"):
            surrogate(num_functions=32, num_hyper=3)
