"""Spaces as other libraries write them, and our space as Optuna's storages record it."""

import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, cast

from bmbo.problem.parameters import Categorical, Float, Int, Parameter
from bmbo.problem.space import Space

ACCEPTED = "a bmbo.Space, a mapping from names to bmbo or Optuna distributions, or a ConfigSpace ConfigurationSpace"

LARGEST_INT = 2**53
"""Optuna's storages keep parameters as float64, which holds every integer up to here."""

FINEST_STEP = 1e7
"""Optuna compares values with its grid to 1e-8 of a step: float64 guarantees that up to about so many steps from 0."""


def as_space(space: object) -> Space:
    """The space that a user gave, in whichever way."""
    if isinstance(space, Space):
        return space
    config_space = sys.modules.get("ConfigSpace")
    if config_space is not None and isinstance(space, config_space.ConfigurationSpace):
        _refuse_conditions(space)
    if not isinstance(space, Mapping):
        raise TypeError(f"the space must be {ACCEPTED}, got {space!r}")
    named = cast(Mapping[str, object], space)
    return Space({name: _as_parameter(name, given) for name, given in named.items()})


def to_optuna(space: Space) -> dict[str, Any]:
    """Distributions of Optuna under which every configuration of the space is stored exactly."""
    from optuna import distributions  # noqa: PLC0415 - only a study that is stored needs Optuna

    def distribution(name: str, param: Parameter) -> Any:
        if isinstance(param, Categorical):
            _refuse_look_alikes(name, param)
            return distributions.CategoricalDistribution(param.choices)
        # The last value of the grid rather than the bound: Optuna warns of a bound that it has to move.
        last: Any = param.decode((1.0,))
        if isinstance(param, Int):
            if max(abs(param.low), abs(last)) > LARGEST_INT:
                raise ValueError(f"parameter {name!r}: a study stores integers up to 2**53, got {param}")
            return distributions.IntDistribution(param.low, last, log=param.log, step=param.step)
        step = param.step if _optuna_sees_grid(param, last) else None
        return distributions.FloatDistribution(param.low, last, log=param.log, step=step)

    return {name: distribution(name, param) for name, param in space.params}


def _optuna_sees_grid(param: Float, last: float) -> bool:
    """Whether Optuna, by its own arithmetic, finds every value of the grid on it."""
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
    # Who gives an object of another library has imported it: nobody pays for what is not used.
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
    """The parameter of an Optuna distribution, also of the older kinds, which inherit from today's."""
    if isinstance(given, distributions.CategoricalDistribution):
        return Categorical(given.choices)
    if isinstance(given, distributions.IntDistribution):
        # Its step may be wider than what is left of its range.
        if given.single():
            return Int(given.low, given.low)
        return Int(given.low, given.high, log=given.log, step=given.step)
    if isinstance(given, distributions.FloatDistribution):
        # Optuna has ranges of one value, our Float has not.
        if given.single():
            return Categorical([given.low])
        return Float(given.low, given.high, log=given.log, step=given.step)
    return None


def _from_config_space(config_space: Any, given: Any) -> Parameter | None:
    """The parameter of a ConfigSpace hyperparameter; those with a prior are refused."""
    kinds = config_space.hyperparameters
    if isinstance(given, kinds.UniformFloatHyperparameter):
        return Float(given.lower, given.upper, log=given.log)
    if isinstance(given, kinds.UniformIntegerHyperparameter):
        return Int(given.lower, given.upper, log=given.log)
    if isinstance(given, kinds.OrdinalHyperparameter):
        return Categorical(given.sequence, ordered=True)
    if isinstance(given, kinds.Constant):
        return Categorical([given.value])
    if isinstance(given, kinds.CategoricalHyperparameter):
        if len(set(given.probabilities.tolist())) > 1:
            raise ValueError(f"weights of choices are not supported, got {given.weights}; leave them out")
        return Categorical(given.choices)
    if isinstance(given, kinds.Hyperparameter):
        kind = type(given).__name__
        raise TypeError(f"a {kind} is not supported, for it has a prior; use a uniform one with bounds")
    return None


_CONVERTERS: dict[str, Callable[[Any, Any], Parameter | None]] = {
    "optuna.distributions": _from_optuna,
    "ConfigSpace": _from_config_space,
}


def _refuse_conditions(space: Any) -> None:
    for kind, found in (("conditions", space.conditions), ("forbidden clauses", space.forbidden_clauses)):
        if found:
            named = "; ".join(str(one) for one in found)
            raise ValueError(
                f"the space has {kind}, which are not supported: {named}; leave them out, and let the objective "
                "ignore what does not apply or raise for what is forbidden"
            )
