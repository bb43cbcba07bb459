from .jax_methods import (
    bmbo_darn,
    bmbo_darn_1,
    bmbo_gp,
    bmbo_mixture,
    dnn_mfbo,
    mf_gp_ucb,
    mf_mes,
    mf_mes_batch,
    sf_batch,
    shtl,
)
from .numpy_methods import random_search, screening

__all__ = [
    "bmbo_darn",
    "bmbo_darn_1",
    "bmbo_gp",
    "bmbo_mixture",
    "dnn_mfbo",
    "mf_gp_ucb",
    "mf_mes",
    "mf_mes_batch",
    "random_search",
    "screening",
    "sf_batch",
    "shtl",
]
