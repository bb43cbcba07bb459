"""What a user believes about good values: densities, draws, what is stored, and what is refused."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmbo.problem import Categorical, Float, Int, Likely, Space

# The checker of types looks at a random element of a container, also while hypothesis builds an example.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")

SPACE = Space(
    {
        "rate": Float(1e-5, 1e-1, log=True, prior=Likely(1e-3, width=0.1)),
        "layers": Int(1, 9, prior=Likely(3)),
        "optimiser": Categorical(["sgd", "adam", None], prior=Likely({"adam": 6, None: 2})),
        "size": Categorical(["s", "m", "l"], ordered=True, prior=Likely("m", width=0.2)),
        "on": Categorical([False, True], prior=Likely(True, width=0.25)),
        "x": Float(0, 1),
        "depth": Int(1, 9, when={"on": True}, prior=Likely(2)),
    }
)
WRONG: Any = "high"
NO_PRIOR: Any = 0.3
BEST = {"rate": 1e-3, "layers": 3, "optimiser": "adam", "size": "m", "on": True, "x": 0.4, "depth": 2}


def log_density(config):
    assert SPACE.likely is not None
    return float(SPACE.likely.log_density(np.array([SPACE.encode(config)]))[0])


def test_the_density_is_highest_where_all_is_as_believed_and_x_does_not_matter():
    assert log_density(BEST) == pytest.approx(0.0)
    assert log_density({**BEST, "x": 0.9}) == pytest.approx(0.0)
    for name, other in {"rate": 1e-2, "layers": 5, "optimiser": "sgd", "size": "l", "depth": 9}.items():
        assert log_density({**BEST, name: other}) < -0.1
    without = {name: value for name, value in BEST.items() if name != "depth"}
    assert log_density({**without, "on": False}) == pytest.approx(np.log(0.01 + 0.99 / 4))


def test_farther_from_the_belief_is_less_likely_and_nothing_is_impossible():
    found = [log_density({**BEST, "rate": rate}) for rate in (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)]
    assert all(before > after for before, after in pairwise(found))
    assert found[-1] > np.log(0.009)


def test_draws_come_from_the_belief_and_the_first_is_its_best():
    assert SPACE.likely is not None
    points = SPACE.snap(SPACE.likely.drawn(np.random.default_rng(0), 4000))
    configs = [SPACE.decode(unit) for unit in points.tolist()]
    assert {**configs[0], "rate": round(configs[0]["rate"], 12), "x": 0.4} == BEST
    assert np.mean([np.log10(config["rate"]) for config in configs]) == pytest.approx(-3.0, abs=0.05)
    assert np.std([np.log10(config["rate"]) for config in configs]) == pytest.approx(0.4, abs=0.05)
    # Weights of 6, 2 and 1; of 4 and 1; the share of 4000 draws has a deviation below 0.008.
    assert np.mean([config["optimiser"] == "adam" for config in configs]) == pytest.approx(6 / 9, abs=0.03)
    assert np.mean([config["on"] for config in configs]) == pytest.approx(0.8, abs=0.03)


values = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.booleans(), st.none())


@given(st.lists(st.tuples(values, st.floats(0.01, 100)), min_size=1, max_size=4), st.floats(0.01, 5))
def test_a_belief_comes_back_from_json(weights, width):
    unique = list({(type(choice).__name__, choice): (choice, weight) for choice, weight in weights}.values())
    for belief in (Likely(unique[0][0], width), Likely(unique, width)):
        assert Likely(**json.loads(json.dumps(belief.to_json()))) == belief


def test_a_space_comes_back_from_json_and_says_beliefs_only_where_there_are_some():
    described = json.loads(json.dumps(SPACE.to_json()))
    assert Space.from_json(described) == SPACE
    assert [entry["name"] for entry in described if "prior" not in entry] == ["x"]
    assert Space({"x": Float(0, 1)}).likely is None


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: Likely(1, width=0), ValueError, "Likely: width must be a number above 0 and at most 10, got 0"),
        (lambda: Likely(1, width=WRONG), ValueError, "Likely: width must be a number"),
        (lambda: Likely({"a": 0}), ValueError, "the weight of 'a' must be a finite number above 0, got 0"),
        (lambda: Likely({}), ValueError, "at least one weight is needed"),
        (lambda: Likely([1, 2]), TypeError, "give a value, or weights by choice"),
        (lambda: Float(0, 1, prior=NO_PRIOR), TypeError, "prior must be a bmbo.Likely, such as .*, got 0.3"),
        (
            lambda: Space({"a": Float(0, 1, prior=Likely(2))}),
            ValueError,
            "parameter .a.: its prior does not fit: Fl",
        ),
        (lambda: Space({"a": Int(0, 9, prior=Likely({3: 2}))}), ValueError, "weights are for the choices of a Categ"),
        (lambda: Space({"a": Categorical(["x"], prior=Likely({"z": 2}))}), ValueError, "its prior does not fit: Cat"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_a_belief_that_does_not_fit_is_refused(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()
