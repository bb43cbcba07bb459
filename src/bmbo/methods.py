"""Named recipes: a method is a policy put together from a surrogate and a way to select."""

from dataclasses import replace

from bmbo.acquisition.alternating_search import Alternating
from bmbo.acquisition.candidate_search import OneAtATime
from bmbo.acquisition.chain_quadrature import ChainQuadrature
from bmbo.acquisition.expected_improvement import Improvement
from bmbo.acquisition.max_value_entropy import MaxValue
from bmbo.acquisition.thompson_sampling import Thompson
from bmbo.acquisition.upper_confidence_bound import UpperConfidence
from bmbo.policies import Adaptive, Bayes, Random, TopOnly
from bmbo.policies.device import Device
from bmbo.surrogates.chained_darn import ChainedDarn
from bmbo.surrogates.darn import Darn, Preset
from bmbo.surrogates.gp import AutoRegressiveGP, CoregionalGP, IndependentGPs
from bmbo.surrogates.mixture import Mixture
from bmbo.surrogates.shared_basis import SharedBasis
from bmbo.surrogates.switch_by_size import BySize


def bmbo_darn(preset: Preset = "default", *, num_startup: int | None = None, device: Device = "auto") -> Bayes:
    """The paper's method.

    `preset="paper"` is the paper to the letter: its network, its HMC, its noise-free information from 100 draws, ten
    random starts a level. `preset="default"` is what was measured to be best; docs/design.md says how they differ.
    """
    surrogate = Darn.preset(preset)
    if preset == "paper":
        select = Alternating(observation_noise=False, subtract_chance=False)
        return Bayes(surrogate, select, num_startup=num_startup or 10, improve=0.0, anchor_growth=None, device=device)
    return Bayes(surrogate, Alternating(), num_startup=num_startup or 5, squeeze=True, device=device)


def bmbo_gp(*, num_startup: int = 5, device: Device = "auto") -> Bayes:
    """What a study uses unless told otherwise: the paper's chain with a Gaussian process in place of each network.

    It learns more from few observations than networks do, and compiles less. Beyond a few hundred observations, where
    processes become slow, networks take over.
    """
    surrogate = BySize(AutoRegressiveGP(), Darn.preset("default"))
    return Bayes(surrogate, Alternating(), num_startup=num_startup, squeeze=True, device=device)


def bmbo_mixture(*, num_startup: int = 5, device: Device = "auto") -> Bayes:
    """As `bmbo_gp`, with a coregionalised process beside the chain, each drawn from as held-out data deserve.

    Several times as slow to fit, for each fold of the held-out data is fitted as well.
    """
    surrogate = BySize(Mixture((AutoRegressiveGP(), CoregionalGP())), Darn.preset("default"))
    return Bayes(surrogate, Alternating(), num_startup=num_startup, squeeze=True, device=device)


def random_search() -> Random:
    """Uniform random search at the top fidelity."""
    return Random()


def bmbo_darn_1(preset: Preset = "default", *, num_startup: int | None = None, device: Device = "auto") -> Bayes:
    """The paper's method, one query at a time."""
    policy = bmbo_darn(preset, num_startup=num_startup, device=device)
    return replace(policy, select=OneAtATime(policy.select))


def mf_gp_ucb(*, num_startup: int = 10, device: Device = "auto") -> Bayes:
    """MF-GP-UCB (Kandasamy et al. 2016): a Gaussian process a level, upper confidence bounds, one query at a time."""
    select = UpperConfidence(num_startup)
    return Adaptive(IndependentGPs(), select, num_startup, improve=0.0, device=device)


def mf_mes(*, num_startup: int = 10, device: Device = "auto") -> Bayes:
    """MF-MES (Takeno et al. 2020): a coregionalised process, max-value entropy search, one query at a time."""
    return Bayes(CoregionalGP(), OneAtATime(MaxValue()), num_startup, improve=0.0, device=device)


def mf_mes_batch(*, num_startup: int = 10, device: Device = "auto") -> Bayes:
    """Parallel MF-MES: every place is chosen as if a worker began it while the places before it are still running."""
    return Bayes(CoregionalGP(), MaxValue(), num_startup, improve=0.0, device=device)


def shtl(*, num_startup: int = 10, device: Device = "auto") -> Bayes:
    """SHTL (Perrone et al. 2018): basis functions that all levels share, expected improvement, one query at a time.

    Given the basis, levels are independent: a lower one tells the model nothing of the top, so that all queries after
    the random ones are at the top.
    """
    return Adaptive(SharedBasis(), Improvement(), num_startup, improve=0.0, device=device)


def dnn_mfbo(preset: Preset = "default", *, num_startup: int = 10, device: Device = "auto") -> Bayes:
    """DNN-MFBO (Li et al. 2020): networks each linked to the one below, entropy search by quadrature along the chain.

    One query at a time. `preset` is that of the networks and their inference, as for `bmbo_darn`.
    """
    return Bayes(ChainedDarn.preset(preset), ChainQuadrature(), num_startup, improve=0.0, device=device)


def sf_batch(*, num_startup: int = 10, device: Device = "auto") -> Bayes:
    """SF-Batch (Kandasamy et al. 2018): a Gaussian process of the top fidelity alone, parallel Thompson sampling."""
    surrogate = IndependentGPs(num_functions=128)  # a batch needs a few maximisers, not moments of hundreds
    return TopOnly(surrogate, Thompson(), num_startup, improve=0.0, device=device)
