"""Noisy studies: configurations are run again, and the answer is what is believed, not what was lucky."""

import json
from typing import Any

import numpy as np
import pytest

import bmbo
from bmbo.acquisition.look_or_evaluate import Belief
from bmbo.acquisition.run_again import offer_to_run_again
from bmbo.cli import main
from bmbo.history import History, Outcome, Query
from bmbo.history.host_observations import Observations
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Ladder, Problem, Space
from bmbo.report.model_view import ModelView
from bmbo.report.noise_table import noise_notes, noise_of
from bmbo.study.reporting import report_data
from support.study_ledgers import storage_of_kind

SPACE = {"x": bmbo.Int(0, 9)}
FIDELITIES = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]
LUCKY = 7


@pytest.fixture(params=["memory", "sqlite", "journal"])
def storage(request, tmp_path):
    return storage_of_kind(request, tmp_path)


def created(**more):
    settings: dict[str, Any] = {"space": SPACE, "fidelities": FIDELITIES, "noisy": True, **more}
    return bmbo.create_study(**settings)


def value_of(trial):
    assert trial.value is not None
    return float(trial.value)


def with_luck(**more):
    """A study in which x=3 is good in four runs, and x=7 was lucky in one run of four."""
    study = created(**more)
    for x in range(10):
        for run in range(4 if x in (3, LUCKY) else 2):
            value = 0.1 * abs(x - 3) + (0.05, -0.05)[run % 2] - (0.6 if (x, run) == (LUCKY, 0) else 0.0)
            study.add_trial({"x": x}, value)
    return study


def test_the_answer_is_what_is_believed_and_not_the_luckiest_run():
    study = with_luck()
    lucky = min(study.trials, key=value_of)
    assert lucky.params == {"x": LUCKY}
    found = study.recommendation()
    runs = [trial for trial in study.trials if trial.params == found.params]
    assert found.params["x"] in (2, 3, 4)
    assert found.trials == tuple(trial.number for trial in runs)
    assert found.mean == pytest.approx(np.mean([value_of(trial) for trial in runs]))
    assert found.standard_error is not None
    assert found.standard_error > 0
    assert study.best_params == found.params
    assert study.best_trial.number == found.trials[0]
    assert study.best_value == found.value > value_of(lucky)
    said = study.answer()
    assert f"use x={found.params['x']}" in said
    assert f"trial {lucky.number} gave" in said
    assert "luck" in said


def test_without_a_model_the_best_observed_is_the_best():
    study = with_luck(method=bmbo.random_search())
    assert study.best_params == {"x": LUCKY}
    assert study.best_value == study.best_trial.value


def test_nothing_changes_where_noise_was_not_declared():
    study = with_luck(noisy=False)
    assert study.best_params == {"x": LUCKY}
    assert study.best_value == min(map(value_of, study.trials))
    assert "noisy" not in StudyDefinition(study.problem, 0).to_json()


def test_a_run_repeats_what_is_worth_it_and_every_repeat_has_a_number():
    drawn = {}

    def objective(trial):
        drawn.setdefault((trial.params["x"], trial.level), []).append(trial.repeat)
        noise = np.random.default_rng([trial.params["x"], trial.level, trial.repeat]).normal()
        return 0.1 * abs(trial.params["x"] - 3) + 0.2 * noise

    study = created(space={"x": bmbo.Int(0, 3)}, fidelities=FIDELITIES[1:])
    study.optimize(objective, n_trials=14, batch_size=2, show_progress_bar=False)
    assert len(drawn) <= 4  # so ten trials or more are repeats
    assert all(repeats == list(range(len(repeats))) for repeats in drawn.values())


@pytest.mark.parametrize("levels", [2, 12])
def test_another_run_is_offered_in_place_of_a_new_point_where_it_is_worth_more(levels):
    """Few levels have a process each, and many have one together."""
    ladder = Ladder([bmbo.Fidelity(level, cost=1 + level) for level in range(levels)])
    problem = Problem(Space({"x": bmbo.Int(0, 3)}), ladder, noisy=True)
    history, rng = History(problem), np.random.default_rng(0)
    # Enough at every level, so that the start is over.
    for number, level in enumerate([0] * 8 + [*range(1, levels)] * 3 + [ladder.top] * 12):
        unit = problem.space.encode({"x": number % 4})
        value = 0.3 * (number % 4) + 0.2 * float(rng.normal())
        history = history.asked(Query(unit, level)).with_outcome(number, Outcome(value, 1.0))
    (choice,), _ = bmbo.screening().explain(0, history, 1)
    assert len({offer.level for offer in choice.offers}) == len(choice.offers)
    assert choice.offers[0].level == ladder.top
    posteriors, _ = bmbo.screening().surrogate.fit(Observations.of(history))
    again = offer_to_run_again(Belief.of(posteriors, ladder.top, noisy=True), ladder.costs[ladder.top])
    assert again is not None
    assert (choice.offers[0].unit, choice.query.level) == (again.unit, ladder.top)
    assert choice.offers[0].gain == pytest.approx(again.gain)


def test_repeats_are_counted_in_every_storage_and_by_hand(storage):
    study = created(study_name="n", storage=storage)
    queued = [study.enqueue({"x": 4}) for _ in range(3)] + [study.enqueue({"x": 4}, fidelity=1)]
    assert [trial.repeat for trial in queued] == [0, 1, 2, 0]
    asked = study.ask(3)
    assert sorted(trial.repeat for trial in asked) == [0, 1, 2]
    for trial in asked:
        study.tell(trial, float(trial.repeat))
    again = bmbo.load_study(study_name="n", storage=storage)
    assert again.problem.noisy
    assert [trial.repeat for trial in again.trials] == [0, 1, 2, 0]


def test_a_second_run_does_not_go_on_from_a_checkpoint(tmp_path):
    for noisy in (False, True):
        study = created(noisy=noisy, checkpoints=tmp_path / str(noisy))
        trial = study.ask()[0]
        (trial.checkpoint_dir / "weights").write_text("1")
        study.tell(trial, 1.0)
        study.enqueue(trial.params)
        assert (study.ask()[0].resume_from is None) == noisy


def test_useful_checkpoints_of_a_noisy_study_are_all_at_the_top(tmp_path):
    study = created(checkpoints=tmp_path)
    for x, fidelity in ((1, 10), (1, 10), (2, 10), (3, 1)):
        study.enqueue({"x": x}, fidelity=fidelity)
    for trial in study.ask(4):
        (trial.checkpoint_dir / "weights").write_text("1")
        study.tell(trial, float(trial.number))
    assert study.clean_checkpoints("useful") == [3]


def test_the_noise_of_each_level_is_learned():
    rng = np.random.default_rng(0)
    problem = Problem(Space({"x": bmbo.Float(0, 1)}), Ladder(FIDELITIES), noisy=True)
    history, true = History(problem), (0.3, 0.05)
    for number in range(80):
        x, level = (number % 10) / 9, int(number >= 40)
        value = np.sin(4 * x) + true[level] * rng.normal()
        history = history.asked(Query((x,), level)).with_outcome(number, Outcome(float(value), 1.0))
    posteriors, _ = bmbo.screening().surrogate.fit(Observations.of(history))
    assert posteriors.units is not None
    for level in range(2):
        learned = np.sqrt(posteriors.weights @ [part.noise[level] for part in posteriors.parts])
        # 30 degrees of freedom leave an eighth; the prior and the smoothness of the function add to that.
        assert learned * posteriors.units[level] == pytest.approx(true[level], rel=0.4)


def test_the_report_shows_noise_and_says_where_it_cannot_be_told():
    study = with_luck()
    study.add_trial({"x": 1}, 0.5, fidelity=1)
    study.add_trial({"x": 2}, 0.4, fidelity=1)
    data = report_data(study._ledger, study.policy, 0, None, model=True)
    rough, top = noise_of(data, ModelView.of(data))
    assert rough.repeated is None
    assert top.repeated is not None
    assert top.repeated.low < top.repeated.deviation < top.repeated.high
    assert top.believed is not None
    assert top.row[2] == str(top.repeated.freedom) == "14"
    (note,) = noise_notes((rough, top))
    assert note.startswith("Nothing was run twice at 1:")


def test_the_page_of_a_report_begins_with_what_is_believed(tmp_path):
    pytest.importorskip("plotly")
    text = with_luck().report(tmp_path / "noisy.html").read_text()
    assert "Noise by level" in text
    assert text.index("is believed of the recommendation") < text.index("The best observed value")
    plain = with_luck(noisy=False).report(tmp_path / "plain.html").read_text()
    assert "Noise by level" not in plain


def test_the_command_line_says_what_is_believed(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    found = with_luck(study_name="n", storage=url).recommendation()
    where = ["--storage", url, "--study", "n"]
    assert main(["best", *where, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["params"] == dict(found.params)
    assert said["trials"] == list(found.trials)
    assert said["observed"]["params"] == {"x": LUCKY}
    assert main(["best", *where]) == 0
    out = capsys.readouterr().out
    assert "believed" in out
    assert "luck" in out
    assert main(["status", *where]) == 0
    assert "best observed: " in capsys.readouterr().out
    assert main(["trials", *where]) == 0
    assert "repeat" in capsys.readouterr().out.splitlines()[0]


STUDY_FILE = """
[study]
name = "n"
storage = "sqlite:///{folder}/n.db"
noisy = {noisy}
continues = {continues}

[space.x]
type = "int"
low = 0
high = 3

[[fidelities]]
value = 1
cost = 1

[[fidelities]]
value = 2
cost = 2

[objective]
command = ["printf", "%s\\n%s\\n", "{{x}}", "{{repeat}}"]

[run]
n_trials = 4
"""


def write(folder, noisy="true", continues="false"):
    path = folder / "study.toml"
    path.write_text(STUDY_FILE.format(folder=folder, noisy=noisy, continues=continues))
    return str(path)


def test_a_study_file_makes_a_noisy_study_whose_program_gets_the_repeat(tmp_path):
    path = write(tmp_path)
    assert main(["run", path]) == 0
    study = bmbo.load_study(study_name="n", storage=f"sqlite:///{tmp_path}/n.db")
    assert study.problem.noisy
    assert [trial.value for trial in study.trials] == [float(trial.repeat) for trial in study.trials]


@pytest.mark.parametrize(
    ("noisy", "continues", "said"),
    [("1", "false", "noisy in"), ("true", "true", "noisy=True does not go with continues=True")],
)
def test_a_study_file_that_is_wrong_names_the_line(tmp_path, capsys, noisy, continues, said):
    assert main(["run", write(tmp_path, noisy, continues)]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "line 5" in error
    assert not (tmp_path / "n.db").exists()


@pytest.mark.usefixtures("as_a_user")
def test_what_cannot_be_is_refused_in_one_sentence(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with pytest.raises(TypeError, match="noisy must be True or False, got 1"):
        created(noisy=1, storage=url)
    with pytest.raises(ValueError, match="noisy=True does not go with continues=True"):
        created(continues=True, storage=url)
    with pytest.raises(ValueError, match=r"knows nothing of noisy; bmbo.screening\(\) does"):
        created(method=bmbo.methods.bmbo_gp(), storage=url)
    assert not (tmp_path / "study.db").exists()
    created(study_name="n", storage=url)
    with pytest.raises(ValueError, match="it was made with noisy=True, not noisy=False"):
        created(study_name="n", storage=url, load_if_exists=True, noisy=False)
