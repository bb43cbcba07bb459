"""Learn one exact Gaussian process over points and levels, with NumPy and SciPy on the host."""

from bmbo.surrogates.exact_gp.surrogate import JointGP

__all__ = ["JointGP"]
