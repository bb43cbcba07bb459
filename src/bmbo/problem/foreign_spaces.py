"""Convert spaces of Optuna and ConfigSpace to ours, and ours to the distributions that Optuna's storages record."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

from bmbo.problem.foreign_conditions import config_space_conditions
from bmbo.problem.likely import WIDEST, Likely
from bmbo.problem.parameters import Categorical, Float, Int, Parameter
from bmbo.problem.space import Space

ACCEPTED = "a bmbo.Space, a mapping from names to bmbo or Optuna distributions, or a ConfigSpace ConfigurationSpace"

LARGEST_INT = 2**53
"""Optuna's storages keep parameters as float64, which holds every integer up to this one."""

FINEST_STEP = 1e7
"""Optuna compares a value with its grid to 1e-8 of a step. Float64 is that exact up to about this many steps from 0."""


def as_space(space: object) -> Space:
    """Return the space that a user gave; raise TypeError if it is of no kind that we know.

    Accepts a `bmbo.Space`, a mapping from names to bmbo or Optuna distributions, and a ConfigSpace space.
    """
    if isinstance(space, Space):
        return space
    config_space, conditions = sys.modules.get("ConfigSpace"), {}
    if config_space is not None and isinstance(space, config_space.ConfigurationSpace):
        conditions = config_space_conditions(space)
    if not isinstance(space, Mapping):
        raise TypeError(f"the space must be {ACCEPTED}, got {space!r}")
    named = cast(Mapping[str, object], space)
    params = {name: _as_parameter(name, given) for name, given in named.items()}
    return Space(
        {name: replace(each, when=conditions[name]) if name in conditions else each for name, each in params.items()}
    )


def to_optuna(space: Space) -> dict[str, Any]:
    """Return Optuna distributions under which every configuration of the space is stored exactly."""
    from optuna import distributions  # noqa: PLC0415 - only a study that is stored needs Optuna

    def distribution(name: str, param: Parameter) -> Any:
        if isinstance(param, Categorical):
            _refuse_look_alikes(name, param)
            return distributions.CategoricalDistribution(param.choices)
        # The last value of the grid and not the bound: Optuna warns about a bound that it has to move.
        last: Any = param.decode((1.0,))
        if isinstance(param, Int):
            if max(abs(param.low), abs(last)) > LARGEST_INT:
                raise ValueError(f"parameter {name!r}: a study stores integers up to 2**53, got {param}")
            return distributions.IntDistribution(param.low, last, log=param.log, step=param.step)
        step = param.step if _optuna_sees_grid(param, last) else None
        return distributions.FloatDistribution(param.low, last, log=param.log, step=step)

    return {name: distribution(name, param) for name, param in space.params}


def _optuna_sees_grid(param: Float, last: float) -> bool:
    """Return whether Optuna finds every value of the grid on its own grid, by its own arithmetic."""
    if param.step is None or max(abs(param.low), abs(last)) > FINEST_STEP * param.step:
        return False
    low, high, step = (Decimal(str(number)) for number in (param.low, last, param.step))
    return (high - low) % step == 0


def _refuse_look_alikes(name: str, param: Categorical) -> None:
    numbers = [choice for choice in param.choices if isinstance(choice, int | float)]
    if len(set(numbers)) < len(numbers):
        raise ValueError(
            f"parameter {name!r}: a study cannot store choices that are equal in Python, such as True and 1, "
            f"got {list(param.choices)}; write them as strings"
        )


def _as_parameter(name: str, given: object) -> Parameter:
    if isinstance(given, Parameter):
        return given
    # A user who gives an object of another library has imported that library. We never import it ourselves.
    for library, convert in _CONVERTERS.items():
        module = sys.modules.get(library)
        if module is None:
            continue
        try:
            param = convert(module, given)
        except (TypeError, ValueError) as error:
            raise type(error)(f"parameter {name!r}: {error}") from None
        if param is not None:
            return param
    raise TypeError(
        f"parameter {name!r} must be a bmbo Float, Int or Categorical, or the like of Optuna or ConfigSpace, "
        f"got {given!r} of type {type(given).__name__}"
    )


def _from_optuna(distributions: Any, given: Any) -> Parameter | None:
    """Return the parameter of an Optuna distribution, also of the older kinds, which inherit from the present ones."""
    if isinstance(given, distributions.CategoricalDistribution):
        return Categorical(given.choices)
    if isinstance(given, distributions.IntDistribution):
        # The step may be wider than the range.
        if given.single():
            return Int(given.low, given.low)
        return Int(given.low, given.high, log=given.log, step=given.step)
    if isinstance(given, distributions.FloatDistribution):
        # Optuna allows a range of a single value. Our Float does not.
        if given.single():
            return Categorical([given.low])
        return Float(given.low, given.high, log=given.log, step=given.step)
    return None


def _from_config_space(config_space: Any, given: Any) -> Parameter | None:
    """Return the parameter of a ConfigSpace hyperparameter; raise TypeError for one with a prior that we have not."""
    kinds = config_space.hyperparameters
    if isinstance(given, kinds.UniformFloatHyperparameter | kinds.UniformIntegerHyperparameter):
        make = Float if isinstance(given, kinds.UniformFloatHyperparameter) else Int
        return make(given.lower, given.upper, log=given.log)
    if isinstance(given, kinds.NormalFloatHyperparameter | kinds.NormalIntegerHyperparameter) and not given.log:
        make = Float if isinstance(given, kinds.NormalFloatHyperparameter) else Int
        return make(given.lower, given.upper, prior=_normal(given))
    if isinstance(given, kinds.OrdinalHyperparameter):
        return Categorical(given.sequence, ordered=True)
    if isinstance(given, kinds.Constant):
        return Categorical([given.value])
    if isinstance(given, kinds.CategoricalHyperparameter):
        weights = given.probabilities.tolist()
        if min(weights) <= 0.0:
            raise ValueError(f"a choice with the weight 0 is not supported, got {given.weights}; leave the choice out")
        believed = Likely(list(zip(given.choices, weights, strict=True))) if len(set(weights)) > 1 else None
        return Categorical(given.choices, prior=believed)
    if isinstance(given, kinds.Hyperparameter):
        kind = type(given).__name__
        raise TypeError(f"a {kind} is not supported; use a uniform one with bounds, or a normal one without log")
    return None


def _normal(given: Any) -> Likely:
    best, span = min(max(given.mu, given.lower), given.upper), float(given.upper - given.lower)
    return Likely(round(best) if isinstance(given.lower, int) else float(best), width=min(given.sigma / span, WIDEST))


_CONVERTERS: dict[str, Callable[[Any, Any], Parameter | None]] = {
    "optuna.distributions": _from_optuna,
    "ConfigSpace": _from_config_space,
}
