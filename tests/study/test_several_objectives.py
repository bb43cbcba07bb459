"""Several objectives: the front is kept, searched and shown, and nobody with one objective sees a change."""

import json
import math

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage

import bmbo
from bmbo.cli import main
from bmbo.cli.command_objective import CommandError, CommandObjective
from bmbo.cli.study_file import StudyFile
from bmbo.cli.toml_with_lines import TomlError
from bmbo.history import History, Outcome, Query
from bmbo.history.front_volume import volume_of, volumes_after
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Ladder, Objective, Problem, Space, as_objectives
from bmbo.testing import check_policy
from support.study_ledgers import storage_of_kind

SPACE = {"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)}
FIDELITIES = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]
NAMED = {"loss": "minimize", "gain": "maximize"}


@pytest.fixture(params=["memory", "sqlite", "journal"])
def storage(request, tmp_path):
    return storage_of_kind(request, tmp_path)


def created(directions=NAMED, method=None, **more):
    return bmbo.create_study(
        space=SPACE, fidelities=FIDELITIES, directions=directions, method=method or bmbo.screening(), **more
    )


def opposed(trial):
    """The front is the line from (0.2, 0) to (0.8, 0)."""
    x, y = trial.params["x"], trial.params["y"]
    return (x - 0.2) ** 2 + y**2 + 0.01 / trial.fidelity, -((x - 0.8) ** 2) - y**2


def run(study, objective=opposed, **limits):
    study.optimize(objective, **limits, show_progress_bar=False)
    return study


def told(values, **more):
    """A study in which these values were told at the top."""
    study = created(**more)
    for place, each in enumerate(values):
        study.add_trial({"x": 0.1 * place, "y": 0.5}, each)
    return study


def test_the_default_finds_the_front():
    study = run(created(reference_point=[0.5, -0.5]), total_cost=110)
    late = [trial for trial in study.best_trials if trial.number > 10]
    assert len(late) >= 4
    assert all(0.05 < trial.params["x"] < 0.95 and trial.params["y"] < 0.3 for trial in late)
    assert study.hypervolume() > 0.75 * 0.1744  # that of the whole front, up to the reference point, is 0.1744
    assert "configurations form the front at the top" in study.answer()
    assert "loss" in study.answer()


def test_all_values_are_kept_in_every_storage_and_optuna_finds_the_same_front(storage):
    study = run(created(study_name="m", storage=storage, method=bmbo.random_search()), n_trials=4)
    low = study.enqueue({"x": 0.2, "y": 0.0}, fidelity=1)
    run(study, n_trials=5)
    again = bmbo.load_study(study_name="m", storage=storage)
    assert [trial.values for trial in again.trials] == [trial.values for trial in study.trials]
    assert again.trials[0].values == pytest.approx(opposed(again.trials[0]))
    assert again.problem.objectives == (Objective("loss", False), Objective("gain", True))
    theirs = optuna.load_study(study_name="m", storage=study._ledger.storage)
    assert theirs.metric_names == ["loss", "gain"]
    assert [trial.number for trial in theirs.best_trials] == [trial.number for trial in study.best_trials]
    assert low.number not in [trial.number for trial in theirs.best_trials]
    assert theirs.trials[low.number].values == list(study.trials[low.number].values)


def test_the_front_has_what_no_other_beats_and_keeps_the_constraints():
    study = told(
        [
            ((1.0, 1.0), {"gb": 1}),
            ((0.5, 0.5), {"gb": 1}),
            ((1.0, 0.5), {"gb": 1}),
            ((0.0, 9.0), {"gb": 99}),
            ((0.5, 0.5), {"gb": 1}),
        ],
        constraints={"gb": ("<=", 16)},
    )
    study.add_trial({"x": 0.9, "y": 0.9}, ((0.0, 2.0), {"gb": 1}), fidelity=1)
    assert [trial.number for trial in study.best_trials] == [0, 1]
    assert [trial.value for trial in study.best_trials] == [None, None]
    study.drop(1)
    assert [trial.number for trial in study.best_trials] == [0, 4]


def test_with_one_objective_the_best_trials_are_the_best_trial():
    study = bmbo.create_study(space=SPACE, fidelities=FIDELITIES, directions=["maximize"])
    assert study.problem.objectives == ()
    assert study.best_trials == []
    for place, value in enumerate([1.0, 3.0, 2.0]):
        study.add_trial({"x": 0.1 * place, "y": 0.5}, value)
    assert [trial.number for trial in study.best_trials] == [study.best_trial.number] == [1]
    assert study.best_trial.values == (3.0,)
    assert study.directions == ("maximize",)


@pytest.mark.parametrize("name", ["best_trial", "best_value", "best_params", "direction"])
def test_what_only_one_objective_has_is_refused_in_one_sentence(name):
    with pytest.raises(ValueError, match=r"2 objectives has (no single best trial: study.best_trials|several)"):
        getattr(told([(1.0, 1.0)]), name)


def test_recommendations_and_reports_on_the_way_are_refused():
    study = told([(1.0, 1.0)], method=bmbo.random_search())
    with pytest.raises((ValueError, TypeError), match="no single best trial"):
        study.recommendation()
    (trial,) = study.ask()
    with pytest.raises(NotImplementedError, match="no single value says how good it is so far"):
        trial.report(1.0, 1)
    assert trial.should_stop() is False


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (1.0, "must return 2 numbers, for loss, gain, got 1.0"),
        ((1.0,), "must return 2 numbers"),
        ((1.0, 2.0, 3.0), "must return 2 numbers"),
        ((1.0, {"memory": 3.0}), "must return 2 numbers"),
        (("a", 2.0), "must return a real number, got 'a'"),
        ((1.0, None), "must return a real number, got None"),
        ({1.0, 2.0}, "must return 2 numbers"),
    ],
)
def test_what_is_not_a_number_for_each_objective_is_refused(returned, said):
    with pytest.raises(TypeError, match=said):
        run(created(method=bmbo.random_search()), lambda _: returned, n_trials=1)
    with pytest.raises(TypeError, match=said):
        told([returned])


def test_a_value_that_is_not_finite_is_a_failure_of_the_trial():
    study = created(method=bmbo.random_search())
    first, second = study.ask(2)
    study.tell(first, (1.0, math.nan))
    assert (study.trials[0].state, study.trials[0].values) == ("failed", ())
    assert "the objective returned (1.0, nan)" in (study.trials[0].error or "")
    assert study.tell(second, [1.0, 2.0]).values == (1.0, 2.0)
    with pytest.raises(ValueError, match=r"must have a finite value, got \(1.0, inf\)"):
        told([(1.0, math.inf)])


def test_many_values_where_there_is_one_objective_name_directions():
    study = bmbo.create_study(space=SPACE, fidelities=FIDELITIES, method=bmbo.random_search())
    with pytest.raises(TypeError, match=r"must return a real number, got \(1.0, 2.0\); create_study\(directions="):
        run(study, lambda _: (1.0, 2.0), n_trials=1)


@pytest.mark.parametrize(
    ("directions", "reference", "said"),
    [
        ("minimize", None, "directions must be as in"),
        (3, None, "directions must be as in"),
        ([], None, "one to 4 objectives, got 0"),
        (["minimize"] * 5, None, "one to 4 objectives, got 5"),
        (["minimize", "up"], None, "must be 'minimize' or 'maximize', got 'up'"),
        ({"a": "minimize", "": "maximize"}, None, "named by a text that is no number"),
        ({"a": "minimize", "1": "maximize"}, None, "named by a text that is no number"),
        ({"a": "minimize", 1: "maximize"}, None, "named by a text that is no number"),
        ({"a": "minimize", "value": "maximize"}, None, "cannot be called 'value'"),
        (["minimize"] * 2, [1.0], "must be a list of 2 finite numbers"),
        (["minimize"] * 2, [1.0, math.inf], "must be a list of 2 finite numbers"),
        (["minimize"] * 2, 1.0, "must be a list of 2 finite numbers"),
        (["minimize"] * 2, [1.0, "2"], "must be a list of 2 finite numbers"),
        (None, [1.0, 2.0], "reference_point belongs to several objectives"),
        (["minimize"], [1.0], "directions has one"),
    ],
)
def test_directions_that_make_no_sense_are_refused(directions, reference, said):
    with pytest.raises((TypeError, ValueError), match=said):
        as_objectives(directions, reference)


def test_arguments_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match="direction for one objective, or directions for several"):
        created(direction="maximize")
    with pytest.raises(ValueError, match="compares one value with that of others"):
        created(early_stopping=True)
    with pytest.raises(ValueError, match=r"bmbo_gp\(\) knows nothing of directions; bmbo.screening\(\) does"):
        created(method=bmbo.bmbo_gp())
    with pytest.raises(ValueError, match="hypervolume belongs to several objectives"):
        bmbo.create_study(space=SPACE, fidelities=FIDELITIES).hypervolume()


def test_a_study_with_other_objectives_is_another_one(tmp_path):
    url = f"sqlite:///{tmp_path}/m.db"
    created(study_name="m", storage=url, reference_point=[1, 0])
    again = {"study_name": "m", "storage": url, "load_if_exists": True}
    for directions, reference, said in (
        (["minimize"] * 3, None, "it has 2 objectives, not 3"),
        ({"loss": "minimize", "gain": "minimize"}, [1, 0], "its direction is 'minimize loss, maximize gain'"),
        (NAMED, [2, 0], r"its reference_point is \(1.0, 0.0\), not \(2.0, 0.0\)"),
    ):
        with pytest.raises(ValueError, match=said):
            created(directions, reference_point=reference, **again)
    assert created(reference_point=[1, 0], **again).directions == ("minimize", "maximize")


def test_definitions_hold_objectives_only_where_there_are_several():
    plain = Problem(Space(SPACE), Ladder(FIDELITIES))
    assert "objectives" not in StudyDefinition(plain, 0).to_json()
    several = Problem(Space(SPACE), Ladder(FIDELITIES), objectives=as_objectives(NAMED, [1.0, 2.0]))
    stored = json.loads(json.dumps(StudyDefinition(several, 0).to_json()))
    assert StudyDefinition.from_json(stored).problem == several
    for wrong in (3, [{"name": "a"}], [{"name": "a", "maximise": 1}], stored["objectives"][:1]):
        with pytest.raises(ValueError, match="something else than bmbo changed it"):
            StudyDefinition.from_json({**stored, "objectives": wrong})


def test_a_trial_that_lost_a_value_is_named():
    storage = InMemoryStorage()
    study = told([(1.0, 2.0)], study_name="m", storage=storage)
    (trial,) = study.ask()
    number = storage.get_trial_id_from_study_id_trial_number(0, trial.number)
    state = optuna.trial.TrialState.PRUNED if trial.level == 0 else optuna.trial.TrialState.COMPLETE
    storage.set_trial_state_values(number, state, [1.0])
    with pytest.raises(ValueError, match="trial 1 in the storage has lost its value"):
        study.trials  # noqa: B018 (reading raises)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_what_was_exported_can_be_added_again(tmp_path, kind):
    url, table = f"sqlite:///{tmp_path}/m.db", tmp_path / f"m.{kind}"
    study = told([(1.0, 2.0), (3.0, 1.0)], study_name="m", storage=url)
    assert main(["export", "--storage", url, "--study", "m", "--output", str(table)]) == 0
    again = created()
    again.add_trials(table)
    assert [trial.values for trial in again.trials] == [(1.0, 2.0), (3.0, 1.0)]
    theirs = optuna.load_study(study_name="m", storage=url)
    for source in (study, theirs):
        other = created()
        other.add_trials(source)
        assert [trial.values for trial in other.trials] == [(1.0, 2.0), (3.0, 1.0)]


def test_an_older_study_of_several_objectives_proposes_its_front_first():
    old = told([(9.0, 0.0), (1.0, 1.0), (8.0, 0.5)])
    assert [trial.params["x"] for trial in created().learn_from(old, 1)] == pytest.approx([0.1])


def test_commands_show_the_front(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/m.db"
    told([(1.0, 2.0), (3.0, 1.0), (0.5, 1.5)], study_name="m", storage=url)
    where = ["--storage", url, "--study", "m"]
    assert main(["status", *where]) == 0
    assert "front: 2 trials on the front, hypervolume" in capsys.readouterr().out
    assert main(["best", *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["trial", "loss", "gain", "x", "y"]
    assert [line.split()[0] for line in lines[2:] if line.split()[0].isdecimal()] == ["2", "0"]
    assert main(["best", "--json", *where]) == 0
    assert [each["values"] for each in json.loads(capsys.readouterr().out)] == [[1.0, 2.0], [0.5, 1.5]]
    assert main(["trials", *where]) == 0
    assert capsys.readouterr().out.split()[:7] == ["trial", "state", "level", "fidelity", "loss", "gain", "cost"]


FILE = """
[study]
name = "m"
directions = { loss = "minimize", seconds = "minimize" }
reference_point = [1, 60]
[space.x]
type = "float"
low = 0
high = 1
[[fidelities]]
value = 1
cost = 1
[objective]
command = ["{python}", "-c", "import json; print(json.dumps(dict(value=[{x}, 2.5], note=3)))"]
[run]
n_trials = 2
"""


def test_a_study_file_and_a_program_have_several_objectives(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(FILE)
    assert main(["run", str(path)]) == 0
    assert "one configuration beats all others: trial 0 with loss" in capsys.readouterr().out
    study = bmbo.load_study(study_name="m", storage="sqlite:///m.db")
    assert [trial.values[1] for trial in study.trials] == [2.5, 2.5]
    assert study.trials[0].user_attrs == {"note": 3}
    assert [each.reference for each in study.problem.objectives] == [1.0, 60.0]


@pytest.mark.parametrize(
    "printed", ["0.5", "[1]", "[1, 2, 3]", '{"value": 1}', '[1, "2"]', '{"loss": 1, "seconds": 2}']
)
def test_a_program_that_prints_anything_else_is_told_what_to_print(printed):
    command = CommandObjective(["{python}", "-c", f"print({printed!r})".replace("{", "{{").replace("}", "}}")])
    with pytest.raises(CommandError, match="must be a JSON list of 2 numbers or an object with a list of 2 numbers"):
        command(bmbo.Trial(0, {}, 1, 0, num_objectives=2))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('directions = ["minimize", "up"]', "line 4: .*'up'"),
        ('direction = "minimize"\ndirections = ["minimize", "minimize"]', "direction or directions, not both"),
        ("reference_point = [1, 2]", "line 4: .*belongs to several objectives"),
        ('directions = ["minimize", "minimize"]\nearly_stopping = true', "compares one value|needs a lower fidelity"),
    ],
)
def test_a_study_file_that_makes_no_sense_names_the_line(tmp_path, line, said):
    path = tmp_path / "study.toml"
    head = 'directions = { loss = "minimize", seconds = "minimize" }\nreference_point = [1, 60]'
    path.write_text(FILE.replace(head, line))
    with pytest.raises(TomlError, match=said):
        StudyFile.read(path)


def beats(one, other):
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


ANY = st.floats(-5, 5).map(lambda value: round(value, 1))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=7))
def test_the_front_is_what_no_other_beats_and_its_volume_grows(rows):
    problem = Problem(Space(SPACE), Ladder(FIDELITIES), objectives=as_objectives(["minimize"] * 3, [5.0] * 3))
    history = History(problem)
    for number, values in enumerate(rows):
        history = history.asked(Query((0.1 * number, 0.5), 1))
        history = history.with_outcome(number, Outcome.of_several(values, 10.0))
    kept = [row for row in dict.fromkeys(rows) if not any(beats(other, row) for other in rows)]
    assert sorted(trial.values for trial in history.front) == sorted(kept)
    assert history.best is None
    volumes = volumes_after(history, history.trials)
    assert volumes == sorted(volumes)
    assert volumes[-1] == pytest.approx(volume_of(history))


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_the_default_keeps_the_promises_of_a_method(size):
    objectives = as_objectives(["minimize"] * size)
    check_policy(bmbo.screening(), Problem(Space(SPACE), Ladder(FIDELITIES), objectives=objectives), num=4, rounds=4)


@pytest.mark.slow
def test_several_objectives_go_with_failures_continued_training_and_many_levels(tmp_path):
    def fails(trial):
        if trial.params["x"] > 0.7:
            raise MemoryError("too large")
        return opposed(trial)

    def continuing(trial):
        (trial.checkpoint_dir / "kept").touch()
        return opposed(trial)

    study = run(created(), fails, total_cost=120, catch=Exception)
    assert any(trial.state == "failed" for trial in study.trials)
    assert study.best_trials
    climbing = run(created(continues=True, checkpoints=tmp_path), continuing, total_cost=90)
    assert sum(trial.resume_from is not None for trial in climbing.trials) >= 3
    many = bmbo.create_study(
        space=SPACE, fidelities=bmbo.FidelityRange(1, 20), directions=["minimize", "maximize"], reference_point=[1, -1]
    )
    assert run(many, total_cost=160, batch_size=2).hypervolume() > 0.5


def test_directions_at_their_default_change_no_suggestion_and_no_record():
    def plain(trial):
        return (trial.params["x"] - 0.3) ** 2 + trial.params["y"] / trial.fidelity

    with_it = run(created(None, reference_point=None), plain, n_trials=12, batch_size=2)
    single = run(created(["minimize"]), plain, n_trials=12, batch_size=2)
    assert [(t.params, t.value, t.level) for t in with_it.trials] == [
        (t.params, t.value, t.level) for t in single.trials
    ]
    stored = with_it._ledger.storage.get_all_trials(with_it._ledger._study_id)
    assert all(len(trial.values) == 1 for trial in stored)
    assert all(bool(trial.intermediate_values) == (trial.user_attrs["bmbo:level"] == 0) for trial in stored)
