"""Define problems with a known optimum: the paper's two, published multi-fidelity ones, and tests of judgement."""

from bmbo.synthetic.paper_functions import branin, levy
from bmbo.synthetic.published_functions import borehole, currin, forrester, hartmann3, hartmann6, park
from bmbo.synthetic.synthetic_function import Formula, Synthetic
from bmbo.synthetic.useless_and_perfect_levels import shifted, useless

__all__ = [
    "Formula",
    "Synthetic",
    "borehole",
    "branin",
    "currin",
    "forrester",
    "hartmann3",
    "hartmann6",
    "levy",
    "park",
    "shifted",
    "useless",
]
