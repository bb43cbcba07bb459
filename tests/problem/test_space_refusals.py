"""What is no parameter, space, configuration or point is refused in one sentence."""

import math

import numpy as np
import pytest

from bmbo.problem import Categorical, Float, Int, Space

BAD_PARAMETERS = [
    (lambda: Float(3, 1), ValueError, "Float: low must be below high, got low=3, high=1"),
    (lambda: Float(2, 2), ValueError, "Float: low must be below high, got low=2, high=2"),
    (lambda: Float(math.nan, 1), ValueError, "Float: low must be finite, got nan"),
    (lambda: Float(0, math.inf), ValueError, "Float: high must be finite, got inf"),
    (lambda: Float(0, 10**400), ValueError, "Float: high must be finite, got 1000"),
    (
        lambda: Float(-1e308, 1e308),
        ValueError,
        "Float: the range is too wide for float64, got low=-1e+308, high=1e+308",
    ),
    (lambda: Float(1e-300, 1e300, log=True), ValueError, "Float: the range is too wide for float64, got low=1e-300"),
    (
        lambda: Float("0", 1),  # pyright: ignore[reportArgumentType]
        TypeError,
        "Float: low must be a number, got '0'",
    ),
    (lambda: Float(False, 1), TypeError, "Float: low must be a number, got False"),
    (lambda: Float(0, 1, log=True), ValueError, "Float: with log=True low must be above 0, got low=0"),
    (
        lambda: Float(1, 2, log=True, step=0.5),
        ValueError,
        "Float: log=True and a step exclude each other, got step=0.5",
    ),
    (lambda: Float(0, 1, step=0), ValueError, "Float: step must be above 0 and at most high - low = 1, got step=0"),
    (lambda: Float(0, 1, step=-0.5), ValueError, "got step=-0.5"),
    (lambda: Float(0, 1, step=2), ValueError, "got step=2"),
    (lambda: Float(0, 1, step=True), TypeError, "Float: step must be a number, got True"),
    (lambda: Float(0, 1, step=1e-300), ValueError, "gives more than 1099511627776 values; leave the step out"),
    (lambda: Int(3, 1), ValueError, "Int: low must not be above high, got low=3, high=1"),
    (
        lambda: Int(1.5, 2),  # pyright: ignore[reportArgumentType]
        TypeError,
        "Int: low must be an integer, got 1.5",
    ),
    (
        lambda: Int(1, math.inf),  # pyright: ignore[reportArgumentType]
        TypeError,
        "Int: high must be an integer, got inf",
    ),
    (lambda: Int(True, 2), TypeError, "Int: low must be an integer, got True"),
    (lambda: Int(0, 9, log=True), ValueError, "Int: with log=True low must be above 0, got low=0"),
    (lambda: Int(1, 9, log=True, step=2), ValueError, "Int: log=True and a step exclude each other, got step=2"),
    (lambda: Int(1, 9, step=0), ValueError, "Int: step must be above 0 and at most high - low = 8, got step=0"),
    (lambda: Int(1, 9, step=9), ValueError, "got step=9"),
    (
        lambda: Int(1, 9, step=0.5),  # pyright: ignore[reportArgumentType]
        TypeError,
        "Int: step must be an integer, got 0.5",
    ),
    (lambda: Int(0, 2**41), ValueError, "Int: more than 1099511627776 values, got low=0, high=2199023255552"),
    (lambda: Categorical([]), ValueError, "Categorical: at least one choice is needed, got none"),
    (lambda: Categorical("abc"), TypeError, "Categorical: choices must be a list, got the string 'abc'"),
    (lambda: Categorical(["a", "b", "a"]), ValueError, "Categorical: choices must differ, got 'a' more than once"),
    (lambda: Categorical([1, True, True]), ValueError, "got True more than once"),
    (
        lambda: Categorical(["a", (1, 2)]),  # pyright: ignore[reportArgumentType]
        TypeError,
        "a choice must be a string, number, boolean or None, got (1, 2)",
    ),
    (lambda: Categorical([0.5, math.nan]), ValueError, "Categorical: a choice must be finite, got nan"),
    (lambda: Space({}), ValueError, "Space: at least one parameter is needed, got none"),
    (
        lambda: Space([Float(0, 1)]),  # pyright: ignore[reportArgumentType]
        TypeError,
        "Space: parameters must be given as a mapping from names",
    ),
    (
        lambda: Space({1: Float(0, 1)}),  # pyright: ignore[reportArgumentType]
        TypeError,
        "Space: a parameter's name must be a string, got 1",
    ),
    (lambda: Space({"": Float(0, 1)}), ValueError, "Space: a parameter's name must not be empty, got ''"),
    (
        lambda: Space({"lr": (0, 1)}),  # pyright: ignore[reportArgumentType]
        TypeError,
        "Space: parameter 'lr' must be a Float, Int or Categorical, got (0, 1)",
    ),
]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "kind", "sentence"), BAD_PARAMETERS, ids=[sentence for *_, sentence in BAD_PARAMETERS]
)
def test_a_bad_definition_is_refused_in_one_sentence(make, kind, sentence):
    with pytest.raises(kind) as refusal:
        make()
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


MIXED = {
    "rate": Float(0.1, 1),
    "grid": Float(0, 1, step=0.25),
    "layers": Int(1, 9, step=4),
    "pool": Categorical(["max", "average", "none"]),
}
GOOD = {"rate": 0.5, "grid": 0.25, "layers": 5, "pool": "max"}
BAD_CONFIGS = [
    ({"rate": 2.0}, ValueError, "parameter 'rate': Float: value must lie between 0.1 and 1, got 2.0"),
    ({"rate": math.nan}, ValueError, "parameter 'rate': Float: value must be finite, got nan"),
    ({"rate": "0.5"}, TypeError, "parameter 'rate': Float: value must be a number, got '0.5'"),
    ({"rate": True}, TypeError, "parameter 'rate': Float: value must be a number, got True"),
    ({"grid": 0.3}, ValueError, "parameter 'grid': Float: value must be 0 plus a multiple of 0.25, got 0.3"),
    ({"layers": 13}, ValueError, "parameter 'layers': Int: value must lie between 1 and 9, got 13"),
    ({"layers": 2}, ValueError, "parameter 'layers': Int: value must be 1 plus a multiple of 4, got 2"),
    ({"layers": 5.0}, TypeError, "parameter 'layers': Int: value must be an integer, got 5.0"),
    (
        {"pool": "min"},
        ValueError,
        "parameter 'pool': Categorical: value must be one of ['max', 'average', 'none'], got 'min'",
    ),
    ({"depth": 3}, ValueError, "got missing [], unknown ['depth']"),
]


@pytest.mark.parametrize(("change", "kind", "sentence"), BAD_CONFIGS, ids=[sentence for *_, sentence in BAD_CONFIGS])
def test_a_bad_configuration_is_refused_by_the_name_of_its_parameter(change, kind, sentence):
    space = Space(MIXED)
    space.encode(GOOD)
    with pytest.raises(kind) as refusal:
        space.encode({**GOOD, **change})
    assert sentence in str(refusal.value)


def test_a_configuration_without_a_parameter_is_refused():
    with pytest.raises(ValueError, match=r"got missing \['layers'\], unknown \[\]"):
        Space(MIXED).encode({name: value for name, value in GOOD.items() if name != "layers"})


@pytest.mark.parametrize("unit", [(0.5,), (0.5,) * 7, (0.5,) * 5 + (math.nan,)])
def test_a_point_of_the_wrong_length_or_with_nan_is_not_decoded(unit):
    with pytest.raises(ValueError, match=r"a point needs 6 coordinates that are numbers, got \(0.5"):
        Space(MIXED).decode(unit)


def test_an_array_of_the_wrong_width_is_not_snapped():
    with pytest.raises(ValueError, match=r"points need 6 coordinates, got an array of shape \(2, 5\)"):
        Space(MIXED).snap(np.zeros((2, 5)))


BAD_JSON = [
    (
        {"name": "x", "kind": "bool"},
        ValueError,
        "parameter 'x': kind must be one of ['float', 'int', 'categorical'], got 'bool'",
    ),
    ({"name": "x"}, ValueError, "got None"),
    ({"name": "x", "kind": "float", "low": 3, "high": 1}, ValueError, "parameter 'x': Float: low must be below high"),
    ({"name": "x", "kind": "int", "low": 3}, TypeError, "parameter 'x': "),
    ({"name": "x", "kind": "int", "low": 1, "high": 3, "colour": 1}, TypeError, "'colour'"),
]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("entry", "kind", "sentence"), BAD_JSON)
def test_a_bad_description_is_refused_by_the_name_of_its_parameter(entry, kind, sentence):
    with pytest.raises(kind) as refusal:
        Space.from_json([entry])
    assert sentence in str(refusal.value)


def test_a_description_with_a_name_given_twice_is_refused():
    with pytest.raises(ValueError, match=r"names of parameters must differ, got \['x', 'x'\]"):
        Space.from_json(Space({"x": Float(0, 1)}).to_json() * 2)
