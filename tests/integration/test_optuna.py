import copy
import pickle
from dataclasses import dataclass
from threading import Barrier

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

import bmbo
from bmbo.history import Query
from bmbo.integration.optuna import BMBOPruner, BMBOSampler
from bmbo.integration.optuna_trials import Steps, history_of, usable
from bmbo.ledger.attribute_keys import SAMPLER_PLAN
from bmbo.policies.random_search import random_queries
from support.small_studies import InTurn

LADDER = {1: 1, 9: 9, 27: 27}
STEPS = Steps.of(LADDER)
SPACE: dict[str, BaseDistribution] = {"x": FloatDistribution(0.0, 1.0)}


@dataclass(frozen=True)
class Climb:
    """Ask for the last point at the next level, and for a random point of the lowest level when it is at the top."""

    def suggest(self, seed, history, num, carry=None):
        assert num == 1
        last = history.trials[-1]
        if last.query.level < history.problem.ladder.top:
            return [Query(last.query.unit, last.query.level + 1)], carry
        return random_queries(seed, history.problem, len(history.trials), [0]), carry


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def study_of(sampler, pruner=None, **options):
    ours = BMBOPruner() if sampler.has_fidelities else optuna.pruners.NopPruner()
    return optuna.create_study(sampler=sampler, pruner=pruner or ours, **options)


def bowl(trial):
    return (trial.suggest_float("x", 0, 1) - 0.3) ** 2 + 0.1 * trial.suggest_int("n", 1, 5)


def training(trial):
    value = bowl(trial)
    for step in range(1, 28):
        trial.report(value + 0.5 / step, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return value + 0.5 / 27


def points(study):
    return [(trial.params["x"], trial.params["n"], trial.last_step) for trial in study.trials]


def last_steps(study):
    return {trial.last_step for trial in study.trials}


def records(*trials, maximise=False):
    history = history_of(trials, SPACE, STEPS, maximise=maximise)
    return [
        (record.query.unit[0], record.query.level, record.outcome and (record.outcome.value or record.outcome.error))
        for record in history.trials
    ]


def trial_at(state=TrialState.COMPLETE, value=None, level=None, params=SPACE, **reported):
    plan = {} if level is None else {SAMPLER_PLAN: STEPS.plan({}, level).stored}
    return create_trial(
        state=state,
        value=value,
        params={"x": 0.5},
        distributions=params,
        intermediate_values={int(name[1:]): number for name, number in reported.items()},
        system_attrs=plan,
    )


# Whole studies


def test_an_optuna_script_needs_only_another_sampler():
    study = study_of(BMBOSampler(seed=1))
    study.optimize(bowl, n_trials=10)
    assert study.best_value < 0.2
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


@pytest.mark.slow
@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1.0), ("maximize", -1.0)])
def test_the_direction_of_the_study_counts(direction, sign):
    study = study_of(BMBOSampler(seed=1), direction=direction)
    study.optimize(lambda trial: sign * bowl(trial), n_trials=14)
    assert sign * study.best_value < 0.11


@pytest.mark.slow
def test_fidelities_and_a_budget_find_the_optimum():
    study = study_of(BMBOSampler(fidelities=LADDER, total_cost=300, seed=1))
    study.optimize(training, n_trials=100)
    assert last_steps(study) == {1, 9, 27}
    assert 300 - 27 < sum(trial.last_step or 0 for trial in study.trials) <= 300
    assert study.best_value < 0.14


def test_trials_stop_at_steps_of_the_ladder_and_the_study_when_its_budget_is_spent():
    study = study_of(BMBOSampler(fidelities=LADDER, total_cost=60, method=InTurn(), seed=1))
    study.optimize(training, n_trials=80)
    assert [trial.last_step for trial in study.trials] == [1, 9, 9, 9, 9]  # these cost 37, and 27 is more than is left
    assert {trial.state for trial in study.trials} == {TrialState.PRUNED}


def test_a_trial_goes_on_when_the_method_wants_the_same_configuration_at_a_higher_fidelity():
    study = study_of(BMBOSampler(fidelities=LADDER, method=Climb(), seed=1))
    study.optimize(training, n_trials=4)
    # The first trial is random, because the parameters are not known yet: the next one repeats it.
    assert [trial.last_step for trial in study.trials] == [1, 27, 27, 27]
    assert len({trial.params["x"] for trial in study.trials}) == 3


def test_a_seed_and_what_was_told_decide_what_comes_next(tmp_path):
    def run(storage=None):
        study = study_of(BMBOSampler(fidelities=LADDER, method=InTurn(), seed=3), storage=storage)
        study.optimize(training, n_trials=6)
        return points(study)

    assert run() == run() == run(f"sqlite:///{tmp_path}/study.db")


def test_a_sampler_goes_on_after_it_was_pickled_or_copied():
    def run(change):
        study = study_of(BMBOSampler(method=bmbo.random_search(), seed=3))
        study.optimize(bowl, n_trials=3)
        study.sampler = change(study.sampler)
        study.optimize(bowl, n_trials=3)
        return points(study)

    unchanged = run(lambda sampler: sampler)
    assert run(copy.deepcopy) == unchanged
    assert run(lambda sampler: pickle.loads(pickle.dumps(sampler))) == unchanged


def test_one_sampler_serves_several_studies():
    sampler = BMBOSampler(seed=1)
    study_of(sampler).optimize(bowl, n_trials=3)
    other = study_of(sampler)
    other.optimize(lambda trial: trial.suggest_float("y", 0, 9), n_trials=3)
    assert all(trial.params.keys() == {"y"} for trial in other.trials)


def test_other_pruners_work_too_and_a_warning_says_what_they_leave_out(caplog):
    study = study_of(BMBOSampler(fidelities=LADDER, seed=1), pruner=optuna.pruners.MedianPruner(n_startup_trials=2))
    study.optimize(training, n_trials=8)
    assert [record.message for record in caplog.records if "BMBOPruner" in record.message] == [
        "trials do not stop at the fidelity that is chosen for them, because the pruner of the study is a "
        "MedianPruner; give optuna.create_study(pruner=BMBOPruner())"
    ]


def test_a_sampler_that_wraps_ours_works_with_our_pruner():
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        wrapper = optuna.samplers.PartialFixedSampler({"n": 2}, BMBOSampler(fidelities=LADDER, seed=1))
    study = optuna.create_study(sampler=wrapper, pruner=BMBOPruner())
    study.optimize(training, n_trials=6)
    assert {trial.params["n"] for trial in study.trials} == {2}
    assert last_steps(study) <= {1, 9, 27}


# Trials at the same time


def test_trials_in_flight_are_not_asked_again():
    study = study_of(BMBOSampler(seed=1))
    space: dict[str, BaseDistribution] = {"x": IntDistribution(0, 9)}
    study.tell(study.ask(space), 1.0)
    assert len({study.ask(space).params["x"] for _ in range(9)}) == 9


def test_threads_may_share_a_sampler():
    both = Barrier(2, timeout=60)

    def objective(trial):
        value = training(trial)
        both.wait()
        return value

    study = study_of(BMBOSampler(method=bmbo.random_search(), fidelities=[27], seed=1))
    study.optimize(objective, n_trials=6, n_jobs=2)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 6
    assert len(set(points(study))) == 6


def test_another_process_sees_what_is_in_flight(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    study = study_of(BMBOSampler(seed=1), storage=storage, study_name="shared")
    study.optimize(bowl, n_trials=1)
    running = study.ask()
    x = running.suggest_float("x", 0, 1)  # the other parameter is chosen as well, though not asked for yet
    other = optuna.load_study(study_name="shared", storage=storage, sampler=BMBOSampler(seed=1))
    assert other.ask().suggest_float("x", 0, 1) != x


# What trials say


def test_reports_are_outcomes_at_the_fidelities_that_they_reach():
    pruned = trial_at(TrialState.PRUNED, level=1, _1=4.0, _5=3.0, _10=2.0)
    assert records(pruned) == [(0.5, 0, 4.0), (0.5, 1, 2.0)]
    complete = trial_at(value=1.0, _1=4.0, _9=2.0, _26=1.5)
    assert records(complete) == [(0.5, 0, 4.0), (0.5, 1, 2.0), (0.5, 2, 1.0)]
    assert records(trial_at(value=1.0)) == [(0.5, 2, 1.0)]


def test_a_trial_costs_what_it_has_run():
    trial = trial_at(value=1.0, _1=4.0, _9=2.0)
    history = history_of([trial], SPACE, STEPS, maximise=False)
    assert [record.outcome and record.outcome.cost for record in history.told] == [1.0, 8.0, 18.0]
    assert STEPS.cost(trial) == history.spent == 27.0
    assert STEPS.cost(trial_at(TrialState.PRUNED, level=2, _1=4.0)) == 1.0
    assert STEPS.cost(trial_at(TrialState.FAIL, level=1, _1=4.0)) == 9.0
    assert STEPS.cost(trial_at(TrialState.RUNNING)) == 0.0


def test_a_running_trial_is_in_flight_at_its_fidelity_and_known_below():
    assert records(trial_at(TrialState.RUNNING, level=2, _1=4.0)) == [(0.5, 0, 4.0), (0.5, 2, None)]
    assert records(trial_at(TrialState.RUNNING, level=0, _1=4.0)) == [(0.5, 0, 4.0)]


def test_failed_trials_and_trials_that_were_pruned_without_a_report_are_failures():
    assert records(trial_at(TrialState.FAIL, level=1, _1=4.0)) == [(0.5, 0, 4.0), (0.5, 1, "the trial failed")]
    assert records(trial_at(TrialState.PRUNED)) == [(0.5, 2, "the trial was pruned without a value")]
    assert records(trial_at(TrialState.PRUNED, level=1, _1=float("nan"))) == [(0.5, 0, "the objective returned nan")]


def test_trials_with_another_range_are_left_out():
    assert records(trial_at(value=1.0, params={"x": FloatDistribution(0.0, 2.0)})) == []


def test_a_queued_trial_runs_to_its_end_as_it_was_given():
    study = study_of(BMBOSampler(fidelities=LADDER, seed=1))
    study.optimize(training, n_trials=2)
    study.enqueue_trial({"x": 0.25, "n": 2})
    study.enqueue_trial({"n": 3})
    study.optimize(training, n_trials=2)
    assert points(study)[2] == (0.25, 2, 27)
    assert points(study)[3][1:] == (3, 27)


def test_parameters_that_only_some_trials_have_are_sampled_independently_and_a_warning_says_so_once(caplog):
    def objective(trial):
        value = trial.suggest_float("x", 0, 1)
        return value + (trial.suggest_float("y", 0, 1) if trial.number % 2 else 0)

    study_of(BMBOSampler(seed=1)).optimize(objective, n_trials=6)
    assert [record.args[0] for record in caplog.records if "independently" in record.message] == ["y"]
    caplog.clear()
    study_of(BMBOSampler(seed=1, warn_independent_sampling=False)).optimize(objective, n_trials=6)
    assert not caplog.records


def test_what_bmbo_cannot_express_is_left_to_independent_sampling():
    odd = {"huge": IntDistribution(0, 2**60), "one": FloatDistribution(2.0, 2.0), "x": FloatDistribution(0.0, 1.0)}
    assert usable(odd) == {"x": odd["x"]}
    assert usable({"c": CategoricalDistribution([float("inf"), 1.0])}) == {}


# What is refused


def test_constraints_are_refused():
    study = study_of(BMBOSampler(seed=1))
    trial = study.ask(SPACE)
    trial.set_constraint("size", 1.0)
    study.tell(trial, 1.0)
    with pytest.raises(ValueError, match="knows no constraints"):
        study.ask(SPACE)


def test_several_objectives_with_fidelities_or_more_than_four_are_refused():
    study = study_of(BMBOSampler(seed=1, fidelities=[1, 3]), directions=["minimize", "minimize"])
    with pytest.raises(ValueError, match="has fidelities, and the study has 2 objectives"):
        study.ask(SPACE)
    with pytest.raises(ValueError, match="one to 4 objectives, got 5 directions"):
        study_of(BMBOSampler(seed=1), directions=["minimize"] * 5).ask(SPACE)


def test_several_objectives_are_searched_at_one_fidelity_and_methods_of_one_are_refused():
    def several(trial):
        x = trial.suggest_float("x", 0, 1)
        return (x - 0.2) ** 2, (x - 0.8) ** 2

    study = study_of(BMBOSampler(seed=1), directions=["minimize", "minimize"])
    study.optimize(several, n_trials=14)
    late = [trial.params["x"] for trial in study.trials[9:]]
    assert all(0.1 < x < 0.9 for x in late)  # the front is from 0.2 to 0.8
    assert max(late) - min(late) > 0.2
    single = study_of(BMBOSampler(seed=1, method=bmbo.bmbo_gp()), directions=["minimize", "minimize"])
    single.optimize(several, n_trials=1)
    with pytest.raises(ValueError, match=r"bmbo_gp\(\) knows nothing of directions"):
        single.optimize(several, n_trials=1)


@pytest.mark.parametrize(
    ("sampler", "sentence"),
    [
        (BMBOSampler(seed=1), "the sampler has only one"),
        (optuna.samplers.RandomSampler(), "the sampler of this study is a RandomSampler"),
    ],
)
def test_our_pruner_says_what_it_needs(sampler, sentence):
    study = optuna.create_study(sampler=sampler, pruner=BMBOPruner())
    with pytest.raises(ValueError, match=sentence):
        study.optimize(training, n_trials=1)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"fidelities": {}}, "at least one step"),
        ({"fidelities": {1.5: 1.0}}, "a step must be a whole number of at least 0, got 1.5"),
        ({"fidelities": {1: "a"}}, "the cost of step 1 must be a number, got 'a'"),
        ({"fidelities": {1: 5.0, 2: 1.0}}, "costs must be positive and grow with the step"),
        ({"fidelities": [0, 2]}, "costs must be positive and grow with the step"),
        ({"fidelities": "9"}, "must be a mapping from steps to costs, or a list of steps"),
        ({"total_cost": 0}, "total_cost must be positive"),
        ({"method": "screening"}, "method must be a method of bmbo"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_wrong_arguments_are_explained(given, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        BMBOSampler(**given)


def test_ask_and_tell_hears_that_the_budget_is_spent(caplog):
    study = study_of(BMBOSampler(total_cost=1, seed=1))
    study.tell(study.ask(SPACE), 1.0)
    assert "nothing is left of total_cost=1; ask for no more trials" in caplog.text
