"""A mixture of surrogates: its weights, its draws, and what is held out."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmbo.history import Dataset
from bmbo.protocols import Posterior, Surrogate
from bmbo.surrogates.gp import IndependentGPs
from bmbo.surrogates.weighted_surrogates import Mixture, weigh
from bmbo.testing import check_surrogate


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lines:
    """Functions slope * x_0 + shift, the same at all levels."""

    slope: Any
    shift: Any
    num_levels: int = field(metadata={"static": True})

    def draw(self, unit):
        return self._repeated(self.slope[:, None] * unit[None, :, 0] + self.shift[:, None])

    def draw_each(self, unit):
        return self._repeated(self.slope[:, None] * unit[:, :, 0] + self.shift[:, None])

    def _repeated(self, values):
        return jnp.repeat(values[..., None], self.num_levels, axis=-1)

    @property
    def noise(self):
        return jnp.full(self.num_levels, 0.01)


@dataclass(frozen=True)
class Guess:
    """A surrogate with a fixed opinion; it notes which rows it was fitted to, and gives its name as warm start."""

    name: str
    slope: float
    num: int = 40
    seen: list = field(default_factory=list, compare=False)

    def fit(self, key, data, warm=None):
        self.seen.append((np.asarray(data.mask), warm))
        shift = 0.1 * jax.random.normal(key, (self.num,))
        return Lines(jnp.full(self.num, self.slope), shift, data.num_levels), self.name, f"info of {self.name}"


def dataset(counts, slope=1.0):
    rng = np.random.default_rng(0)
    units = [rng.uniform(size=(count, 2)) for count in counts]
    data = Dataset.of_arrays(units, [slope * unit[:, 0] for unit in units])
    # In their own units, so that a guessed slope can be right.
    return replace(data, value=jnp.where(data.mask, slope * data.unit[:, 0], 0.0))


def right():
    return Guess("right", 1.0)


def wrong():
    return Guess("wrong", -1.0)


@pytest.mark.slow
def test_the_contract_is_kept():
    mixture = Mixture((right(), Guess("other", 0.9, num=48)))
    assert isinstance(mixture, Surrogate)
    posterior, *_ = mixture.fit(jax.random.key(0), dataset((6, 9)))
    assert isinstance(posterior, Posterior)
    check_surrogate(mixture, dataset((6, 9)))


@pytest.mark.slow
def test_real_surrogates_can_be_mixed():
    small = {"num_functions": 16, "num_hyper": 2, "num_features": 64}
    mixture = Mixture((IndependentGPs(("rbf",), **small), IndependentGPs(("matern52",), **small)), num_folds=2)
    posterior, _, info = mixture.fit(jax.random.key(0), dataset((9,)))
    assert posterior.draw(jnp.ones((3, 2))).shape == (16, 3, 1)
    assert sum(info.weights) == pytest.approx(1.0)
    assert np.all(np.isfinite(info.log_density))


def test_who_predicts_better_has_nearly_all_functions():
    posterior, _, info = Mixture((wrong(), right())).fit(jax.random.key(0), dataset((6, 12)))
    assert info.weights[1] > 0.99
    assert info.log_density[1] > info.log_density[0]
    slopes = posterior.draw(jnp.array([[1.0, 0.0], [0.0, 0.0]]))
    slopes = np.asarray(slopes[:, 0, 0] - slopes[:, 1, 0])
    # One in fifty is kept of whoever has no weight.
    assert np.mean(slopes > 0) >= 0.97
    np.testing.assert_array_equal(posterior.counts, [np.sum(slopes < 0), np.sum(slopes > 0)])


def test_who_predict_alike_share_the_functions():
    _, _, info = Mixture((right(), right())).fit(jax.random.key(0), dataset((6, 12)))
    assert info.weights[0] == pytest.approx(0.5, abs=0.2)
    assert sum(info.weights) == pytest.approx(1.0)


@pytest.mark.parametrize("counts", [(6, 0), (6, 1), (6, 3), (0, 0)])
def test_with_too_little_to_hold_out_weights_are_equal(counts):
    posterior, _, info = Mixture((wrong(), right())).fit(jax.random.key(0), dataset(counts))
    assert info.weights == (0.5, 0.5)
    assert np.all(np.isnan(info.log_density))
    np.testing.assert_array_equal(posterior.counts, [20, 20])


def test_every_top_level_value_is_held_out_once_and_lower_ones_never():
    data, member = dataset((6, 10)), right()
    Mixture((member, wrong()), num_folds=4).fit(jax.random.key(0), data)
    whole, *folds = [mask for mask, _ in member.seen]
    np.testing.assert_array_equal(whole, data.mask)
    missing = np.sum([(np.asarray(data.mask) & ~fold).astype(int) for fold in folds], axis=0)
    expected = np.zeros(len(missing), int)
    expected[data.rows(1)][:10] = 1
    np.testing.assert_array_equal(missing, expected)


def test_growing_data_keep_their_folds_and_every_fit_its_own_warm_start():
    member = right()
    mixture = Mixture((member, wrong()), num_folds=2)
    _, warm, _ = mixture.fit(jax.random.key(0), dataset((6, 8)))
    first = [mask for mask, _ in member.seen]
    member.seen.clear()
    mixture.fit(jax.random.key(0), dataset((6, 11)), warm)
    assert [start for _, start in member.seen] == ["right"] * 3
    for before, (after, _) in zip(first, member.seen, strict=True):
        np.testing.assert_array_equal(before[:8], after[:8])


def test_each_function_at_its_own_points_is_the_chosen_member_there():
    mixture = Mixture((wrong(), Guess("flat", 0.3, num=64), right()))
    posterior, *_ = mixture.fit(jax.random.key(0), dataset((2, 2)))
    own = jax.random.uniform(jax.random.key(1), (40, 3, 2))
    each = posterior.draw_each(own)
    for place in (0, 17, 39):
        np.testing.assert_allclose(each[place], posterior.draw(own[place])[place], rtol=1e-6)
    assert len(np.unique(posterior.chosen)) == 40


def test_a_mixture_has_as_many_functions_as_its_smallest_member():
    posterior, *_ = Mixture((Guess("few", 1.0, num=7), Guess("many", 1.0, num=64))).fit(
        jax.random.key(0), dataset((3, 3))
    )
    assert posterior.draw(jnp.zeros((1, 2))).shape == (7, 1, 2)


def test_a_mixture_of_one_is_that_one_and_holds_nothing_out():
    member = right()
    posterior, _, info = Mixture((member,)).fit(jax.random.key(0), dataset((6, 12)))
    assert info.weights == (1.0,)
    assert len(member.seen) == 1
    np.testing.assert_array_equal(posterior.chosen, np.arange(40))


def test_the_noise_is_that_of_the_functions():
    posterior, *_ = Mixture((right(), wrong())).fit(jax.random.key(0), dataset((3, 3)))
    np.testing.assert_allclose(posterior.noise, [0.01, 0.01], rtol=1e-6)


def test_weights_follow_the_sum_of_log_densities():
    rng = np.random.default_rng(0)
    density = np.stack([np.full(200, -1.0), np.full(200, -1.1), np.full(200, -9.0)])
    weights = weigh(rng, density)
    # Constant differences leave nothing to the bootstrap: a plain softmax of 200 times as much.
    np.testing.assert_allclose(weights, [1.0, np.exp(-20.0), 0.0], atol=1e-6)


def test_a_few_noisy_densities_decide_nothing():
    density = np.array([[-1.0, -3.0, -0.5, -2.0], [-2.0, -1.0, -1.5, -1.8]])
    weights = weigh(np.random.default_rng(0), density)
    assert np.all(weights > 0.25)


def test_one_value_far_out_does_not_outvote_the_others():
    density = np.zeros((2, 100))
    density[0, 0] = -1e9
    density[1] = -1.0
    assert weigh(np.random.default_rng(0), density)[0] > 0.99


def test_densities_that_are_no_numbers_count_as_the_worst():
    density = np.zeros((2, 10))
    density[0] = np.nan
    assert weigh(np.random.default_rng(0), density)[1] > 0.99


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named():
    with pytest.raises(ValueError, match="a mixture needs at least one member, got none"):
        Mixture(())
    with pytest.raises(ValueError, match="num_folds must be a whole number of at least 2, got 1"):
        Mixture((right(),), num_folds=1)
