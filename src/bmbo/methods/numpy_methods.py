"""Put together the methods that compute with NumPy and SciPy alone: nothing is compiled."""

from bmbo.acquisition.look_or_evaluate import LookOrEvaluate
from bmbo.methods.remembered import remembered
from bmbo.policies import Random, Screening
from bmbo.policies.ladder_start import LadderStart
from bmbo.surrogates.by_number_of_levels import ByNumberOfLevels


@remembered
def screening(*, start_share: float = 0.06, looks: bool = True) -> Screening:
    """Return a method that screens cheaply, with one exact Gaussian process over all levels; nothing is compiled.

    Cheap points that fill the space come first, and the best of them climb the ladder. Then each query is either an
    evaluation at the top, where the expected improvement is largest, or a cheaper look that makes the next evaluation
    worth more than it costs. It runs on the CPU in double precision, and plans with the budget of a run.

    Args:
        start_share: largest part of the budget that the start spends below the top.
        looks: whether levels below the top are asked after the start.

    Example:
        >>> study = bmbo.create_study(..., method=bmbo.screening())
    """
    return Screening(ByNumberOfLevels(), LookOrEvaluate(looks=looks), LadderStart(share=start_share))


@remembered
def random_search() -> Random:
    """Return uniform random search at the top fidelity."""
    return Random()
