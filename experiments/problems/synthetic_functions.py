"""Make problems from the synthetic functions of `bmbo.synthetic`."""

from collections.abc import Callable
from functools import partial

from bmbo import synthetic
from experiments.problems.benchmark import Benchmark

SOURCES: dict[str, str] = {
    "branin": "the paper's appendix, three levels, shifted and misleading",
    "levy": "the paper's appendix, two levels",
    "forrester": "Forrester et al. 2007, one dimension",
    "currin": "Xiong et al. 2013, two dimensions",
    "park": "Xiong et al. 2013, four dimensions",
    "borehole": "Xiong et al. 2013, eight dimensions",
    "hartmann3": "Kandasamy et al. 2016, three levels",
    "hartmann6": "Kandasamy et al. 2016, four levels",
    "useless": "Hartmann 3 with a cheap level that tells nothing",
    "shifted": "Hartmann 3 with a cheap level that is exact up to a constant",
}


def _make(name: str) -> Benchmark:
    made = getattr(synthetic, name)()
    return Benchmark(name, made.problem, made, made.optimum, SOURCES[name])


PROBLEMS: dict[str, Callable[[], Benchmark]] = {name: partial(_make, name) for name in SOURCES}
