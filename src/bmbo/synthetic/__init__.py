"""Problems that know their optimum: the paper's two, published ones of several fidelities, and tests of judgement."""

from bmbo.synthetic.function import Formula, Synthetic
from bmbo.synthetic.judgement import shifted, useless
from bmbo.synthetic.paper import branin, levy
from bmbo.synthetic.published import borehole, currin, forrester, hartmann3, hartmann6, park

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
