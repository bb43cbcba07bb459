"""Names that a study cannot have, and the record of who plans beside studies of others."""

import optuna
import pytest

from bmbo.ledger import Ledger, Owner, open_storage
from support.study_ledgers import DEFINITION, ledger_in, planned


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("x/lease", "must not end in '/lease': under the name 'x/lease' is kept who plans the study 'x'"),
        ("x/lease/lease", "must not end in '/lease'"),
        ("n" * 300, "at most 250 characters, got 300"),
        ("a\0b", "printable characters only, got '\\x00'"),
        ("a\nb", "printable characters only"),
        ("a\ud800b", "printable characters only"),
    ],
    ids=["record", "record of a record", "long", "null", "line", "half"],
)
def test_a_name_that_would_do_harm_is_refused_before_anything_is_written(name, sentence, tmp_path):
    with pytest.raises(ValueError, match="study_name must") as refusal:
        Ledger.create(f"sqlite:///{tmp_path}/study.db", name, DEFINITION, load_if_exists=False)
    assert sentence in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_a_study_of_somebody_else_under_the_name_of_the_record_of_planners_is_kept(tmp_path):
    storage = open_storage(f"sqlite:///{tmp_path}/study.db")
    foreign = optuna.create_study(study_name="study/lease", storage=storage)
    foreign.add_trial(optuna.trial.create_trial(value=1.0))
    ledger = ledger_in(storage)
    with pytest.raises(ValueError, match="has a study 'study/lease' with results of its own"):
        ledger.lease(Owner.new(), 60.0).acquire()
    planned(ledger)
    ledger.delete()
    assert [trial.state.name for trial in foreign.trials] == ["COMPLETE"]
