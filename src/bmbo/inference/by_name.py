"""Find a way of inference by its name, so that a user can choose one without importing it."""

from collections.abc import Callable
from typing import Literal, get_args

from bmbo.inference.density_maxima import DeepEnsemble
from bmbo.inference.hmc import AdaptiveHMC, PaperHMC
from bmbo.inference.inference_interface import Inference
from bmbo.inference.mclmc import MCLMC, AdjustedMCLMC
from bmbo.inference.nuts import NUTS
from bmbo.inference.sghmc import SGHMC
from bmbo.inference.variational import MeanField

InferenceName = Literal["adjusted_mclmc", "ensemble", "hmc", "mclmc", "nuts", "paper_hmc", "sghmc", "variational"]

_MAKERS: dict[InferenceName, Callable[[], Inference]] = {
    "adjusted_mclmc": AdjustedMCLMC,
    "ensemble": DeepEnsemble,
    "hmc": AdaptiveHMC,
    "mclmc": MCLMC,
    "nuts": NUTS,
    "paper_hmc": PaperHMC,
    "sghmc": SGHMC,
    "variational": MeanField,
}


def make_inference(name: InferenceName) -> Inference:
    """Return a way of inference with its default settings; raise ValueError for an unknown name.

    Example:
        >>> sampler = make_inference("nuts")
    """
    if name not in _MAKERS:
        raise ValueError(f"inference must be one of {list(get_args(InferenceName))}, got {name!r}")
    return _MAKERS[name]()
