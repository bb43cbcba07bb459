"""Learn with one independent Gaussian process per level: the surrogate of MF-GP-UCB (Kandasamy et al. 2016)."""

from dataclasses import dataclass

from jaxtyping import PRNGKeyArray

from bmbo.history import Dataset
from bmbo.surrogates.gp.autoregressive import AutoRegressiveGP, ChainInfo, Warm
from bmbo.surrogates.gp.chained_draws import ChainPosterior
from bmbo.surrogates.gp.kernels import Kernel


@dataclass(frozen=True)
class IndependentGPs:
    """Learn with a chain without links; with one level, this is a plain Gaussian process.

    The arguments are those of `AutoRegressiveGP`.
    """

    kernels: tuple[Kernel, ...] = ("rbf", "matern52")
    num_functions: int = 256
    num_hyper: int = 16
    num_features: int = 512

    def __post_init__(self) -> None:
        self._chain()

    def fit(self, key: PRNGKeyArray, data: Dataset, warm: Warm | None = None) -> tuple[ChainPosterior, Warm, ChainInfo]:
        """See `Surrogate`."""
        return self._chain().fit(key, data, warm)

    def _chain(self) -> AutoRegressiveGP:
        return AutoRegressiveGP(
            kernels=self.kernels,
            links="none",
            num_functions=self.num_functions,
            num_hyper=self.num_hyper,
            num_features=self.num_features,
        )
