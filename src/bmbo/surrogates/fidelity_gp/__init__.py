"""Learn one exact Gaussian process over points and a real fidelity, with NumPy and SciPy on the host."""

from bmbo.surrogates.fidelity_gp.surrogate import FidelityGP

__all__ = ["FidelityGP"]
