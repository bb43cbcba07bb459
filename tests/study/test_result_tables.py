"""Tables of results: which column means what, and what a field of text stands for."""

import json

import pandas as pd
import pytest

from bmbo import Categorical, Fidelity, Float, Int, create_study
from support.small_studies import study_of

SPACE = {
    "x": Float(0, 1),
    "n": Int(1, 9),
    "kind": Categorical(["a", None, 3, 0.5, True]),
    "params_y": Float(0, 1),
    "cost": Int(0, 3),
}
FIDELITIES = [Fidelity(1, cost=1), Fidelity("full", cost=5)]


def new():
    return create_study(space=SPACE, fidelities=FIDELITIES)


def filled():
    study = new()
    for place, kind in enumerate(["a", None, 3, 0.5, True]):
        params = {"x": 0.1 * place + 0.2, "n": place + 1, "kind": kind, "params_y": 0.5, "cost": 2}
        study.add_trial(params, 1.0 / 3.0 + place, level=place % 2, cost=0.1)
    noted = study.ask()[0]
    noted.set_user_attr("host", "a")
    study.tell(noted, error="it broke")
    study.enqueue({"x": 0.5, "n": 1, "kind": "a", "params_y": 0.0, "cost": 0})
    return study


def known(study):
    return [(t.params, t.value, t.level, t.cost) for t in study.trials if t.state == "complete"]


@pytest.mark.parametrize("through", ["csv", "json", "frame", "pandas csv"])
def test_a_table_of_a_study_is_read_back_as_it_was(tmp_path, through):
    study, other, path = filled(), new(), tmp_path / f"trials.{through.split()[-1]}"
    table = study.trials_dataframe()
    if through == "json":
        # Its own writer of JSON leaves out the last digits.
        path.write_text(json.dumps(table.to_dict("records"), default=str))
    else:
        table.to_csv(path, index=False)
    source = {"frame": table, "pandas csv": None}.get(through, path)
    other.add_trials(pd.read_csv(path) if source is None else source)
    assert known(other) == known(study)
    assert len(other.trials) == 5


@pytest.mark.usefixtures("as_a_user")
def test_two_columns_for_one_parameter_are_refused():
    study = study_of()
    with pytest.raises(ValueError, match="the table has two columns for parameter 'x': 'x' and 'params_x'"):
        study.add_trials(pd.DataFrame({"x": [0.1], "params_x": [0.9], "n": [1], "value": [1.0]}))
    assert study.trials == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "its first line is empty"),
        ("SQLite format 3\0", "it has no results, and its first line names no column 'value'"),
        ("x,n,value\n0.1,1\n", "result 0 has 2 fields, and the head has 3"),
        ("x,x,n,value\n0.1,0.2,1,2\n", "it has two columns 'x'"),
        ('x,n,value\n0.1,"1,2', "cannot be read"),
        ("x,n,value\n0.1,one,2\n", "result 0: parameter 'n': Int: value must be an integer, got 'one'"),
        ("x,n,value\n0.1,1,\n", "result 0: an objective must return a real number, got None"),
        ("x,n,value\n0.1,1,nan\n", "result 0: an old result must have a finite value, got nan"),
        ("x,n,value,level\n0.1,1,2,1e400\n", "level inf is not one of 0 to 1"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_a_sentence(tmp_path, text, sentence):
    study, path = study_of(), tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises((TypeError, ValueError), match=sentence):
        study.add_trials(path)
    assert study.trials == []


def test_a_file_that_is_no_table_is_refused_in_a_sentence(tmp_path):
    files = {"a.csv": b"\xff\xfe\x00", "a.json": b"{}", "b.json": b"[[1]]", "c.json": b"[" * 99999}
    for name, written in files.items():
        (tmp_path / name).write_bytes(written)
        with pytest.raises(ValueError, match=f"the table .*{name} cannot be read: "):
            study_of().add_trials(tmp_path / name)
    with pytest.raises(ValueError, match="there is no table"):
        study_of().add_trials(tmp_path / "none.csv")
