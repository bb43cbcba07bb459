"""Join what a user believes about each parameter to a density over the cube, and draw points from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmbo.problem.condition_tree import ConditionTree
from bmbo.problem.likely import Likely
from bmbo.problem.parameters import Categorical, Parameter

Floats = NDArray[np.float64]

LEAST = 0.01
"""Least density of a parameter's value, where the best has one: a belief makes nothing impossible."""


@dataclass(frozen=True)
class LikelyPoints:
    """Hold what is believed of the parameters of a space.

    Attributes:
        priors: of each parameter; None where nothing is believed.
        params: the parameters.
        blocks: their coordinates in the cube.
        tree: which parameters exist.
    """

    priors: tuple[Likely | None, ...]
    params: tuple[Parameter, ...]
    blocks: tuple[slice, ...]
    tree: ConditionTree | None

    @classmethod
    def of(
        cls, params: Sequence[tuple[str, Parameter]], blocks: tuple[slice, ...], tree: ConditionTree | None
    ) -> "LikelyPoints | None":
        """Return what is believed of parameters, None if nothing; raise ValueError if it does not fit them."""
        # A kind of a user's own may know no beliefs.
        priors: list[Likely | None] = [getattr(param, "prior", None) for _, param in params]
        for (name, param), prior in zip(params, priors, strict=True):
            if prior is not None:
                _check(name, param, prior)
        if all(prior is None for prior in priors):
            return None
        return cls(tuple(priors), tuple(param for _, param in params), blocks, tree)

    def log_density(self, unit: Floats) -> Floats:
        """Return the logarithm of the density at snapped points [n d], up to a constant: 0 where all is best [n].

        What does not exist counts as best.
        """
        total = np.zeros(len(unit))
        active = [None] * len(self.params) if self.tree is None else self.tree.active(unit)
        for prior, param, block, exists in zip(self.priors, self.params, self.blocks, active, strict=True):
            if prior is not None:
                here = np.log(LEAST + (1.0 - LEAST) * _relative(prior, param, unit[:, block]))
                total += here if exists is None else np.where(exists, here, 0.0)
        return total

    def drawn(self, rng: np.random.Generator, num: int) -> Floats:
        """Return points that are drawn from the belief, not snapped [num d]; the first is where it is highest."""
        # Imported here: spaces without beliefs do not need it.
        from scipy.special import ndtr, ndtri  # noqa: PLC0415

        points = rng.random((num, self.blocks[-1].stop))
        for prior, param, block in zip(self.priors, self.params, self.blocks, strict=True):
            if prior is None:
                continue
            weights = _weights(prior, param)
            if weights is not None:
                order = rng.choice(len(weights), size=num, p=weights / weights.sum())
                order[0] = weights.argmax()
                points[:, block] = _coordinates(param)[order]
            else:
                centre = param.encode(prior.best)[0]
                low, high = ndtr(-centre / prior.width), ndtr((1.0 - centre) / prior.width)
                shares: Any = low + (high - low) * points[:, block]
                points[:, block] = np.clip(centre + prior.width * ndtri(shares), 0.0, 1.0)
                points[0, block] = centre
        return points


def _check(name: str, param: Parameter, prior: Likely) -> None:
    """Raise ValueError if a belief is about values that a parameter cannot take."""
    try:
        if prior.weights is None:
            param.encode(prior.best)
            return
        if not isinstance(param, Categorical):
            raise ValueError(f"weights are for the choices of a Categorical, got {dict(prior.weights)}")
        for choice, _ in prior.weights:
            param.encode(choice)
    except (TypeError, ValueError) as error:
        raise type(error)(f"parameter {name!r}: its prior does not fit: {error}") from None


def _weights(prior: Likely, param: Parameter) -> Floats | None:
    """Return the weight of each choice; None for a parameter with a deviation about its best value."""
    if isinstance(param, Categorical) and (prior.weights is not None or param.dim > 1 or len(param.choices) <= 2):
        return np.array([prior.weight_of(choice) for choice in param.choices])
    return None


def _coordinates(param: Parameter) -> Floats:
    """Return the coordinates of each choice; nothing for a number."""
    choices = param.choices if isinstance(param, Categorical) else ()
    return np.array([param.encode(choice) for choice in choices])


def _relative(prior: Likely, param: Parameter, unit: Floats) -> Floats:
    """Return the density at coordinates of a parameter [n b], divided by the largest one."""
    weights = _weights(prior, param)
    if weights is None:
        return np.exp(-0.5 * ((unit[:, 0] - param.encode(prior.best)[0]) / prior.width) ** 2)
    apart = np.abs(unit[:, None] - _coordinates(param)[None]).max(-1)
    return weights[apart.argmin(1)] / weights.max()
