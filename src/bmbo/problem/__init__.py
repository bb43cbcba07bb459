"""Describe what is optimised: parameters and their space, fidelities with costs, and a direction."""

from bmbo.problem.fidelities import Cost, Fidelity, FidelityValue, Ladder
from bmbo.problem.number_checks import Number
from bmbo.problem.parameters import Categorical, Choice, Float, Int, Parameter
from bmbo.problem.problem import Problem
from bmbo.problem.space import Space

__all__ = [
    "Categorical",
    "Choice",
    "Cost",
    "Fidelity",
    "FidelityValue",
    "Float",
    "Int",
    "Ladder",
    "Number",
    "Parameter",
    "Problem",
    "Space",
]
