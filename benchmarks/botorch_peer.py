"""Suggest queries with BoTorch as its users do today, on a problem with a few named fidelities.

The steps are those of BoTorch's tutorial "Multi-fidelity BO with discrete fidelities"
(https://botorch.org/docs/tutorials/discrete_multi_fidelity_bo), with max-value entropy instead of the knowledge
gradient of the tutorial. Both weigh information by cost, and max-value entropy is closer to our own acquisition.
Nothing is tuned.
"""

# PyTorch and BoTorch are peers and not part of the development environment. They are imported inside functions, and may
# be missing.
# pyright: reportMissingImports=false
# ruff: noqa: PLC0415

import importlib.util
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUM_RESTARTS = 5
RAW_SAMPLES = 128
OPTIONS: dict[str, bool | float | int | str] = {"batch_limit": 5, "maxiter": 200}
"""The tutorial passes these three to optimize_acqf_mixed."""

NUM_CANDIDATES = 1000
"""Points over which the maximum is sampled, as in the docstring of qMultiFidelityMaxValueEntropy."""


def is_installed() -> bool:
    """Return whether PyTorch and BoTorch can be imported here."""
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "botorch"))


def suggest(
    units: list[NDArray[np.floating]],
    values: list[NDArray[np.floating]],
    costs: Sequence[float],
    num: int,
    seed: int,
    *,
    num_refits: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.int64], float, float]:
    """Return the next `num` points [num, d], their levels [num], and the seconds of fitting and of selecting.

    Observations are given level by level, lowest first. A level may be empty. Larger values are better. Zero refits is
    the stock behaviour. One refit continues after the false convergence that `fit` describes.
    """
    import torch
    from botorch.utils.sampling import manual_seed

    fidelities = rank_fidelities(len(costs))
    inputs = np.concatenate(
        [np.column_stack([points, np.full(len(points), s)]) for points, s in zip(units, fidelities, strict=True)]
    )
    with manual_seed(seed):
        started = time.perf_counter()
        # Double precision, as in the tutorial.
        seen = torch.as_tensor(np.concatenate(values), dtype=torch.double)
        model = fit(torch.as_tensor(inputs, dtype=torch.double), seen, num_refits)
        fitted = time.perf_counter()
        chosen = select(model, fidelities, costs, num)
        selected = time.perf_counter()
    levels = np.abs(chosen[:, -1:] - fidelities).argmin(axis=1)
    return chosen[:, :-1], levels, fitted - started, selected - fitted


def rank_fidelities(num_levels: int) -> NDArray[np.float64]:
    """Return the levels as numbers for BoTorch's fidelity column: evenly spaced by rank, with the target at 1.

    Named levels have no natural numbers. A user without better knowledge would take equal steps.
    """
    return 1.0 - np.arange(num_levels)[::-1] / max(num_levels - 1, 1)


def fit(inputs: Any, values: Any, num_refits: int = 0) -> Any:
    """Return the fitted stock model, with the fidelity in the last column. It standardises all levels together.

    The stock fit can stop early and report success: L-BFGS-B tries a very large step, finds an infinite or huge loss,
    goes back, and takes the lack of change for convergence. A second fit continues from there.
    """
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.gp_regression_fidelity import SingleTaskMultiFidelityGP
    from botorch.models.transforms.outcome import Standardize
    from gpytorch.mlls.exact_marginal_log_likelihood import ExactMarginalLogLikelihood

    model = SingleTaskMultiFidelityGP(
        inputs, values.unsqueeze(-1), outcome_transform=Standardize(m=1), data_fidelities=[inputs.shape[1] - 1]
    )
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    for _ in range(1 + num_refits):
        fit_gpytorch_mll(likelihood)
    return model


def select(model: Any, fidelities: NDArray[np.float64], costs: Sequence[float], num: int) -> NDArray[np.float64]:
    """Return `num` rows, chosen greedily: each is the best over all levels, given fantasies at the rows before it."""
    import torch
    from botorch.acquisition.max_value_entropy_search import qMultiFidelityMaxValueEntropy
    from botorch.acquisition.utils import project_to_target_fidelity
    from botorch.optim.optimize import optimize_acqf_mixed

    width = model.train_inputs[0].shape[-1]
    acquisition = qMultiFidelityMaxValueEntropy(
        model,
        candidate_set=torch.rand(NUM_CANDIDATES, width, dtype=torch.double),
        cost_aware_utility=_utility(fidelities, costs),
        project=lambda rows: project_to_target_fidelity(rows, target_fidelities={width - 1: 1.0}, d=width),
    )
    chosen, _ = optimize_acqf_mixed(
        acquisition,
        bounds=torch.tensor([[0.0] * width, [1.0] * width], dtype=torch.double),
        q=num,
        num_restarts=NUM_RESTARTS,
        raw_samples=RAW_SAMPLES,
        fixed_features_list=[{width - 1: float(s)} for s in fidelities],
        options=OPTIONS,
        # The joint value of the batch would call the acquisition with q > 1, which raises an error.
        return_acq_values=False,
    )
    return chosen.detach().numpy()


def _utility(fidelities: NDArray[np.float64], costs: Sequence[float]) -> Any:
    """Return the utility: information per cost. BoTorch's affine cost model cannot represent costs of 1, 10, 50."""
    import torch
    from botorch.acquisition.cost_aware import InverseCostWeightedUtility
    from botorch.models.deterministic import GenericDeterministicModel

    levels, prices = torch.as_tensor(fidelities), torch.tensor(list(costs), dtype=torch.double)

    def price(rows: Any) -> Any:
        return prices[(rows[..., -1:] - levels).abs().argmin(dim=-1, keepdim=True)]

    return InverseCostWeightedUtility(cost_model=GenericDeterministicModel(price))
