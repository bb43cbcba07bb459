from .density_maxima import DeepEnsemble, optimise
from .diagnostics import complaints, ess, rhat
from .hmc import AdaptiveHMC, PaperHMC
from .inference_interface import Inference, Info, Result, Target
from .mclmc import MCLMC, AdjustedMCLMC
from .nuts import NUTS
from .sghmc import SGHMC
from .variational import MeanField

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
