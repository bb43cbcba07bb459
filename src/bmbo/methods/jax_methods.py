"""Put together the methods that compute with JAX, which compiles what they need."""

from dataclasses import replace

from bmbo.acquisition.alternating_search import Alternating
from bmbo.acquisition.chained_max_value_entropy import ChainQuadrature
from bmbo.acquisition.expected_improvement import ImproveAtTop, Improvement
from bmbo.acquisition.look_over_draws import LookOverDraws
from bmbo.acquisition.max_value_entropy import MaxValue
from bmbo.acquisition.one_at_a_time import OneAtATime
from bmbo.acquisition.thompson_sampling import Thompson
from bmbo.acquisition.upper_confidence_bound import UpperConfidence
from bmbo.inference import Inference
from bmbo.inference.by_name import InferenceName, make_inference
from bmbo.methods.remembered import remembered
from bmbo.policies import Bayes, OnDevice, TopOnly, WarmStart
from bmbo.policies.device_and_cache import Device, PlanningOnDevice
from bmbo.policies.first_queries import ClimbingStart, RandomStart
from bmbo.protocols import Select, Surrogate
from bmbo.surrogates.darn import Darn, Preset
from bmbo.surrogates.dnn_mfbo import ChainedDarn
from bmbo.surrogates.gp import AutoRegressiveGP, CoregionalGP, IndependentGPs
from bmbo.surrogates.shared_basis import SharedBasis
from bmbo.surrogates.switch_by_size import BySize
from bmbo.surrogates.weighted_surrogates import Mixture

PAPER_STARTS = 10
"""Random queries at each level in the paper's experiments."""
MOST_FUNCTIONS = 512
"""Functions that are kept from a user's own way of inference: as many as the default one draws."""


@remembered
def bmbo_darn(
    preset: Preset = "default",
    *,
    inference: InferenceName | Inference | None = None,
    num_startup: int | None = None,
    device: Device = "auto",
) -> OnDevice:
    """Return the paper's method.

    Args:
        preset: "paper" has the paper's network, its HMC as printed, its noise-free information from 100 draws, and ten
            random starts at each level; docs/methods.md lists where it departs. "paper_adapted" keeps the network, the
            information and the starts, and draws with chains that tune their step. "default" is what was measured to be
            best; docs/design.md says how it differs.
        inference: how networks are drawn from the posterior, instead of the way of the preset: "hmc", "nuts", "sghmc",
            "mclmc", "adjusted_mclmc", "ensemble", "variational" or "paper_hmc"; or one of the classes of
            `bmbo.inference` with settings of your own.
        num_startup: random queries at each level that come first. Without it, the preset "default" begins with cheap
            points that climb the ladder, as many as the budget allows; the paper's presets begin with 10 at each level.
        device: where to compute.

    Example:
        >>> method = bmbo.bmbo_darn(inference="nuts")
    """
    return _bmbo_darn(preset, inference, num_startup, device, one_at_a_time=False)


@remembered
def bmbo_darn_1(
    preset: Preset = "default",
    *,
    inference: InferenceName | Inference | None = None,
    num_startup: int | None = None,
    device: Device = "auto",
) -> OnDevice:
    """Return the paper's method, one query at a time. For the arguments see `bmbo_darn`."""
    return _bmbo_darn(preset, inference, num_startup, device, one_at_a_time=True)


@remembered
def bmbo_gp(*, num_startup: int | None = None, device: Device = "auto") -> OnDevice:
    """Return the paper's chain with Gaussian processes instead of networks.

    Processes learn more from few observations than networks do, and compile less. Beyond a few hundred observations,
    where processes become slow, networks take over.

    Args:
        num_startup: random queries at each level that come first. Without it, the method begins with cheap points that
            climb the ladder, as many as the budget allows.
        device: where to compute.
    """
    return _ours(BySize(AutoRegressiveGP(), Darn.preset("default")), num_startup, device)


@remembered
def bmbo_mixture(*, num_startup: int | None = None, device: Device = "auto") -> OnDevice:
    """Return `bmbo_gp` with a coregionalised process beside the chain; draws come from both, weighted by held-out data.

    It takes several times as long as `bmbo_gp`, because each fold of the held-out data is fitted as well. For the
    arguments see `bmbo_gp`.
    """
    surrogate = BySize(Mixture((AutoRegressiveGP(), CoregionalGP())), Darn.preset("default"))
    return _ours(surrogate, num_startup, device)


@remembered
def mf_gp_ucb(*, num_startup: int = 10, device: Device = "auto") -> OnDevice:
    """Return MF-GP-UCB (Kandasamy et al. 2016): a Gaussian process for each level, upper confidence bounds.

    It gives one query at a time.
    """
    return _baseline(IndependentGPs(), UpperConfidence(num_startup), num_startup, device)


@remembered
def mf_mes(*, num_startup: int = 10, device: Device = "auto") -> OnDevice:
    """Return MF-MES (Takeno et al. 2020): a coregionalised process, max-value entropy search, one query at a time."""
    return _baseline(CoregionalGP(), OneAtATime(MaxValue()), num_startup, device)


@remembered
def mf_mes_batch(*, num_startup: int = 10, device: Device = "auto") -> OnDevice:
    """Return parallel MF-MES: each place is chosen as if a worker began it while the places before it still run."""
    return _baseline(CoregionalGP(), MaxValue(), num_startup, device)


@remembered
def shtl(*, num_startup: int = 10, device: Device = "auto") -> OnDevice:
    """Return SHTL (Perrone et al. 2018): basis functions that all levels share, expected improvement.

    It gives one query at a time. Given the basis, levels are independent. A lower level then tells the model nothing
    about the top, so that all queries after the random ones are at the top.
    """
    # The paper trains the network anew for each query.
    learner = WarmStart(SharedBasis(), growth=None)
    return OnDevice(Bayes(learner, Improvement(), RandomStart(num_startup)), device)


@remembered
def dnn_mfbo(preset: Preset = "default", *, num_startup: int = 10, device: Device = "auto") -> OnDevice:
    """Return DNN-MFBO (Li et al. 2020): networks each linked to the one below, entropy search by quadrature.

    It gives one query at a time. `preset` is that of the networks and their inference, as for `bmbo_darn`.
    """
    return _baseline(ChainedDarn.preset(preset), ChainQuadrature(), num_startup, device)


@remembered
def sf_batch(*, num_startup: int = 10, device: Device = "auto") -> OnDevice:
    """Return SF-Batch (Kandasamy et al. 2018): a process of the top fidelity alone, parallel Thompson sampling."""
    surrogate = IndependentGPs(num_functions=128)  # a batch needs a few maximisers, not moments of hundreds
    return OnDevice(TopOnly(Bayes(WarmStart(surrogate), Thompson(), RandomStart(num_startup))), device)


def _bmbo_darn(
    preset: Preset,
    inference: InferenceName | Inference | None,
    num_startup: int | None,
    device: Device,
    *,
    one_at_a_time: bool,
) -> OnDevice:
    """Return `bmbo_darn` or `bmbo_darn_1`."""
    surrogate = Darn.preset(preset)
    if inference is not None:
        chosen = make_inference(inference) if isinstance(inference, str) else inference
        surrogate = replace(surrogate, inference=chosen, num_functions=surrogate.num_functions or MOST_FUNCTIONS)
    if preset == "default":
        rule: Select = OneAtATime(LookOverDraws()) if one_at_a_time else LookOverDraws()
        return _ours(surrogate, num_startup, device, rule)
    information = Alternating(observation_noise=False, subtract_chance=False)
    select: Select = OneAtATime(information) if one_at_a_time else information
    # The paper trains from scratch each time. Chains that tune themselves go on from those of an earlier fit.
    learner = WarmStart(surrogate, growth=None) if preset == "paper" else WarmStart(surrogate)
    start = RandomStart(PAPER_STARTS if num_startup is None else num_startup)
    return OnDevice(Bayes(learner, select, start), device)


def _ours(surrogate: Surrogate, num_startup: int | None, device: Device, select: Select | None = None) -> OnDevice:
    """Return our own choices around a surrogate: a start on the ladder, squeezed values, and a rule for batches.

    The rule is improvement at the top where information places a query there, unless another is given. The method is
    told the budget, and buys nothing that no evaluation at the top could follow.
    """
    rule = ImproveAtTop(Alternating()) if select is None else select
    start = ClimbingStart() if num_startup is None else RandomStart(num_startup)
    return PlanningOnDevice(Bayes(WarmStart(surrogate, squeeze=True), rule, start), device)


def _baseline(surrogate: Surrogate, select: Select, num_startup: int, device: Device) -> OnDevice:
    """Return a published method: its surrogate and its way to select, with nothing of ours added."""
    return OnDevice(Bayes(WarmStart(surrogate), select, RandomStart(num_startup)), device)
