"""Draw parameters of a network from their posterior, by several methods behind one interface."""

from bmbo.inference.density_maxima import DeepEnsemble, optimise
from bmbo.inference.diagnostics import complaints, ess, rhat
from bmbo.inference.hmc import AdaptiveHMC, PaperHMC
from bmbo.inference.inference_interface import Inference, Info, Result, Target
from bmbo.inference.mclmc import MCLMC, AdjustedMCLMC
from bmbo.inference.nuts import NUTS
from bmbo.inference.sghmc import SGHMC
from bmbo.inference.variational import MeanField

__all__ = [
    "MCLMC",
    "NUTS",
    "SGHMC",
    "AdaptiveHMC",
    "AdjustedMCLMC",
    "DeepEnsemble",
    "Inference",
    "Info",
    "MeanField",
    "PaperHMC",
    "Result",
    "Target",
    "complaints",
    "ess",
    "optimise",
    "rhat",
]
