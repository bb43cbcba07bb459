"""Describe what is optimised: parameters and their space, fidelities with costs, and a direction."""

from bmbo.problem.constraints import Constraint, Feasible, as_constraints
from bmbo.problem.fidelities import Cost, Fidelity, FidelityValue, Ladder
from bmbo.problem.fidelity_range import FidelityRange
from bmbo.problem.likely import Likely
from bmbo.problem.number_checks import Number
from bmbo.problem.objectives import Objective, as_objectives
from bmbo.problem.parameters import Categorical, Choice, Float, Int, Parameter
from bmbo.problem.problem import Problem
from bmbo.problem.space import Space

__all__ = [
    "Categorical",
    "Choice",
    "Constraint",
    "Cost",
    "Feasible",
    "Fidelity",
    "FidelityRange",
    "FidelityValue",
    "Float",
    "Int",
    "Ladder",
    "Likely",
    "Number",
    "Objective",
    "Parameter",
    "Problem",
    "Space",
    "as_constraints",
    "as_objectives",
]
