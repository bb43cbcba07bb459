"""Learn with Gaussian processes: one per level, coregionalised, or chained as the paper chains its networks."""

from bmbo.surrogates.gp.autoregressive import AutoRegressiveGP
from bmbo.surrogates.gp.coregional import CoregionalGP
from bmbo.surrogates.gp.independent import IndependentGPs

__all__ = ["AutoRegressiveGP", "CoregionalGP", "IndependentGPs"]
