"""Every inference method against answers in closed form."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import integrators, metrics

from bmbo.inference import (
    MCLMC,
    NUTS,
    SGHMC,
    AdaptiveHMC,
    AdjustedMCLMC,
    DeepEnsemble,
    MeanField,
    PaperHMC,
    Target,
    ess,
    optimise,
    rhat,
)

NUM_ROWS, NUM_PARAMETERS, NOISE = 40, 4, 0.5
COLD, WARM = jnp.asarray(False), jnp.asarray(True)
# An array: a plain number has another type in JAX, and every program would be compiled twice.
NO_EDGE = jnp.asarray(np.inf, jnp.float32)


class Regression:
    """Bayesian linear regression with known noise and a standard normal prior: the posterior is Gaussian."""

    def __init__(self):
        rng = np.random.default_rng(0)
        # Correlated columns, so that a mean field is visibly wrong about the variances.
        mixing = np.eye(NUM_PARAMETERS) + 0.4
        inputs = rng.normal(size=(NUM_ROWS, NUM_PARAMETERS)) @ mixing
        outputs = inputs @ rng.normal(size=NUM_PARAMETERS) + NOISE * rng.normal(size=NUM_ROWS)
        self.precision = inputs.T @ inputs / NOISE**2 + np.eye(NUM_PARAMETERS)
        self.covariance = np.linalg.inv(self.precision)
        self.mean = self.covariance @ inputs.T @ outputs / NOISE**2
        rows, seen = jnp.asarray(inputs, jnp.float32), jnp.asarray(outputs, jnp.float32)

        def loglikelihood(weights, rows, seen):
            return -0.5 * jnp.sum((seen - rows @ weights) ** 2) / NOISE**2

        def logdensity(weights):
            return loglikelihood(weights, rows, seen) - 0.5 * weights @ weights

        def estimate(key, weights):
            size = NUM_ROWS // 2
            chosen = jax.random.choice(key, NUM_ROWS, (size,), replace=False)
            scaled = NUM_ROWS / size * loglikelihood(weights, rows[chosen], seen[chosen])
            return scaled - 0.5 * weights @ weights

        self.target = Target(logdensity, estimate, lambda weights: rows[:3] @ weights)


REGRESSION = Regression()


def gaussian(scale, mean=0.0):
    def logdensity(position):
        return -0.5 * jnp.sum(((position - mean) / scale) ** 2)

    return Target(logdensity, lambda _, position: logdensity(position), lambda position: position[:5])


def run(method, target, num_parameters=NUM_PARAMETERS, *, warm=COLD, start=None, seed=0):
    if start is None:
        start = jax.random.normal(jax.random.key(1), (method.num_chains, num_parameters))
    return program(method, target)(jax.random.key(seed), start, warm)


@functools.cache
def program(method, target):
    return jitted(lambda key, start, warm: method.run(key, target, start, warm))


def jitted(function):
    """These programs run for milliseconds and compile for seconds: a third less without optimisation."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def standard_errors(draws, mean, covariance):
    """How many standard errors the mean and the variance of each parameter are off; draws [c t p]."""
    draws = np.asarray(draws, np.float64)
    variance = np.diag(covariance)
    deviation = draws - mean
    both = jnp.asarray(np.concatenate([deviation, deviation**2], axis=2), jnp.float32)
    size_mean, size_variance = np.split(np.asarray(jitted(ess)(both)), 2)
    off_mean = (draws.mean((0, 1)) - mean) / np.sqrt(variance / size_mean)
    # The variance of a squared standard normal is two.
    off_variance = ((deviation**2).mean((0, 1)) / variance - 1) / np.sqrt(2 / size_variance)
    return off_mean, off_variance


def chains_of(method, result):
    return result.draws.reshape(method.num_chains, -1, result.draws.shape[-1])


SHORT: dict[str, Any] = {
    "num_chains": 4,
    "num_warmup": 150,
    "num_draws_per_chain": 250,
    "num_search_steps": 200,
    "thinning": 2,
}
EXACT = {
    "paper": PaperHMC(num_burnin=200, num_draws=1000, thinning=2),
    "adaptive": AdaptiveHMC(**SHORT),
    "nuts": NUTS(**SHORT, max_depth=5),
    "adjusted mclmc": AdjustedMCLMC(**SHORT, num_leapfrog=5),
}
SMALL: dict[str, Any] = {"num_chains": 3, "num_warmup": 20, "num_warmup_warm": 5, "num_draws_per_chain": 4}
EVERY = {
    "paper": (PaperHMC(num_burnin=10, num_draws=8, thinning=2, step_size=0.05), 8),
    "adaptive": (AdaptiveHMC(**SMALL, num_search_steps=20), 12),
    "nuts": (NUTS(**SMALL, num_search_steps=20, max_depth=3), 12),
    "sghmc": (SGHMC(**SMALL, num_search_steps=20, thinning=5, decay=0.3), 12),
    "mclmc": (MCLMC(**SMALL, num_search_steps=20), 12),
    "adjusted mclmc": (AdjustedMCLMC(**SMALL, num_search_steps=20), 12),
    "mean field": (MeanField(num_chains=2, num_steps=20, num_steps_warm=5, num_draws_per_chain=5), 10),
    "ensemble": (DeepEnsemble(num_members=3, num_steps=20, num_steps_warm=5), 3),
}


@functools.cache
def beside_a_cliff(method):
    """One program a method, for the tests of the contract: regression, not a number beyond an edge; and its traces."""
    traces = []

    def go(key, start, warm, edge):
        traces.append(1)

        def fenced(logdensity):
            return lambda *of: jnp.where(of[-1][0] > edge, jnp.nan, logdensity(*of))

        target = REGRESSION.target
        target = Target(fenced(target.logdensity), fenced(target.estimate), target.monitor)
        return method.run(key, target, start, warm)

    return jitted(go), traces


@pytest.mark.parametrize(("method", "num_draws"), EVERY.values(), ids=EVERY)
def test_every_method_keeps_the_contract(method, num_draws):
    go, traces = beside_a_cliff(method)
    start = jax.random.normal(jax.random.key(1), (method.num_chains, NUM_PARAMETERS))
    first = go(jax.random.key(0), start, COLD, NO_EDGE)
    again = go(jax.random.key(0), start, COLD, NO_EDGE)
    warm = go(jax.random.key(0), first.last, WARM, NO_EDGE)
    other = go(jax.random.key(2), start, COLD, NO_EDGE)
    assert len(traces) == 1
    assert hash(method) == hash(replace(method))
    for result in (first, warm):
        assert result.draws.shape == (num_draws, NUM_PARAMETERS)
        assert result.last.shape == (method.num_chains, NUM_PARAMETERS)
        assert jnp.all(jnp.isfinite(result.draws))
        assert jnp.all(jnp.isfinite(result.last))
        assert result.info.acceptance.shape == (method.num_chains,)
    np.testing.assert_array_equal(first.draws, again.draws)
    assert bool(jnp.any(first.draws != other.draws)) != isinstance(method, DeepEnsemble)


@pytest.mark.parametrize(("method", "num_draws"), EVERY.values(), ids=EVERY)
def test_a_region_without_a_density_never_poisons(method, num_draws):
    go, _ = beside_a_cliff(method)
    # The edge is at the posterior mean: half of the posterior is cut off.
    edge = jnp.asarray(REGRESSION.mean[0], jnp.float32)
    inside = jnp.zeros((method.num_chains, NUM_PARAMETERS))
    adjusted = isinstance(method, PaperHMC | AdaptiveHMC | NUTS | AdjustedMCLMC | DeepEnsemble)
    for start in (inside, inside.at[0, 1].set(jnp.nan), inside.at[0, 0].set(1.0)):
        result = go(jax.random.key(0), start, COLD, edge)
        assert result.draws.shape[0] == num_draws
        assert jnp.all(jnp.isfinite(result.draws))
        assert jnp.all(jnp.isfinite(result.last))
        if adjusted and start[0, 0] == 0:
            assert jnp.all(result.draws[:, 0] <= edge)


@pytest.mark.slow
@pytest.mark.parametrize("method", EXACT.values(), ids=EXACT)
def test_exact_samplers_have_the_moments_of_bayesian_linear_regression(method):
    result = run(method, REGRESSION.target)
    off_mean, off_variance = standard_errors(chains_of(method, result), REGRESSION.mean, REGRESSION.covariance)
    # Thirty-two numbers in all: the largest of as many standard normals exceeds 4 once in five hundred keys.
    assert np.max(np.abs(off_mean)) < 4
    assert np.max(np.abs(off_variance)) < 4
    assert result.info.rhat < 1.05
    assert result.info.ess > 100
    assert jnp.all(result.info.acceptance > 0.6)
    assert jnp.all(result.info.divergences == 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "tolerance"),
    [
        # The noise of half the data in the gradient and the step widen the posterior somewhat.
        (SGHMC(num_chains=4, num_draws_per_chain=300, thinning=20, step_size=0.01, friction=20.0), 0.25),
        # An unadjusted chain is off by a share of its energy variance per parameter, which matters most in few.
        (MCLMC(num_chains=4, num_draws_per_chain=300, thinning=10), 0.25),
    ],
    ids=["sghmc", "mclmc"],
)
def test_unadjusted_samplers_are_near_bayesian_linear_regression(method, tolerance):
    result = run(method, REGRESSION.target)
    scale = np.sqrt(np.diag(REGRESSION.covariance))
    assert np.max(np.abs(result.draws.mean(0) - REGRESSION.mean) / scale) < tolerance
    assert np.max(np.abs(result.draws.std(0) / scale - 1)) < tolerance
    assert jnp.all(jnp.isnan(result.info.acceptance))
    assert result.info.rhat < 1.1


def test_a_mean_field_has_the_mean_and_the_inverse_diagonal_of_the_precision():
    method = MeanField(num_chains=2, num_steps=3000, num_draws_per_chain=4000, num_samples=8)
    result = run(method, REGRESSION.target)
    scale = 1 / np.sqrt(np.diag(REGRESSION.precision))
    # What Adam leaves is a few hundredths of a standard deviation.
    assert np.max(np.abs(result.last - REGRESSION.mean[None]) / scale[None]) < 0.15
    np.testing.assert_allclose(result.draws.std(0), scale, rtol=0.1)
    # Here the truth is visibly wider.
    assert np.all(np.sqrt(np.diag(REGRESSION.covariance)) > 1.2 * scale)


def test_all_members_of_an_ensemble_are_at_the_only_maximum():
    result = run(DeepEnsemble(num_members=5, num_steps=10_000), REGRESSION.target)
    np.testing.assert_allclose(result.draws, np.tile(REGRESSION.mean, (5, 1)), atol=2e-3)


def test_members_of_an_ensemble_differ_where_there_are_several_maxima():
    two = Target(lambda x: -jnp.sum((x**2 - 4) ** 2), lambda _, x: -jnp.sum((x**2 - 4) ** 2), lambda x: x)
    start = jnp.asarray([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    np.testing.assert_allclose(optimise(two, start, 1000), 2 * start, atol=1e-2)


def test_no_steps_of_optimisation_give_the_start():
    start = jnp.ones((2, NUM_PARAMETERS))
    np.testing.assert_array_equal(optimise(REGRESSION.target, start, jnp.asarray(0)), start)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        AdaptiveHMC(num_chains=8, num_draws_per_chain=50, num_search_steps=1, initial_step_size=0.1),
        MCLMC(num_chains=8, num_draws_per_chain=50, num_search_steps=1),
    ],
    ids=lambda method: type(method).__name__,
)
def test_a_standard_normal_in_fifty_dimensions_has_its_spread(method):
    draws = run(method, gaussian(1.0), num_parameters=50).draws
    # Of 400 independent draws the mean is off by 0.05, the variance by 0.07: four to five times that, for 50 of them.
    assert jnp.max(jnp.abs(draws.mean(0))) < 0.25
    assert jnp.max(jnp.abs(draws.var(0) - 1)) < 0.4
    np.testing.assert_allclose(draws.var(0).mean(), 1.0, atol=0.08)


@pytest.mark.slow
def test_a_warm_start_with_little_warmup_has_the_same_moments():
    method = replace(AdaptiveHMC(**SHORT), num_search_steps=2000, num_warmup_warm=40, initial_step_size=0.05)
    earlier = run(method, REGRESSION.target)
    result = run(method, REGRESSION.target, warm=WARM, start=earlier.last, seed=3)
    off_mean, off_variance = standard_errors(chains_of(method, result), REGRESSION.mean, REGRESSION.covariance)
    assert np.max(np.abs(off_mean)) < 4
    assert np.max(np.abs(off_variance)) < 4


@pytest.mark.slow
def test_a_warm_start_is_not_searched_for_anew():
    """Warm chains begin where they are told: a step of almost nothing leaves them there."""
    method = AdaptiveHMC(num_chains=2, num_warmup_warm=1, num_draws_per_chain=4, initial_step_size=1e-6)
    start = jnp.full((2, NUM_PARAMETERS), 3.0)
    np.testing.assert_allclose(run(method, REGRESSION.target, warm=WARM, start=start).last, start, atol=1e-2)


def test_a_hopeless_step_is_reported_as_no_acceptance_at_all():
    method = PaperHMC(num_burnin=10, num_draws=20, thinning=1, step_size=10.0)
    start = jnp.ones((1, NUM_PARAMETERS))
    result = run(method, REGRESSION.target, start=start)
    assert result.info.acceptance[0] == 0
    assert result.info.divergences[0] == 20
    assert result.info.rhat == jnp.inf
    assert result.info.ess == 0
    np.testing.assert_array_equal(result.last, start)


@pytest.mark.slow
def test_a_metric_learns_scales_that_differ_a_hundredfold():
    scale = jnp.asarray([0.01, 0.1, 1.0, 1.0])
    method = AdaptiveHMC(**{**SHORT, "num_warmup": 300}, diagonal_metric=True)
    result = run(method, gaussian(scale))
    # Without a metric, leapfrog is unstable beyond twice the smallest scale.
    assert jnp.all(result.info.step_size > 0.1)
    np.testing.assert_allclose(result.draws.std(0), scale, rtol=0.15)


def test_rhat_is_near_one_for_mixed_chains_and_ess_near_their_number():
    chains = jax.random.normal(jax.random.key(0), (4, 500, 3))
    assert jnp.all(jnp.abs(jitted(rhat)(chains) - 1) < 0.02)
    np.testing.assert_allclose(jitted(ess)(chains), 2000, rtol=0.2)


@pytest.mark.slow
def test_rhat_is_large_for_chains_stuck_in_two_far_modes():
    target = Target(
        lambda x: jnp.logaddexp(-0.5 * jnp.sum((x - 10) ** 2), -0.5 * jnp.sum((x + 10) ** 2)),
        lambda _, x: -0.5 * jnp.sum(x**2),
        lambda x: x,
    )
    method = replace(AdaptiveHMC(**SHORT), num_draws_per_chain=20)
    start = 10.0 * jnp.asarray([1.0, 1.0, -1.0, -1.0])[:, None] * jnp.ones((4, 2))
    assert run(method, target, start=start).info.rhat > 3
    assert run(method, target, start=jnp.abs(start)).info.rhat < 1.3


def test_rhat_of_a_single_chain_sees_its_drift():
    drifting = jnp.linspace(0.0, 1.0, 100)[None, :, None]
    assert jitted(rhat)(drifting)[0] > 1.5


def test_diagnostics_of_too_few_draws_are_unknown():
    chains = jnp.zeros((2, 3, 1))
    assert jnp.isnan(rhat(chains)[0])
    assert jnp.isnan(ess(chains)[0])


def _leapfrog(position, momentum, step_size, num_steps):
    metric = metrics.default_metric(jnp.ones(NUM_PARAMETERS))
    step = integrators.velocity_verlet(REGRESSION.target.logdensity, metric.kinetic_energy)
    state = integrators.new_integrator_state(REGRESSION.target.logdensity, position, momentum)
    end = jax.lax.fori_loop(0, num_steps, lambda _, state: step(state, step_size), state)
    energy = [-s.logdensity + metric.kinetic_energy(s.momentum) for s in (state, end)]
    return end, energy[1] - energy[0]


def test_leapfrog_returns_when_its_momentum_is_turned():
    position, momentum = jax.random.normal(jax.random.key(0), (2, NUM_PARAMETERS))
    end, _ = _leapfrog(position, momentum, 0.01, 20)
    back, _ = _leapfrog(end.position, -end.momentum, 0.01, 20)
    np.testing.assert_allclose(back.position, position, atol=1e-4)
    np.testing.assert_allclose(back.momentum, -momentum, atol=2e-3)


def test_the_energy_error_of_leapfrog_goes_with_the_square_of_its_step():
    position, momentum = jnp.asarray(REGRESSION.mean, jnp.float32), jnp.ones(NUM_PARAMETERS)
    # The same time of flight, a quarter of the period of the stiffest direction.
    time = 0.25 * 2 * np.pi / np.sqrt(np.linalg.eigvalsh(REGRESSION.precision)[-1])
    _, coarse = _leapfrog(position, momentum, time / 8, 8)
    _, fine = _leapfrog(position, momentum, time / 16, 16)
    assert 3 < coarse / fine < 5


def test_warmup_of_no_transitions_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        AdaptiveHMC(num_warmup=0)


def test_double_precision_is_kept_where_it_is_enabled():
    with jax.enable_x64(True):
        for method, _ in EVERY.values():
            start = jnp.ones((method.num_chains, NUM_PARAMETERS), jnp.float32)
            draws = jax.eval_shape(
                lambda start, method=method: method.run(jax.random.key(0), REGRESSION.target, start, COLD).draws, start
            )
            assert draws.dtype == jnp.float64


def test_the_paper_budget_is_the_default():
    paper = PaperHMC()
    assert paper.num_burnin + paper.num_draws * paper.thinning == 7000
    assert (paper.num_leapfrog, paper.step_size, paper.num_chains) == (10, 0.012, 1)
