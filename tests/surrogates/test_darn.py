"""The surrogate: its posterior, its fits, and whether its draws are calibrated."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from bmbo.history import Dataset, Scale
from bmbo.inference import MCLMC, NUTS, SGHMC, AdaptiveHMC, AdjustedMCLMC, DeepEnsemble, MeanField, PaperHMC
from bmbo.protocols import Posterior, Surrogate
from bmbo.surrogates.darn import Darn
from bmbo.surrogates.darn_density import CollapsedModel, SampledModel, collapse
from bmbo.surrogates.darn_networks import Network, Stack, Weights
from bmbo.synthetic import branin

SMALL = Stack(Network(width=6, depth=1, activation="cosine", scaling="learned"))
BRIEF = MCLMC(num_chains=2, num_search_steps=20, num_warmup=20, num_warmup_warm=5, num_draws_per_chain=2, thinning=2)
TRACES = []


@dataclass(frozen=True)
class Traced(CollapsedModel):
    """A model that notes when it is traced."""

    def log_joint(self, parameters, data):
        TRACES.append(data.sizes)
        return super().log_joint(parameters, data)


# Traced throughout, so that all tests share its compilations.
COLLAPSED = Darn(Traced(SMALL), BRIEF, num_replicas=2, double=True)


def dataset(counts, *, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    units = [rng.uniform(size=(count, dim)) for count in counts]
    return Dataset.of_arrays(units, [np.sin(3 * unit.sum(axis=1)) + level for level, unit in enumerate(units)])


def points(num, dim=2, seed=1):
    return jnp.asarray(np.random.default_rng(seed).uniform(size=(num, dim)), jnp.float32)


@pytest.fixture(scope="module")
def fitted():
    return COLLAPSED.fit(jax.random.key(0), dataset((7, 4)))


@pytest.mark.slow
def test_the_surrogate_and_its_posterior_keep_the_contract(fitted):
    posterior, last, info = fitted
    assert isinstance(COLLAPSED, Surrogate)
    assert isinstance(posterior, Posterior)
    assert posterior.draw(points(5)).shape == (2 * 2 * 2, 5, 2)
    assert posterior.noise.shape == (2,)
    assert last.shape[0] == info.step_size.shape[0] == 2


def test_what_a_double_precision_fit_gives_is_in_single_precision(fitted):
    posterior, *_ = fitted
    assert {leaf.dtype for leaf in jax.tree.leaves(posterior)} == {jnp.dtype("float32")}
    assert posterior.draw(points(5)).dtype == jnp.float32


def test_each_draw_at_the_same_points_is_every_draw_at_shared_points(fitted):
    posterior, *_ = fitted
    unit = points(5)
    shared = posterior.draw(unit)
    each = posterior.draw_each(jnp.broadcast_to(unit, (shared.shape[0], *unit.shape)))
    np.testing.assert_allclose(each, shared, rtol=1e-5, atol=1e-6)


def test_each_draw_uses_points_of_its_own(fitted):
    posterior, *_ = fitted
    own = points(8 * 3).reshape(8, 3, 2)
    each = posterior.draw_each(own)
    for place in (0, 5):
        np.testing.assert_allclose(each[place], posterior.draw(own[place])[place], rtol=1e-5, atol=1e-6)


def test_functions_are_the_same_at_every_call_and_whatever_else_is_asked(fitted):
    posterior, *_ = fitted
    unit = points(6)
    np.testing.assert_array_equal(posterior.draw(unit), posterior.draw(unit))
    np.testing.assert_allclose(posterior.draw(unit)[:, 2:4], posterior.draw(unit[2:4]), rtol=1e-5, atol=1e-6)
    assert len(np.unique(np.asarray(posterior.draw(unit)[:, 0, 1]))) == 8


def test_functions_are_differentiable(fitted):
    # In double precision, where a difference over a short step means something.
    with jax.enable_x64(True):
        posterior = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), fitted[0])
        top = jax.jit(lambda unit: posterior.draw(unit[None])[:, 0, -1])
        unit, step = jnp.asarray([0.4, 0.6]), 1e-5
        slopes = jax.jit(jax.jacrev(top))(unit)
        moves = step * jnp.eye(2)
        differences = [(top(unit + move) - top(unit - move)) / (2 * step) for move in moves]
    # The polynomial in place of the cosine jumps by 1e-8 where turns are rounded: 1e-3 over a step.
    np.testing.assert_allclose(slopes, np.stack(differences, axis=1), rtol=1e-3, atol=1e-2)
    assert np.abs(slopes).max() > 0.1


def test_the_noise_is_the_mean_variance_over_draws(fitted):
    posterior, *_ = fitted
    np.testing.assert_allclose(posterior.noise, np.mean(1 / np.asarray(posterior.precision), axis=0), rtol=1e-6)


def test_replicas_share_all_but_the_top_level_last_layer(fitted):
    posterior, *_ = fitted
    low, top = posterior.levels
    for leaf in jax.tree.leaves((low, top.hidden, posterior.precision)):
        np.testing.assert_array_equal(leaf[0::2], leaf[1::2])
    assert np.all(np.asarray(top.last[0::2] != top.last[1::2]).any(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(8,), (8, 5)], ids=["one level", "two levels"])
def test_given_the_rest_top_level_draws_are_bayesian_linear_regression(counts):
    num = 4000
    surrogate = replace(COLLAPSED, num_replicas=num)
    data, unit = dataset(counts), points(3)
    with jax.enable_x64(True):
        key_draw, key_replicas = jax.random.split(jax.random.key(4))
        size = surrogate.starts(key_draw, data).shape[1]
        flat = 0.5 * jax.random.normal(key_draw, (size,))
        posterior = jax.jit(surrogate.posterior)(key_replicas, flat[None], data)
    top, level = posterior.levels[-1], len(counts) - 1
    levels = jax.tree.map(lambda leaf: leaf[0], posterior.levels)

    def features(at):
        inputs = SMALL.first_inputs(at)
        if level:
            inputs = SMALL.next_inputs(inputs, SMALL.outputs(levels, at)[:, 0], 2)
        return np.asarray(SMALL.network.features(levels[-1].hidden, inputs, 2), np.float64)

    rows, tau = np.asarray(data.mask[data.rows(level)]), float(posterior.precision[0, level])
    phi = features(data.unit[data.rows(level)])[rows]
    covariance = np.linalg.inv(tau * phi.T @ phi + np.eye(phi.shape[1]))
    mean = tau * covariance @ phi.T @ np.asarray(data.value[data.rows(level)], np.float64)[rows]
    _assert_moments(np.asarray(top.last, np.float64), mean, covariance)
    ahead = features(unit)
    _assert_moments(
        np.asarray(posterior.draw(unit)[:, :, level], np.float64), ahead @ mean, ahead @ covariance @ ahead.T
    )


def _assert_moments(draws, mean, covariance):
    """Within five standard errors: of a mean, and of the covariance of scaled normals, at most sqrt(2 / num)."""
    num, deviations = len(draws), np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * deviations / np.sqrt(num))
    error = (np.cov(draws.T) - covariance) / np.outer(deviations, deviations)
    assert np.all(np.abs(error) < 5 * np.sqrt(2 / num))


def test_a_fit_is_a_function_of_its_key(fitted):
    data = dataset((7, 4))
    again, other = (COLLAPSED.fit(jax.random.key(seed), data)[0] for seed in (0, 1))
    unit = points(4)
    np.testing.assert_array_equal(fitted[0].draw(unit), again.draw(unit))
    assert np.all(np.asarray(fitted[0].draw(unit) != other.draw(unit)))


def test_a_warm_fit_goes_on_from_where_the_last_one_ended(fitted):
    _, last, _ = fitted
    posterior, moved, _ = COLLAPSED.fit(jax.random.key(2), dataset((8, 5)), last)
    assert np.all(np.isfinite(posterior.draw(points(5))))
    assert moved.shape == last.shape
    # A warm fit searches for no maximum: nine short steps leave a chain nearer to its start than to a fresh one.
    fresh = COLLAPSED.fit(jax.random.key(3), dataset((8, 5)))[1]
    assert np.linalg.norm(moved - last) < np.linalg.norm(moved - fresh)


def test_a_warm_start_that_is_not_finite_does_no_harm(fitted):
    _, last, _ = fitted
    with jax.enable_x64(True):
        broken = last.at[0].set(jnp.nan)
    posterior, moved, _ = COLLAPSED.fit(jax.random.key(2), dataset((8, 5)), broken)
    assert np.all(np.isfinite(posterior.draw(points(5))))
    assert np.all(np.isfinite(moved))


def _constant():
    return Dataset.of_arrays([np.random.default_rng(0).uniform(size=(6, 2))] * 2, [np.full(6, 3.0), np.full(6, -1.0)])


def _duplicated():
    unit = np.full((6, 2), 0.3)
    return Dataset.of_arrays([unit, unit], [np.arange(6.0), np.full(6, 2.0)])


HARD = {
    "one observation at each level": lambda: dataset((1, 1)),
    "one observation in all": lambda: dataset((1, 0)),
    "nothing at the top": lambda: dataset((6, 0)),
    "nothing below": lambda: dataset((0, 6)),
    "nothing at all": lambda: dataset((0, 0)),
    "constant outputs": _constant,
    "duplicated points": _duplicated,
    "an outlier": lambda: Dataset.of_arrays(
        [np.asarray(points(8))] * 2, [np.asarray([0.0] * 7 + [1e6]), np.arange(8.0)]
    ),
    "fifty dimensions": lambda: dataset((5, 5), dim=50),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_hard_data_give_finite_draws(name):
    data = HARD[name]()
    dim = data.unit.shape[1]
    posterior, last, _ = COLLAPSED.fit(jax.random.key(5), data)
    assert np.all(np.isfinite(posterior.draw(points(5, dim))))
    assert np.all(np.isfinite(posterior.noise))
    assert np.all(np.asarray(posterior.noise) > 0)
    assert np.all(np.isfinite(last))


FEW: dict[str, Any] = {
    "num_chains": 2,
    "num_search_steps": 5,
    "num_warmup": 6,
    "num_warmup_warm": 2,
    "num_draws_per_chain": 2,
}
# The paper's, one with stochastic gradients, one without chains: what else differs is tested with the methods.
METHODS = [
    PaperHMC(num_burnin=5, num_draws=4, thinning=1, num_leapfrog=2),
    SGHMC(**FEW, thinning=1),
    DeepEnsemble(num_members=4, num_steps=5, num_steps_warm=2),
]
MORE_METHODS = [
    AdaptiveHMC(**FEW, thinning=1, num_leapfrog=2),
    NUTS(**FEW, thinning=1, max_depth=3),
    MeanField(num_chains=2, num_steps=5, num_steps_warm=2, num_draws_per_chain=2),
    MCLMC(**FEW, thinning=1),
    AdjustedMCLMC(**FEW, thinning=1, num_leapfrog=2),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "inference",
    [*METHODS, *(pytest.param(method, marks=pytest.mark.slow) for method in MORE_METHODS)],
    ids=lambda method: type(method).__name__,
)
def test_every_inference_fits_the_sampled_model(inference):
    surrogate = Darn(SampledModel(Stack(Network(width=4, depth=1))), inference)
    cold, last, _ = surrogate.fit(jax.random.key(6), dataset((6, 4)))
    warm, *_ = surrogate.fit(jax.random.key(7), dataset((7, 4)), last)
    for posterior in (cold, warm):
        drawn = np.asarray(posterior.draw(points(5)))
        assert drawn.shape == (4, 5, 2)
        assert np.all(np.isfinite(drawn))
    assert last.shape[0] == inference.num_chains
    # The networks are the drawn parameters themselves: nothing is drawn anew.
    assert np.any(np.asarray(cold.draw(points(5)) != warm.draw(points(5))))


@pytest.mark.slow
@pytest.mark.parametrize(("num_functions", "wanted"), [(None, 12), (100, 12), (4, 4), (5, 4), (1, 2)])
def test_the_number_of_functions_includes_replicas(num_functions, wanted):
    surrogate, data = replace(COLLAPSED, num_functions=num_functions), dataset((7, 4))
    with jax.enable_x64(True):
        start = surrogate.starts(jax.random.key(8), data)
        draws = jnp.concatenate([start, start + 0.1, start + 0.2])
        shape = jax.eval_shape(lambda flat: surrogate.posterior(jax.random.key(9), flat, data).precision, draws)
    assert shape.shape == (wanted, 2)


def test_replicas_of_a_sampled_model_are_refused():
    with pytest.raises(ValueError, match="num_replicas above 1 needs a CollapsedModel"):
        Darn(SampledModel(SMALL), BRIEF, num_replicas=2)


@pytest.mark.usefixtures("as_a_user")
def test_an_unknown_preset_is_refused():
    with pytest.raises(ValueError, match="unknown preset 'best'; choose 'default', 'paper' or 'paper_adapted'"):
        Darn.preset("best")  # pyright: ignore[reportArgumentType]


def test_presets_are_values_equal_and_hashable():
    for preset in ("default", "paper"):
        assert Darn.preset(preset) == Darn.preset(preset)
        assert hash(Darn.preset(preset)) == hash(Darn.preset(preset))
    assert Darn.preset("default") != Darn.preset("paper")


def test_the_paper_preset_is_the_paper():
    paper = Darn.preset("paper")
    assert isinstance(paper.model, SampledModel)
    assert paper.model.stack == Stack(Network(width=40, depth=2, activation="tanh", scaling="unit"), links="all")
    assert paper.inference == PaperHMC(num_burnin=5000, num_draws=200, thinning=10, num_leapfrog=10, step_size=0.012)


@pytest.mark.slow
def test_fits_to_growing_data_compile_once_a_block_size():
    warm = COLLAPSED.fit(jax.random.key(0), dataset((3, 1)))[1]
    TRACES.clear()
    # Thirty-two rows fit the smallest block; cold and warm fits are one program.
    for count in (5, 17, 32):
        warm = COLLAPSED.fit(jax.random.key(count), dataset((count, count // 2)), warm)[1]
    assert not TRACES
    # The counter does count: thirty-three rows are traced anew.
    larger = COLLAPSED.target(dataset((33, 8)))
    jax.eval_shape(larger.logdensity, jnp.zeros(warm.shape[1]))
    assert TRACES == [(64, 32)]


def test_an_equal_surrogate_made_anew_shares_the_compilation():
    COLLAPSED.fit(jax.random.key(0), dataset((3, 3)))
    TRACES.clear()
    Darn(Traced(SMALL), replace(BRIEF), num_replicas=2, double=True).fit(jax.random.key(1), dataset((4, 2)))
    assert not TRACES


# Simulation-based calibration (Talts et al. 2018): parameters from the prior, data from the parameters; then the rank
# of the truth among draws from the posterior is uniform, whatever the data.
WIDE = Stack(Network(width=8, depth=1, activation="cosine", scaling="learned"))
A0, B0, NUM_POINTS = 2.0, 0.2, 12
AT = jnp.asarray([[0.2], [0.5], [0.9]], jnp.float32)
CHAINS = MCLMC(
    num_chains=4, num_search_steps=200, num_warmup=400, num_warmup_warm=1, num_draws_per_chain=8, thinning=50
)
FAILURE_RATE = 1e-3
"""How often the check would fail on a right model, if its keys were not fixed."""


@jax.jit
def simulated(key):
    """Data as they are, without standardisation, and what they came from: top-level values and both precisions."""
    key_hidden, key_last, key_tau, key_unit, key_noise = jax.random.split(key, 5)
    hidden, keys = WIDE.draw(key_hidden, 1, 2), jax.random.split(key_last)
    last = [jax.random.normal(keys[m], (WIDE.num_features(1, m),)) for m in range(2)]
    levels = tuple(map(Weights, hidden, last))
    tau = jax.random.gamma(key_tau, A0, (2,)) / B0
    unit = jax.random.uniform(key_unit, (2 * NUM_POINTS, 1))
    level = np.repeat([1, 0], NUM_POINTS)
    noise = jax.random.normal(key_noise, level.shape) / jnp.sqrt(tau[level])
    value = WIDE.outputs(levels, unit)[np.arange(len(level)), level] + noise
    sizes = (NUM_POINTS, NUM_POINTS)
    data = Dataset(unit, value, jnp.ones(len(level), bool), (Scale(), Scale()), sizes)
    return data, jnp.concatenate([WIDE.outputs(levels, AT)[:, -1], tau])


def calibration(model, num_simulations):
    """The smallest probability of ranks this far from uniform, over all quantities."""
    surrogate = Darn(model, CHAINS, double=True)
    ranks = []
    for simulation in range(num_simulations):
        key_data, key_fit = jax.random.split(jax.random.fold_in(jax.random.key(100), simulation))
        data, truth = simulated(key_data)
        posterior, *_ = surrogate.fit(key_fit, data)
        drawn = np.concatenate([posterior.draw(AT)[:, :, -1], posterior.precision], axis=1)
        ranks.append((np.sum(drawn < np.asarray(truth), axis=0) + 0.5) / (len(drawn) + 1))
    return min(scipy.stats.kstest(column, "uniform").pvalue for column in np.transpose(ranks))


NUM_QUANTITIES = len(AT) + 2


@pytest.mark.slow
def test_draws_are_calibrated_on_a_few_simulations():
    assert calibration(CollapsedModel(WIDE, A0, B0), 12) > FAILURE_RATE / NUM_QUANTITIES


@pytest.mark.slow
def test_draws_are_calibrated():
    assert calibration(CollapsedModel(WIDE, A0, B0), 60) > FAILURE_RATE / NUM_QUANTITIES


@pytest.mark.slow
def test_calibration_notices_a_wrong_prior_of_the_noise():
    # Ten times less noise than there is.
    assert calibration(CollapsedModel(WIDE, 20 * A0, 2 * B0), 60) < FAILURE_RATE / NUM_QUANTITIES


@pytest.mark.slow
def test_the_adapted_chains_of_the_paper_accept_and_give_distinct_functions():
    """On Branin with 30 observations, as many as the preset "paper" starts with."""
    problem = branin()
    surrogate = Darn.preset("paper_adapted")
    units = [np.random.default_rng(level).random((10, 2)) for level in range(3)]
    values = [formula(15.0 * unit + [-5.0, 0.0]) for formula, unit in zip(problem.formulas, units, strict=True)]
    posterior, _, info = surrogate.fit(jax.random.key(0), Dataset.of_arrays(units, values))
    assert isinstance(surrogate.inference, AdaptiveHMC)
    assert float(np.mean(info.acceptance)) == pytest.approx(surrogate.inference.target_acceptance, abs=0.2)
    assert np.asarray(info.acceptance).min() > 0.4
    # A rejected transition repeats a draw; ten of them in a row are rare where half are accepted.
    assert len(np.unique(np.asarray(posterior.draw(points(1)))[:, 0, -1])) > 90


@pytest.mark.slow
def test_networks_learn_many_values_of_a_smooth_function_without_noise():
    """The amplitudes of long waves are so large here that rounding hides the prior of the last layer."""
    rng = np.random.default_rng(0)
    units = [rng.random((count, 5)) for count in (450, 300, 245)]
    values = [-np.sum((unit - 0.3) ** 2, axis=1) * (1.2 - 0.1 * level) for level, unit in enumerate(units)]
    surrogate, warm = Darn.preset("default"), None
    for share in (0.66, 1.0):
        counts = [int(len(unit) * share) for unit in units]
        some = [unit[:count] for unit, count in zip(units, counts, strict=True)]
        data = Dataset.of_arrays(some, [value[:count] for value, count in zip(values, counts, strict=True)])
        posterior, warm, info = surrogate.fit(jax.random.key(0), data, warm)
        assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(posterior))
        # No chain stands still: every step was finite.
        assert np.asarray(info.divergences).max() == 0


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_large_features_leave_the_evidence_and_the_last_layer_finite(scale):
    """With the larger scale, the matrix has no Cholesky factor if only the identity is added to it."""
    rng = np.random.default_rng(0)
    unit = rng.random((200, 2))
    waves = np.cos(0.5 * unit @ rng.normal(size=(2, 40)) + rng.normal(size=40))
    value = -np.sum((unit - 0.3) ** 2, axis=1)
    value = (value - value.mean()) / value.std()
    with jax.enable_x64(True):
        features = jnp.asarray(scale * waves.astype(np.float32).astype(np.float64))
        log_precision = jnp.asarray(14.0)
        evidence, last = collapse(
            features, jnp.asarray(value), jnp.ones(200, bool), log_precision, jnp.zeros(features.shape[1])
        )
        fitted = np.asarray(features @ last)
    assert np.isfinite(evidence)
    # The noise is a thousandth of the spread.
    np.testing.assert_allclose(fitted, value, atol=5e-3)
