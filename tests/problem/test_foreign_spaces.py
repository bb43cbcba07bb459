"""Spaces of other libraries, and ours as Optuna records it."""

import subprocess
import sys
import warnings

import ConfigSpace
import numpy as np
import optuna
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from bmbo.problem import Categorical, Float, Int, Likely, Space
from bmbo.problem.foreign_spaces import as_space, to_optuna

# The checker of types looks at a random element of a container, also while hypothesis builds an example.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")


# --- random spaces --------------------------------------------------------------------------------------------------

floats = st.builds(
    lambda low, width: Float(low, low + width * (1 + abs(low))), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)
)
log_floats = st.builds(
    lambda low, decades: Float(low, low * 10**decades, log=True), st.floats(1e-9, 1e3), st.floats(0.01, 12)
)
# Also steps far finer than the bounds' last digits, and bounds with more digits than float64 holds in a sum.
stepped_floats = st.builds(
    lambda low, step, num: Float(low, low + step * num, step=step),
    st.one_of(st.integers(-1000, 1000).map(lambda low: low / 100), st.floats(-1e6, 1e6)),
    st.one_of(st.integers(1, 300).map(lambda step: step / 100), st.floats(1e-4, 10)),
    st.floats(1.5, 50),
)
ints = st.builds(
    lambda low, num, step, over: Int(low, low + num * step + min(over, step - 1), step=step),
    st.integers(-(10**6), 10**6),
    st.integers(1, 10**6),
    st.integers(1, 100),
    st.integers(0, 99),
)
log_ints = st.builds(lambda low, num: Int(low, low + num, log=True), st.integers(1, 2000), st.integers(0, 10**6))
scalars = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.floats(-5, 5), st.booleans(), st.none())
categoricals = st.builds(
    Categorical,
    # Unique as Python compares: True and 1 together are refused, which has a test of its own.
    st.lists(scalars, min_size=1, max_size=6, unique_by=lambda choice: (isinstance(choice, str), choice)),
    ordered=st.booleans(),
)
parameters = st.one_of(floats, log_floats, stepped_floats, ints, log_ints, categoricals)
spaces = st.dictionaries(st.text(min_size=1, max_size=4), parameters, min_size=1, max_size=5).map(Space)


def configs_of(space, seed, num=20):
    generator = np.random.default_rng(seed)
    points = np.concatenate([generator.random((num, space.dim)), np.zeros((1, space.dim)), np.ones((1, space.dim))])
    return [space.decode(point) for point in points.tolist()]


# --- to Optuna ------------------------------------------------------------------------------------------------------


@given(spaces, st.integers(0, 2**32 - 1))
@example(Space({"fine": Float(1e6, 1e6 + 1, step=1e-4)}), 0)
@example(Space({"digits": Float(0.1234567890123456, 1.0, step=1e-3)}), 0)
def test_every_configuration_is_one_of_optunas_and_stored_exactly(space, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distributions = to_optuna(space)
    assert list(distributions) == list(space.names)
    for config in configs_of(space, seed):
        # Refuses what the distributions do not contain.
        trial = optuna.create_trial(state=TrialState.WAITING, params=config, distributions=distributions)
        for name, value in trial.params.items():
            stored = distributions[name].to_external_repr(distributions[name].to_internal_repr(value))
            assert type(stored) is type(config[name])
            assert stored == config[name]


@pytest.mark.parametrize("url", ["memory", "sqlite", "journal"])
def test_parameters_come_back_from_a_storage_bit_by_bit(url, tmp_path):
    storage = {
        "memory": lambda: None,
        "sqlite": lambda: f"sqlite:///{tmp_path}/study.db",
        "journal": lambda: optuna.storages.JournalStorage(JournalFileBackend(str(tmp_path / "study.log"))),
    }[url]()
    space = Space(
        {
            "rate": Float(1e-7, 0.3, log=True),
            "share": Float(-1, 1),
            "tenths": Float(0.1, 0.75, step=0.1),
            "layers": Int(1, 9, step=3),
            "width": Int(1, 4096, log=True),
            "kind": Categorical(["a", None, True, 0, 2.5]),
            "size": Categorical(["s", "m", "l"], ordered=True),
        }
    )
    configs = configs_of(space, 0)
    study = optuna.create_study(storage=storage)
    for config in configs:
        study.add_trial(optuna.create_trial(value=0.0, params=config, distributions=to_optuna(space)))
    read = [trial.params for trial in study.get_trials()]
    assert read == configs
    assert [space.encode(config) for config in read] == [space.encode(config) for config in configs]


@given(spaces)
def test_a_space_comes_back_from_optunas_distributions(space):
    back = as_space(to_optuna(space))
    assert back.names == space.names
    for name, param in space.params:
        if isinstance(param, Float) and param.step is not None:
            continue
        if isinstance(param, Categorical):
            # Optuna knows no order.
            assert back[name] == Categorical(param.choices)
        elif param.decode((1.0,)) == param.low:
            assert isinstance(param, Int)
            assert back[name] == Int(param.low, param.low)
        else:
            found = back[name]
            assert isinstance(found, Float | Int)
            assert (found.low, found.log) == (param.low, param.log)
            assert found.high == param.decode((1.0,))


@pytest.mark.parametrize("choices", [[True, 1], [0, False, "x"], [1.0, True]])
def test_choices_that_optuna_takes_for_one_are_refused(choices):
    with pytest.raises(ValueError, match=r"parameter 'x': a study cannot store choices that are equal in Python"):
        to_optuna(Space({"x": Categorical(choices)}))


def test_integers_beyond_float64_are_refused():
    assert to_optuna(Space({"x": Int(2**53 - 5, 2**53)}))["x"].high == 2**53
    with pytest.raises(ValueError, match=r"parameter 'x': a study stores integers up to 2\*\*53"):
        to_optuna(Space({"x": Int(2**53, 2**53 + 2)}))


# --- from Optuna ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (FloatDistribution(0.0, 1.0), Float(0.0, 1.0)),
        (FloatDistribution(1e-5, 1e-1, log=True), Float(1e-5, 1e-1, log=True)),
        (FloatDistribution(0.0, 0.9, step=0.3), Float(0.0, 0.9, step=0.3)),
        (FloatDistribution(2.0, 2.0), Categorical([2.0])),
        (IntDistribution(1, 9), Int(1, 9)),
        (IntDistribution(1, 7, step=3), Int(1, 7, step=3)),
        (IntDistribution(1, 1024, log=True), Int(1, 1024, log=True)),
        (IntDistribution(4, 4, step=3), Int(4, 4)),
        (CategoricalDistribution(["a", None, 3]), Categorical(["a", None, 3])),
    ],
    ids=str,
)
def test_a_distribution_of_optuna_is_understood(given, wanted):
    assert as_space({"x": given})["x"] == wanted


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("kind", "arguments", "wanted"),
    [
        ("UniformDistribution", (0.0, 1.0), Float(0.0, 1.0)),
        ("LogUniformDistribution", (0.1, 1.0), Float(0.1, 1.0, log=True)),
        ("DiscreteUniformDistribution", (0.0, 1.0, 0.25), Float(0.0, 1.0, step=0.25)),
        ("IntUniformDistribution", (1, 5), Int(1, 5)),
        ("IntLogUniformDistribution", (1, 5), Int(1, 5, log=True)),
    ],
)
def test_the_older_distributions_of_optuna_are_understood(kind, arguments, wanted):
    assert as_space({"x": getattr(optuna.distributions, kind)(*arguments)})["x"] == wanted


def test_kinds_may_be_mixed_and_keep_their_order():
    space = as_space({"b": Float(0, 1), "a": IntDistribution(1, 3), "c": ConfigSpace.Integer("c", (1, 4))})
    assert space == Space({"b": Float(0, 1), "a": Int(1, 3), "c": Int(1, 4)})


@given(spaces)
def test_a_space_of_ours_is_given_back(space):
    assert as_space(space) is space
    assert as_space(dict(space.params)) == space


# --- from ConfigSpace -----------------------------------------------------------------------------------------------


def test_a_configuration_space_is_understood():
    given = ConfigSpace.ConfigurationSpace(
        space=[
            ConfigSpace.Float("rate", (1e-5, 1e-1), log=True),
            ConfigSpace.Float("share", (-1.0, 1.0)),
            ConfigSpace.Integer("layers", (1, 9)),
            ConfigSpace.Integer("width", (1, 4096), log=True),
            ConfigSpace.Categorical("pool", ["max", "mean", "none"]),
            ConfigSpace.OrdinalHyperparameter("size", ["s", "m", "l"]),
            ConfigSpace.Constant("seed", 3),
        ]
    )
    space = as_space(given)
    assert dict(space.params) == {
        "rate": Float(1e-5, 1e-1, log=True),
        "share": Float(-1.0, 1.0),
        "layers": Int(1, 9),
        "width": Int(1, 4096, log=True),
        "pool": Categorical(["max", "mean", "none"]),
        "size": Categorical(["s", "m", "l"], ordered=True),
        "seed": Categorical([3]),
    }
    for config in configs_of(space, 0):
        ConfigSpace.Configuration(given, values=config).check_valid_configuration()


@given(st.integers(0, 2**32 - 1))
def test_what_a_configuration_space_samples_can_be_run(seed):
    given = ConfigSpace.ConfigurationSpace(
        {"a": (0.1, 7.3), "b": (-4, 9), "c": ["x", "y", "z"], "d": [True, False], "e": 2.5}, seed=seed
    )
    space = as_space(given)
    for config in given.sample_configuration(5):
        values = dict(config)
        assert {**space.decode(space.encode(values)), "a": 0} == {**values, "a": 0}


def conditional(make):
    space = ConfigSpace.ConfigurationSpace({"a": (0.0, 1.0), "b": (1, 9), "c": ["x", "y", "z"], "d": [True, False]})
    space.add(make(space))
    return space


def both(space):
    return ConfigSpace.AndConjunction(
        ConfigSpace.InCondition(space["a"], space["c"], ["x", "z"]),
        ConfigSpace.EqualsCondition(space["a"], space["d"], True),
    )


@pytest.mark.parametrize(
    ("make", "when"),
    [
        (lambda space: ConfigSpace.EqualsCondition(space["a"], space["c"], "x"), {"c": ["x"]}),
        (lambda space: ConfigSpace.InCondition(space["a"], space["b"], [2, 5]), {"b": [2, 5]}),
        (both, {"c": ["x", "z"], "d": [True]}),
    ],
    ids=["equals", "in", "and"],
)
def test_conditions_of_a_configuration_space_are_kept(make, when):
    given = conditional(make)
    space = as_space(given)
    assert space["a"].when == Float(0, 1, when=when).when
    for config in configs_of(space, 0):
        ConfigSpace.Configuration(given, values=config).check_valid_configuration()
    for sampled in given.sample_configuration(20):
        assert space.exact(dict(sampled)) == dict(sampled)


def forbidding():
    space = ConfigSpace.ConfigurationSpace({"b": (1, 9), "c": ["x", "y"]})
    space.add(ConfigSpace.ForbiddenEqualsClause(space["b"], 3))
    return space


def test_priors_of_a_configuration_space_are_kept():
    given = ConfigSpace.ConfigurationSpace(
        space=[
            ConfigSpace.Float("a", (0.0, 2.0), distribution=ConfigSpace.Normal(0.5, 0.1)),
            ConfigSpace.Integer("b", (0, 10), distribution=ConfigSpace.Normal(3, 2)),
            ConfigSpace.Categorical("c", ["x", "y"], weights=[0.25, 0.75]),
        ]
    )
    priors = [param.prior for _, param in as_space(given).params]
    assert priors == [Likely(0.5, width=0.05), Likely(3, width=0.2), Likely({"x": 0.25, "y": 0.75})]


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (
            lambda: conditional(lambda space: ConfigSpace.NotEqualsCondition(space["a"], space["c"], "x")),
            ValueError,
            r"the condition a \| c != 'x' is not supported: give conditions that name values",
        ),
        (
            lambda: conditional(
                lambda space: ConfigSpace.OrConjunction(
                    ConfigSpace.EqualsCondition(space["a"], space["c"], "x"),
                    ConfigSpace.EqualsCondition(space["a"], space["d"], True),
                )
            ),
            ValueError,
            "the condition .* is not supported: give conditions that name values",
        ),
        (forbidding, ValueError, "the space has forbidden clauses, which are not supported: .*b == 3"),
        (
            lambda: [ConfigSpace.Float("a", (0.1, 1.0), log=True, distribution=ConfigSpace.Normal(0.5, 0.1))],
            TypeError,
            "parameter 'a': a NormalFloatHyperparameter is not supported; use a uniform one",
        ),
        (
            lambda: [ConfigSpace.Integer("a", (0, 9), distribution=ConfigSpace.Beta(2, 3))],
            TypeError,
            "parameter 'a': a BetaIntegerHyperparameter is not supported",
        ),
        (
            lambda: [ConfigSpace.Categorical("a", ["x", "y"], weights=[0.0, 1.0])],
            ValueError,
            "parameter 'a': a choice with the weight 0 is not supported",
        ),
        (
            lambda: [ConfigSpace.Constant("a", (1, 2))],
            TypeError,
            r"parameter 'a': Categorical: a choice must be .* got \(1, 2\)",
        ),
    ],
    ids=["not equals", "or", "forbidden", "normal", "beta", "weights", "tuple"],
)
@pytest.mark.usefixtures("as_a_user")
def test_what_cannot_be_searched_is_refused_by_name(make, error, sentence):
    given = make()
    space = ConfigSpace.ConfigurationSpace(space=given) if isinstance(given, list) else given
    with pytest.raises(error, match=sentence):
        as_space(space)


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (3, TypeError, "the space must be a bmbo.Space, a mapping .* got 3"),
        ([Float(0, 1)], TypeError, "the space must be a bmbo.Space, a mapping"),
        ({}, ValueError, "at least one parameter is needed"),
        ({"x": (0, 1)}, TypeError, r"parameter 'x' must be a bmbo Float.* got \(0, 1\) of type tuple"),
        ({1: Float(0, 1)}, TypeError, "a parameter's name must be a string, got 1"),
        ({"x": CategoricalDistribution([1, 1])}, ValueError, "parameter 'x': Categorical: choices must differ"),
    ],
    ids=["number", "list", "empty", "tuple", "name", "choices"],
)
@pytest.mark.usefixtures("as_a_user")
def test_what_is_no_space_is_refused_in_a_sentence(given, error, sentence):
    with pytest.raises(error, match=sentence):
        as_space(given)


@pytest.mark.slow
def test_a_space_of_ours_does_not_import_configspace():
    program = (
        "import sys, bmbo.problem.foreign_spaces, bmbo.problem\n"
        "bmbo.problem.foreign_spaces.as_space({'x': bmbo.problem.Float(0, 1)})\n"
        "print('ConfigSpace' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
