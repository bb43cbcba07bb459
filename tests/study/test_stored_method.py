"""The method of a study is kept in its record: who goes on with the study has it, and another one is announced."""

import json
from dataclasses import replace

import pytest

import bmbo
from bmbo.ledger import attribute_keys
from bmbo.methods.remembered import call_of
from bmbo.study.stored_method import described
from support import command_line
from support.command_line import STUDY
from support.small_studies import InTurn, bowl, quiet, study_of

# Fixtures of the tests of the command line.
folder, said = command_line.folder, command_line.said


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


def again(storage, method=None):
    return bmbo.load_study(study_name="study", storage=storage, method=method)


def test_a_method_knows_the_call_that_made_it():
    made = bmbo.screening(start_share=0.1, looks=True)
    assert str(call_of(made)) == "screening(start_share=0.1)"
    assert call_of(replace(made, start=made.start)) is None
    assert call_of(InTurn()) is None


@pytest.mark.parametrize(
    "method", [bmbo.screening(looks=False), bmbo.random_search(), bmbo.bmbo_gp(num_startup=3)], ids=str
)
def test_who_loads_a_study_has_its_method(storage, method, caplog):
    study_of(method, storage=storage, study_name="study")
    assert again(storage).policy == method
    assert study_of(method, storage=storage, study_name="study", load_if_exists=True).policy == method
    assert not caplog.records


def test_another_method_is_announced_and_kept_once_it_runs(storage, caplog):
    study_of(bmbo.random_search(), storage=storage, study_name="study")
    other = again(storage, bmbo.screening())
    assert "'study' has the method random_search(); screening() is used now" in caplog.text
    assert again(storage).policy == bmbo.random_search()
    quiet(other, bowl, n_trials=1)
    assert again(storage).policy == bmbo.screening()


def test_a_method_that_cannot_be_stored_is_asked_for(storage, caplog):
    study = quiet(study_of(InTurn(), storage=storage, study_name="study"), bowl, n_trials=1)
    assert again(storage).policy == bmbo.screening()
    assert "has the method InTurn of your own" in caplog.text
    assert "give it as method=" in caplog.text
    assert study.policy == InTurn()


def test_settings_that_are_objects_are_shown_but_not_made_again():
    inference = bmbo.inference.NUTS()
    assert described(bmbo.bmbo_darn(inference=inference)) == {
        "shown": f"bmbo_darn(inference={inference!r})",
        "name": None,
        "settings": {},
    }


def test_a_study_from_before_methods_were_stored_opens_without_a_word(storage, caplog):
    study = quiet(study_of(bmbo.random_search(), storage=storage, study_name="study"), bowl, n_trials=1)
    ledger = study._ledger
    ledger.storage.set_study_user_attr(ledger._study_id, attribute_keys.METHOD, None)
    caplog.clear()
    assert again(storage).policy == bmbo.screening()
    assert not caplog.records


def test_the_commands_go_on_with_the_method_of_the_study(folder, said):
    (folder / "study.toml").write_text(STUDY.replace('method = "random_search"\n', ""))
    assert said("run", "study.toml", "--n-trials", "1", "--method", "random_search")[0] == 0
    code, _, err = said("resume", "study.toml", "--n-trials", "2")
    assert code == 0
    assert "is used now" not in err
    assert json.loads(said("status", "study.toml", "--json")[1])["method"] == "random_search()"
    assert "method: random_search()" in said("status", "study.toml")[1]
    _, _, err = said("resume", "study.toml", "--n-trials", "3", "--method", "screening")
    assert "has the method random_search(); screening() is used now" in err
