"""Test the networks for Burgers' equation: their derivatives, and L-BFGS for many networks at once."""

import math
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmbo
from experiments.applications import burgers_training as burgers
from experiments.applications import pinn
from experiments.applications.application import Deadline, OutOfTimeError
from experiments.applications.burgers_training import VISCOSITY, Points, Shape
from experiments.applications.training_cache import MemoryStore, StoredPauses

# The application trains networks.
pytestmark = pytest.mark.slow

needs_data = pytest.mark.skipif(
    not (Path(os.environ.get("BMBO_DATA", "nowhere")) / "burgers_shock.mat").is_file(),
    reason="BMBO_DATA names no folder with burgers_shock.mat",
)

SOON = Deadline(math.inf)


class Kept:
    """Keep states in memory."""

    def __init__(self):
        self.states = {}

    def load(self, below):
        return max(((level, state) for level, state in self.states.items() if level < below), default=None)

    def save(self, level, state):
        self.states[level] = state


def no_pauses():
    """Return an empty store of pauses, for trainings that are not interrupted."""
    return StoredPauses(MemoryStore(), [f"training {index}" for index in range(8)])


def some_points(num=64):
    """Return a problem of the same kind, with few points and a made-up solution."""
    generator = np.random.default_rng(0)
    inside, judged = (generator.random((num, 2)) * [2, 1] - [1, 0] for _ in range(2))
    edge = np.stack([np.linspace(-1, 1, 16), np.zeros(16)], axis=1)
    fields = (inside, edge, -np.sin(np.pi * edge[:, 0]), judged, -np.sin(np.pi * judged[:, 0]))
    return Points(*(jnp.asarray(field, jnp.float32) for field in fields))


def config(depth, width, activation):
    return {"depth": depth, "width": width, "activation": activation}


# The tests use few programs (a batch, and one network alone), because each takes seconds to compile.
BATCH = [config(2, 5, "sine"), config(2, 12, "sigmoid"), config(2, 7, "sigmoid")]


def train(configs, iterations, points, seed=0):
    shape = pinn.shape_of(configs)
    params, mask = pinn.begin(shape, configs, seed)
    lanes = burgers.start(shape, params, mask, points)
    return burgers.advance(shape, lanes, mask, points, limit=iterations, ticks=10_000)


def test_the_space_and_the_costs_are_the_papers():
    application = pinn.APPLICATION
    space = dict(application.problem.space.params)
    activation = space.pop("activation")
    assert space == {"depth": bmbo.Int(1, 8), "width": bmbo.Int(1, 64)}
    assert isinstance(activation, bmbo.Categorical)
    assert len(activation.choices) == 8
    assert {"relu", "tanh", "sigmoid"} <= set(activation.choices)
    assert [each.value for each in application.problem.ladder.fidelities] == [10, 100, 50_000]
    assert application.problem.ladder.costs == (1, 10, 50)
    assert not application.problem.maximise


def test_streams_are_the_derivatives_that_automatic_differentiation_gives():
    # Random points do not meet the kinks of relu, elu and selu.
    configs = [config(2, 9, activation) for activation in burgers.ACTIVATIONS]
    shape = pinn.shape_of(configs)
    params, mask = pinn.begin(shape, configs, seed=3)

    def u(x, t):
        return burgers.streams(shape, params, mask, jnp.stack([x, t])[None], num=1)[:, 0, 0]

    @jax.jit
    def both(points):
        u_x = jax.jacfwd(u, 0)
        expected = [jax.vmap(each)(*points.T) for each in (u, u_x, jax.jacfwd(u, 1), jax.jacfwd(u_x, 0))]
        return burgers.streams(shape, params, mask, points), jnp.stack(expected).transpose(2, 0, 1)

    np.testing.assert_allclose(*both(some_points(20).collocation), rtol=1e-4, atol=1e-5)


def test_the_residual_of_an_exact_solution_is_zero():
    # A travelling wave. Its speed and height can have any values.
    speed, height = 0.3, 0.1

    def u(x, t):
        return speed - height * jnp.tanh(height * (x - speed * t) / (2 * VISCOSITY))

    x, t = some_points().collocation.T
    u_x = jax.grad(u, 0)
    parts = [jax.vmap(each)(x, t) for each in (u, u_x, jax.grad(u, 1), jax.grad(u_x, 0))]
    assert jnp.abs(parts[2]).max() > 0.1
    np.testing.assert_allclose(burgers.residual(jnp.stack(parts)), 0.0, atol=1e-5)


def test_a_training_is_the_same_compiled_anew():
    first = train(BATCH, 100, some_points())
    jax.clear_caches()
    second = train(BATCH, 100, some_points())
    assert np.asarray(first.iterations).max() > 50
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_padded_network_is_the_network():
    # A sigmoid is 0.5 at zero, so a padded unit without a mask would change the result.
    points, found = some_points(), []
    for width in (16, 5):
        shape = Shape(2, width, (("sigmoid", 1),))
        params, mask = (jnp.asarray(part[None], jnp.float32) for part in pinn.first_params(shape, 5, seed=1))
        found.append(burgers.start(shape, params, mask, points))
    padded, tight = found
    assert float(padded.value[0]) == pytest.approx(float(tight.value[0]), rel=1e-5)
    np.testing.assert_allclose(padded.grad[padded.grad != 0], tight.grad[0], rtol=1e-3, atol=1e-6)
    # The padding, which is large for this width, stays zero.
    trained = train([config(2, 5, "sigmoid")], 10, points)
    assert int(jnp.sum(trained.params != 0)) == tight.params.size


def test_a_batch_of_networks_gives_what_each_gives_alone():
    together = train(BATCH, 10, some_points())
    assert list(together.iterations) == [10, 10, 10]
    for lane in (1, 2):
        alone = train([BATCH[lane]], 10, some_points())
        assert float(together.value[lane]) == pytest.approx(float(alone.value[0]), rel=1e-3)


def test_pauses_change_nothing():
    points, shape = some_points(), pinn.shape_of(BATCH)
    once = train(BATCH, 60, points)
    params, mask = pinn.begin(shape, BATCH, 0)
    lanes = burgers.start(shape, params, mask, points)
    for limit, ticks in [(10, 100), (60, 7), (60, 1000)]:
        lanes = burgers.advance(shape, lanes, mask, points, limit=limit, ticks=ticks)
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, once, lanes)))


def test_the_loss_goes_down_as_far_as_with_scipy():
    minimize = pytest.importorskip("scipy.optimize").minimize
    points, each = some_points(), BATCH[1]
    shape = pinn.shape_of([each])
    params, mask = pinn.begin(shape, [each], 0)
    both = jax.jit(jax.value_and_grad(lambda flat: burgers.losses(shape, flat[None], mask, points)[0]))

    def double(flat):
        value, grad = both(jnp.asarray(flat, jnp.float32))
        return float(value), np.asarray(grad, np.float64)

    options = {"maxiter": 200, "maxcor": burgers.MEMORY, "ftol": 0.0, "gtol": 0.0}
    expected = minimize(double, np.asarray(params[0], np.float64), jac=True, method="L-BFGS-B", options=options)
    found = train([each], 200, points)
    assert found.value[0] < 0.3 * double(params[0])[0]
    # The two optimisers take different paths after some tens of iterations.
    assert found.value[0] < 1.5 * expected.fun
    assert found.evaluations[0] < 1.3 * found.iterations[0]


def test_a_network_without_a_finite_loss_stops_at_once():
    points, shape = some_points(), pinn.shape_of(BATCH)
    params, mask = pinn.begin(shape, BATCH, 0)
    lanes = burgers.start(shape, params.at[0, 0].set(jnp.nan), mask, points)
    lanes = burgers.advance(shape, lanes, mask, points, limit=10, ticks=100)
    assert list(lanes.status) == [burgers.NOT_FINITE, burgers.RUNNING, burgers.RUNNING]
    assert list(lanes.iterations) == [0, 10, 10]


@needs_data
def test_the_points_are_as_published():
    collocation, boundary, values, evaluation, solution = pinn.load()
    assert collocation.shape == evaluation.shape == (10_000, 2)
    assert boundary.shape == (100, 2)
    assert np.all(np.abs(collocation[:, 0]) <= 1)
    assert collocation[:, 1].min() >= 0
    assert collocation[:, 1].max() <= 1
    initial = boundary[:, 1] == 0
    np.testing.assert_allclose(values[initial], -np.sin(np.pi * boundary[initial, 0]), atol=1e-6)
    np.testing.assert_allclose(values[~initial], 0, atol=1e-6)
    assert 0.5 < np.sqrt(np.mean(solution**2)) < 0.7
    assert len(np.unique(evaluation, axis=0)) == 10_000


@needs_data
def test_continuing_from_a_level_gives_what_one_go_gives():
    each, kept, fresh = config(1, 20, "tanh"), Kept(), Kept()
    low = pinn.train(each, 0, 5, kept, SOON)
    assert -1 < low < pinn.APPLICATION.ceiling
    assert list(kept.states) == [0]
    assert pinn.train(each, 1, 5, kept, SOON) == pinn.train(each, 1, 5, fresh, SOON) < low
    with pytest.raises(OutOfTimeError):
        pinn.train(each, 0, 5, Kept(), Deadline(-math.inf))


@needs_data
def test_the_command_prints_the_same_error_twice(capsys):
    shown = []
    for _ in range(2):
        pinn.main(["1", "3", "tanh", "--iterations", "3"])
        shown.append(capsys.readouterr().out.split(",")[0])
    assert shown[0] == shown[1]
    assert f"relative error {pinn.solve(config(1, 3, 'tanh'), 0, 3)[0]!r} after 3 iterations" in shown[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["9", "3", "tanh"], "parameter 'depth'"),
        (["8", "3", "relu6"], "parameter 'activation'"),
        (["8", "three", "tanh"], "argument width: invalid int value"),
        (["8", "3"], "the following arguments are required: activation"),
    ],
)
def test_the_command_refuses_what_is_no_configuration(arguments, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        pinn.main(arguments)
    assert said in capsys.readouterr().err


@needs_data
def test_many_networks_are_trained_and_told_one_by_one(monkeypatch):
    monkeypatch.setattr(pinn, "ITERATIONS", (10, 20, 30))
    # The limits are so short that the two networks of one batch end at different times, and the slower one continues.
    monkeypatch.setattr(pinn, "TICKS", 1)
    configs = [config(1, 20, "tanh"), config(1, 3, "sine"), config(1, 9, "sine")]
    told = {}
    pinn.train_many(configs, 0, SOON, lambda index, *rest: told.update({index: rest}), no_pauses())
    assert sorted(told) == [0, 1, 2]
    for index, each in enumerate(configs):
        losses, iterations, seconds = told[index]
        assert iterations == 30
        assert seconds > 0
        assert losses[0] == pytest.approx(pinn.train(each, 0, 0, Kept(), SOON), abs=1e-3)
        assert losses[2] == pytest.approx(math.log(pinn.solve(each, 0, 30)[0]), abs=1e-2)


@needs_data
def test_what_was_under_way_when_the_time_was_over_goes_on_from_there(monkeypatch):
    monkeypatch.setattr(pinn, "ITERATIONS", (2, 4, 12))
    monkeypatch.setattr(pinn, "TICKS", 2)
    configs = [config(1, 3, "tanh"), config(1, 3, "sine"), config(1, 9, "relu")]
    once, told = {}, {}
    pinn.train_many(configs, 0, SOON, lambda index, *rest: once.update({index: rest}), no_pauses())
    pauses = StoredPauses(MemoryStore(), ("first", "second", "third"))
    checks = []

    class Short(Deadline):
        """Raise an error at every sixth check."""

        def check(self):
            checks.append(None)
            if len(checks) % 6 == 0:
                raise OutOfTimeError("for now")

    times, began = 0, []
    advance = burgers.advance

    def counted(shape, lanes, *arguments, **options):
        began.append(int(lanes.iterations.min()))
        return advance(shape, lanes, *arguments, **options)

    monkeypatch.setattr(burgers, "advance", counted)
    while len(told) < len(configs):
        times += 1
        left = [index for index in range(len(configs)) if index not in told]
        kept = StoredPauses(pauses.store, [pauses.keys[index] for index in left])
        try:
            pinn.train_many(
                [configs[index] for index in left],
                0,
                Short(math.inf),
                lambda index, *rest, left=left: told.update({left[index]: rest}),
                kept,
            )
        except OutOfTimeError:
            assert kept.store.names(".paused")
        assert times < 10
    assert times > 1
    # No training began twice, and in the end no pause is kept.
    assert began == sorted(began)
    assert pauses.store.names(".paused") == []
    for index, (losses, iterations, _) in once.items():
        assert told[index][0] == pytest.approx(losses, rel=1e-6)
        assert told[index][1] == iterations
