"""Parameters that exist only sometimes, through a whole study: the record, what is queued and added, tables, Optuna."""

import optuna
import pytest

from bmbo import Categorical, Fidelity, Float, Int, create_study, load_study, methods
from bmbo.testing import check_policy
from support import servers
from support.small_studies import quiet
from support.study_ledgers import storage  # noqa: F401 - a fixture  # pyright: ignore[reportUnusedImport]

postgresql, postgresql_url = servers.postgresql, servers.postgresql_url

SPACE = {
    "booster": Categorical(["tree", "dart", "linear"]),
    "depth": Int(1, 9, when={"booster": ["tree", "dart"]}),
    "rate": Float(0.1, 0.9, when={"booster": "dart"}),
    "note": Categorical(["a", None, "c"], when={"booster": "linear"}),
    "x": Float(0, 1),
}
FIDELITIES = [Fidelity(1, cost=1), Fidelity(10, cost=10)]


def bumpy(trial):
    params = trial.params
    value = {"linear": 1.0, "tree": 0.5, "dart": 0.3}[params["booster"]] + (params["x"] - 0.7) ** 2
    return value + 0.01 * (params.get("depth", 3) - 3) ** 2 + 0.1 / trial.fidelity


def study_in(place=None, **options):
    return create_study(study_name="study", storage=place, space=SPACE, fidelities=FIDELITIES, **options)


def names_that_exist(config):
    more = {"tree": ["depth"], "dart": ["depth", "rate"], "linear": ["note"]}[config["booster"]]
    return ["booster", *more, "x"]


def test_every_configuration_of_the_record_has_what_exists_and_comes_back_from_every_storage(storage):  # noqa: F811
    study = study_in(storage)
    study.enqueue({"booster": "linear", "note": None, "x": 0.123456789})
    study.add_trial({"booster": "tree", "depth": 4, "x": 0.3}, 0.6)
    quiet(study, bumpy, n_trials=16, batch_size=3)
    trials = load_study(study_name="study", storage=storage).trials if isinstance(storage, str) else study.trials
    assert [trial.params for trial in trials] == [trial.params for trial in study.trials]
    assert trials[0].params == {"booster": "linear", "note": None, "x": 0.123456789}
    for trial in trials:
        assert list(trial.params) == names_that_exist(trial.params)
    assert study.best_params["booster"] == study.recommendation().params["booster"] == "dart"
    assert len({str(trial.params) + str(trial.level) for trial in trials}) == len(trials)


def test_optuna_reads_trials_with_the_parameters_that_exist(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    study = quiet(study_in(url), bumpy, n_trials=12)
    read = optuna.load_study(study_name="study", storage=url)
    assert [trial.params for trial in read.trials] == [dict(trial.params) for trial in study.trials]
    assert all(trial.params.keys() == trial.distributions.keys() for trial in read.trials)
    assert len({tuple(trial.params) for trial in read.trials}) > 1


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"booster": "tree", "depth": 4, "rate": 0.5, "x": 0.3}, "'rate' exists only when booster is 'dart', and here"),
        ({"booster": "dart", "depth": 4, "x": 0.3}, r"got missing \['rate'\]"),
    ],
)
def test_what_does_not_fit_is_neither_queued_nor_added(params, sentence):
    study = study_in()
    with pytest.raises(ValueError, match=sentence):
        study.enqueue(params)
    with pytest.raises(ValueError, match=sentence):
        study.add_trial(params, 0.5)
    assert study.trials == []


def test_results_come_back_from_tables_and_from_other_studies(tmp_path, capsys):
    from bmbo.cli import main  # noqa: PLC0415 - only here

    url = f"sqlite:///{tmp_path}/study.db"
    study = quiet(study_in(url), bumpy, n_trials=14)
    written = [dict(trial.params) for trial in study.trials]
    assert len({tuple(params) for params in written}) > 1
    sources = [study, study.trials_dataframe()]
    for suffix in ("csv", "json"):
        path = tmp_path / f"trials.{suffix}"
        assert main(["export", "--storage", url, "--study", "study", "--output", str(path)]) == 0
        sources.append(path)
    for source in sources:
        other = study_in()
        other.add_trials(source)
        assert [dict(trial.params) for trial in other.trials] == written
    capsys.readouterr()
    assert main(["trials", "--storage", url, "--study", "study"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert all(name in head for name in SPACE)
    assert len(rows) == 14


def test_another_condition_is_another_study(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    study_in(url)
    other = {**SPACE, "rate": Float(0.1, 0.9, when={"booster": ["dart", "tree"]})}
    sentence = "its parameter 'rate' is .* when booster is 'dart', not .* when booster is 'dart' or 'tree'"
    with pytest.raises(ValueError, match=sentence):
        create_study(study_name="study", storage=url, load_if_exists=True, space=other, fidelities=FIDELITIES)


@pytest.mark.parametrize("name", ["screening", "random_search"])
def test_methods_suggest_what_can_be_run(name):
    check_policy(getattr(methods, name)(), study_in().problem, num=2, rounds=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bmbo_gp", "mf_gp_ucb"])
def test_methods_with_jax_suggest_what_can_be_run(name):
    study = quiet(study_in(method=getattr(methods, name)()), bumpy, n_trials=16, batch_size=2)
    assert all(list(trial.params) == names_that_exist(trial.params) for trial in study.trials)


def test_a_report_shows_a_study_in_which_parameters_are_absent(tmp_path):
    study = quiet(study_in(), bumpy, n_trials=20)
    page = study.report(tmp_path / "study.html").read_text(encoding="utf-8")
    assert "rate" in page
    assert "Which parameters matter" in page
