"""Constraints: what is measured is kept, what is best keeps them, and nothing that may not be run is asked for."""

import json
import math

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState

import bmbo
from bmbo.cli import main
from bmbo.history import History, Outcome, Query
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Constraint, Feasible, Ladder, Problem, Space, as_constraints
from bmbo.problem.constraints import FeasibleError
from support.study_ledgers import storage_of_kind

SPACE = {"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)}
FIDELITIES = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]
MEMORY = {"memory_gb": ("<=", 16)}


@pytest.fixture(params=["memory", "sqlite", "journal"])
def storage(request, tmp_path):
    return storage_of_kind(request, tmp_path)


def created(*, constraints=MEMORY, method=None, **more):
    return bmbo.create_study(
        space=SPACE, fidelities=FIDELITIES, constraints=constraints, method=method or bmbo.screening(), **more
    )


def measuring(trial):
    """The best values need too much memory."""
    x, y = trial.params["x"], trial.params["y"]
    return -x - y + 0.05 / trial.fidelity, {"memory_gb": 16 * (x**2 + y**2) + 0.1 / trial.fidelity}


def run(study, objective=measuring, **limits):
    study.optimize(objective, **limits, show_progress_bar=False)
    return study


def told(values, constraints=MEMORY, **more):
    """A study in which these values and memories were told at the top, and what came of it."""
    study = created(constraints=constraints, **more)
    for place, (value, memory) in enumerate(values):
        study.add_trial({"x": 0.1 * place, "y": 0.5}, (value, {"memory_gb": memory}))
    return study


def test_the_best_trial_and_all_answers_keep_the_constraints():
    study = run(created(), total_cost=150, batch_size=2)
    assert study.best_trial.measured["memory_gb"] <= 16
    assert study.best_value < -1.2  # the optimum is -sqrt(2), the best without the constraint -2
    found = study.recommendation()
    assert 16 * (found.params["x"] ** 2 + found.params["y"] ** 2) <= 16
    assert "use x=" in study.answer()


def test_measured_values_are_kept_in_every_storage_and_read_by_optuna(storage):
    study = run(created(study_name="c", storage=storage), n_trials=12)
    again = bmbo.load_study(study_name="c", storage=storage)
    assert [trial.measured for trial in again.trials] == [trial.measured for trial in study.trials]
    assert again.problem.constraints == (Constraint("memory_gb", "<=", 16.0),)
    kept = storage if isinstance(storage, InMemoryStorage) else study._ledger.storage
    theirs = optuna.load_study(study_name="c", storage=kept)
    for trial, own in zip(theirs.trials, study.trials, strict=True):
        assert list(trial.constraints.values()) == [pytest.approx(own.measured["memory_gb"] - 16)]
    if any(trial.level == 1 and trial.measured["memory_gb"] <= 16 for trial in study.trials):
        assert theirs.best_trial.number == study.best_trial.number


def test_optuna_and_bmbo_agree_on_the_best_trial():
    storage = InMemoryStorage()
    study = told([(1.0, 20.0), (3.0, 10.0), (2.0, 16.0)], study_name="c", storage=storage)
    assert study.best_trial.number == optuna.load_study(study_name="c", storage=storage).best_trial.number == 2


def test_without_anything_feasible_it_is_said_which_trial_comes_nearest():
    study = told([(1.0, 30.0), (2.0, 17.5), (0.0, 40.0)])
    for asked in (lambda: study.best_trial, study.recommendation):
        with pytest.raises(
            ValueError, match=r"keeps all constraints; trial 1 comes nearest \(memory_gb 17.5, not <= 16"
        ):
            asked()
    assert "there is no answer yet" in study.answer()
    assert "trial 1 comes nearest" in study.answer()


def test_the_nearest_trial_is_that_with_the_smallest_sum_of_relative_violations():
    problem = Problem(
        Space(SPACE), Ladder(FIDELITIES), constraints=(Constraint("a", "<=", 0.0), Constraint("b", ">=", 1000.0))
    )
    history = History(problem)
    for number, measured in enumerate([(1.0, 990.0), (0.9, 0.0), (0.0, 200.0)]):
        query = Query((0.1 * number, 0.5), 1)
        history = history.asked(query).with_outcome(number, Outcome(1.0, 10.0, measured=measured))
    assert history.best is None
    assert history.least_infeasible is not None
    assert history.least_infeasible.number == 2  # 0.8 of the largest, where trial 0 has 1.01


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (1.0, "'memory_gb' is missing, which the constraint memory_gb <= 16 needs"),
        ((1.0, {"memory": 3.0}), r"measured was only \['memory'\]"),
        ((1.0, {"memory_gb": math.nan}), "'memory_gb' must be finite for the constraint memory_gb <= 16, got nan"),
        ((1.0, {"memory_gb": -math.inf}), "must be finite"),
        ((1.0, {"memory_gb": "11 GB"}), "must be a real number for the constraint memory_gb <= 16, got '11 GB'"),
        ((math.nan, {"memory_gb": 3.0}), "the objective returned nan"),
    ],
)
def test_a_run_without_a_measured_value_fails_with_the_reason(returned, said):
    study = created(method=bmbo.random_search())
    with pytest.raises(bmbo.TooManyFailuresError, match=said):
        run(study, lambda _: returned, n_trials=9, max_failures=2)
    assert {trial.state for trial in study.trials} <= {"failed", "waiting"}


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        (["memory_gb"], "constraints must be a mapping such as"),
        ({"memory_gb": 16}, "must be a relation and a bound"),
        ({"memory_gb": ("<", 16)}, "the relation must be '<=' or '>=', got '<'"),
        ({"memory_gb": ("<=", "16")}, "the bound must be a finite number"),
        ({"memory_gb": ("<=", math.inf)}, "the bound must be a finite number"),
        ({"memory_gb": (">=", True)}, "the bound must be a finite number"),
        ({"value": ("<=", 1)}, "so the result itself is called"),
        ({"": ("<=", 1)}, "named by a text"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(constraints, said):
    with pytest.raises((TypeError, ValueError), match=said):
        as_constraints(constraints)


def test_what_is_noted_on_the_trial_counts_as_measured_and_the_rest_is_kept_as_a_note():
    study = created(method=bmbo.random_search())
    (noting, returning) = study.ask(2)
    noting.set_user_attr("memory_gb", 3.5)
    noting.set_user_attr("accuracy", 0.5)
    told_first = study.tell(noting, 1.0)
    told_second = study.tell(returning, (2.0, {"memory_gb": 4.5, "accuracy": 0.6}))
    assert [told_first.measured, told_second.measured] == [{"memory_gb": 3.5}, {"memory_gb": 4.5}]
    assert [told_first.user_attrs, told_second.user_attrs] == [{"accuracy": 0.5}, {"accuracy": 0.6}]


def test_without_constraints_measured_values_are_notes():
    study = created(constraints=None, method=bmbo.random_search())
    (trial,) = study.ask()
    assert study.tell(trial, (2.0, {"memory_gb": 4.5})).user_attrs == {"memory_gb": 4.5}


def test_a_study_with_other_constraints_is_another_one(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    created(study_name="c", storage=url)
    with pytest.raises(ValueError, match="its constraints are memory_gb <= 16, not memory_gb <= 8"):
        created(study_name="c", storage=url, load_if_exists=True, constraints={"memory_gb": ("<=", 8)})


@pytest.mark.parametrize("argument", [{"constraints": MEMORY}, {"feasible": lambda _: True}])
def test_methods_that_know_nothing_of_it_are_refused(argument):
    with pytest.raises(
        ValueError, match=rf"bmbo_gp\(\) knows nothing of {next(iter(argument))}; bmbo.screening\(\) does"
    ):
        bmbo.create_study(space=SPACE, fidelities=FIDELITIES, method=bmbo.bmbo_gp(), **argument)


@pytest.mark.parametrize("method", [bmbo.screening(), bmbo.random_search()])
def test_nothing_that_is_not_feasible_is_ever_asked_for(method):
    def small(config):
        return config["x"] + config["y"] < 0.3

    study = created(constraints=None, feasible=small, method=method)
    run(study, lambda trial: (trial.params["x"] - 0.9) ** 2 + trial.params["y"], n_trials=25, batch_size=3)
    assert all(small(trial.params) for trial in study.trials)
    if method == bmbo.screening():
        assert study.best_params["x"] > 0.25
    with pytest.raises(ValueError, match=r"feasible=.*small does not allow it"):
        study.enqueue({"x": 0.9, "y": 0.9})


@pytest.mark.parametrize("method", [bmbo.screening(), bmbo.random_search()])
def test_a_search_that_finds_nothing_feasible_says_so(method):
    study = created(constraints=None, feasible=lambda _: False, method=method)
    with pytest.raises(ValueError, match="no feasible point was found among"):
        study.ask()


@pytest.mark.parametrize(
    ("function", "said"),
    [(lambda config: config["z"] > 0, "failed for .*KeyError"), (lambda _: 1, "must return True or False, got 1")],
)
def test_a_function_that_does_not_say_what_is_feasible_ends_the_search(function, said):
    with pytest.raises(FeasibleError, match=said):
        created(constraints=None, feasible=function).ask()


def test_a_loaded_study_needs_its_function_again_before_it_asks(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    created(study_name="c", storage=url, constraints=None, feasible=only_low)
    again = bmbo.load_study(study_name="c", storage=url)
    with pytest.raises(FeasibleError, match=r"feasible=only_low.*give the function to load_study"):
        again.ask()
    (trial,) = bmbo.load_study(study_name="c", storage=url, feasible=only_low).ask()
    assert only_low(trial.params)
    created(study_name="d", storage=url, constraints=None)
    with pytest.raises(ValueError, match="was made without feasible"):
        bmbo.load_study(study_name="d", storage=url, feasible=only_low)
    with pytest.raises(TypeError, match="must be a function of a configuration"):
        Feasible.of(True)


def only_low(config):
    return config["x"] < 0.4


def test_definitions_hold_what_is_used_and_nothing_else():
    plain = Problem(Space(SPACE), Ladder(FIDELITIES))
    assert not {"constraints", "feasible"} & StudyDefinition(plain, 0).to_json().keys()
    demanding = Problem(
        Space(SPACE), Ladder(FIDELITIES), constraints=(Constraint("a", ">=", 1.0),), feasible=Feasible.of(only_low)
    )
    stored = json.loads(json.dumps(StudyDefinition(demanding, 0).to_json()))
    assert StudyDefinition.from_json(stored).problem == demanding
    for wrong in ({"constraints": 3}, {"constraints": [{"name": "a"}]}, {"feasible": 3}):
        with pytest.raises(ValueError, match="something else than bmbo changed it"):
            StudyDefinition.from_json({**stored, **wrong})


def test_a_damaged_measured_value_is_named():
    storage = InMemoryStorage()
    study = told([(1.0, 20.0)], study_name="c", storage=storage)
    study.ask()
    # Trials that have ended cannot be changed.
    storage.set_trial_user_attr(storage.get_trial_id_from_study_id_trial_number(0, 1), "bmbo:measured", {"a": 1})
    storage.set_trial_state_values(storage.get_trial_id_from_study_id_trial_number(0, 1), TrialState.PRUNED, [1.0])
    with pytest.raises(ValueError, match=r"'bmbo:measured' is {'a': 1} and not a number for each of"):
        study.trials  # noqa: B018 (reading raises)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_what_was_exported_can_be_added_with_what_was_measured(tmp_path, kind):
    url, table = f"sqlite:///{tmp_path}/c.db", tmp_path / f"c.{kind}"
    told([(1.0, 20.0), (3.0, 10.0)], study_name="c", storage=url)
    assert main(["export", "--storage", url, "--study", "c", "--output", str(table)]) == 0
    study = created(study_name="d", storage=url)
    study.add_trials(table)
    assert [(trial.value, trial.measured["memory_gb"]) for trial in study.trials] == [(1.0, 20.0), (3.0, 10.0)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 32)), min_size=1, max_size=6))
def test_the_best_is_the_best_of_those_that_keep_the_constraints(values):
    problem = Problem(Space(SPACE), Ladder(FIDELITIES), constraints=(Constraint("memory_gb", "<=", 16.0),))
    history = History(problem)
    for number, (value, memory) in enumerate(values):
        history = history.asked(Query((0.1 * number, 0.5), 1))
        history = history.with_outcome(number, Outcome(value, 10.0, measured=(memory,)))
    kept = [value for value, memory in values if memory <= 16]
    assert (history.best is None) == (not kept)
    if history.best is not None:
        assert history.best.value == min(kept)
    else:
        nearest = history.least_infeasible
        assert nearest is not None
        assert nearest.outcome is not None
        assert nearest.outcome.measured == (min(memory for _, memory in values),)


def test_arguments_at_their_defaults_change_no_suggestion_and_no_record():
    def plain(trial):
        return (trial.params["x"] - 0.3) ** 2 + trial.params["y"] / trial.fidelity

    with_them = run(created(constraints=None, feasible=None), plain, n_trials=14, batch_size=2)
    without = bmbo.create_study(space=SPACE, fidelities=FIDELITIES)
    run(without, plain, n_trials=14, batch_size=2)
    assert [(t.params, t.value) for t in with_them.trials] == [(t.params, t.value) for t in without.trials]
    stored = with_them._ledger.storage.get_all_trials(with_them._ledger._study_id)
    assert all("bmbo:measured" not in t.user_attrs and "constraints" not in t.system_attrs for t in stored)


@pytest.mark.slow
def test_failures_are_learned_as_a_constraint_and_not_as_bad_values():
    def crashes(trial):
        if trial.params["x"] > 0.6:
            raise MemoryError("too large")
        return -trial.params["x"] + (trial.params["y"] - 0.5) ** 2

    study = created(constraints=None)
    run(study, crashes, total_cost=250, catch=Exception)
    assert study.best_params["x"] > 0.58  # the optimum is at the border
    assert sum(trial.state == "failed" for trial in study.trials) < 0.6 * len(study.trials)
