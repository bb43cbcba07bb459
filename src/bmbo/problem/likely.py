"""Say where the good values of a parameter probably are: `prior=bmbo.Likely(1e-3, width=0.1)`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from bmbo.problem.conditions import Choice, same_choice
from bmbo.problem.number_checks import Number, is_real, plain_scalar, short

USUAL_WIDTH = 0.25
WIDEST = 10.0
_EXAMPLE = "{'adam': 5, 'sgd': 2}"

Weights = tuple[tuple[Choice, float], ...]


@dataclass(frozen=True)
class Likely:
    """Hold what a user believes about the best value of a parameter. It may be wrong: data overrule it.

    Args:
        best: the value that is believed to be best; or for a `Categorical` a mapping from choices to weights above 0,
            where a choice that is left out has the weight 1.
        width: how sure that is, for a value: the deviation as a share of the range, in the logarithm if the parameter
            is searched there. 0.1 is quite sure, 0.5 a mere hint. The best of unordered choices gets the weight
            1 / width against 1 for each other.

    Example:
        >>> space = {
        ...     "rate": bmbo.Float(1e-5, 1e-1, log=True, prior=bmbo.Likely(1e-3, width=0.15)),
        ...     "optimiser": bmbo.Categorical(["sgd", "adam", "lion"], prior=bmbo.Likely({"adam": 5, "sgd": 2})),
        ... }
    """

    best: Any
    width: float

    def __init__(self, best: Any, width: Number = USUAL_WIDTH) -> None:
        width = plain_scalar(width)
        if not is_real(width) or not 0.0 < width <= WIDEST:
            raise ValueError(f"Likely: width must be a number above 0 and at most {WIDEST:g}, got {short(width)}")
        # A study keeps weights as a list of pairs, because choices need not be texts.
        pairs = list(cast(Mapping[Any, Any], best).items()) if isinstance(best, Mapping) else best
        given = plain_scalar(pairs) if _is_value(pairs) else _weights(pairs)
        object.__setattr__(self, "best", given)
        object.__setattr__(self, "width", float(width))

    @property
    def weights(self) -> Weights | None:
        """Return the weights of choices; None if a value is believed to be best."""
        return cast(Weights, self.best) if isinstance(self.best, tuple) else None

    def weight_of(self, choice: Choice) -> float:
        """Return the weight of a choice of an unordered parameter."""
        pairs = ((self.best, 1.0 / self.width),) if self.weights is None else self.weights
        return next((weight for known, weight in pairs if same_choice(known, choice)), 1.0)

    def to_json(self) -> dict[str, Any]:
        """Return this as values of JSON, which the constructor takes."""
        best = self.best if self.weights is None else [list(pair) for pair in self.weights]
        return {"best": best, "width": self.width}


def _is_value(given: object) -> bool:
    return given is None or isinstance(plain_scalar(given), str | int | float | bool)


def _weights(pairs: Any) -> Weights:
    """Return weights by choice; raise an error if there are none or if they are no weights."""
    found: list[tuple[Choice, float]] = []
    for pair in pairs if isinstance(pairs, list | tuple) else [pairs]:
        if not isinstance(pair, list | tuple) or len(cast(Any, pair)) != 2 or not _is_value(cast(Any, pair)[0]):
            raise TypeError(f"Likely: give a value, or weights by choice such as {_EXAMPLE}, got {short(pairs)}")
        choice, weight = (plain_scalar(each) for each in cast(Any, pair))
        if not is_real(weight) or not 0.0 < weight < math.inf:
            raise ValueError(f"Likely: the weight of {choice!r} must be a finite number above 0, got {short(weight)}")
        found.append((choice, float(weight)))
    if not found:
        raise ValueError(f"Likely: at least one weight is needed, such as {_EXAMPLE}, got none")
    return tuple(found)


def prior_text(prior: Likely) -> str:
    """Return a belief in words."""
    if prior.weights is None:
        return f"likely {prior.best!r} (width {prior.width:g})"
    return "likely " + ", ".join(f"{choice!r} (weight {weight:g})" for choice, weight in prior.weights)


def checked_prior(kind: str, prior: object) -> Likely | None:
    """Return a belief as it is kept: made anew from values of JSON, or None; raise TypeError for anything else."""
    if prior is None or isinstance(prior, Likely):
        return prior
    # As a study file and the record of a study write it.
    if isinstance(prior, Mapping) and {"best"} <= set(cast(Mapping[str, Any], prior)) <= {"best", "width"}:
        return Likely(**cast(Mapping[str, Any], prior))
    raise TypeError(f"{kind}: prior must be a bmbo.Likely, such as bmbo.Likely(0.1, width=0.2), got {short(prior)}")
