"""Names that belong to a storage stand in one file each."""

import ast
import re
from pathlib import Path

import optuna
import pytest

import bmbo
from bmbo.ledger import attribute_keys
from bmbo.ledger.optuna_private import enqueued_params, trial_id

SOURCE = Path(bmbo.__file__).parent
ADAPTER = SOURCE / "ledger" / "optuna_private.py"
KEYS = SOURCE / "ledger" / "attribute_keys.py"

# Names of Optuna's own that begin with an underscore or that it calls internal.
PRIVATE = re.compile(r"optuna[\w.]*\._|\._trial_id\b|[\"._]_backend\b|_file_path\b|\bget_storage\b|\"fixed_params\"")


def test_every_key_has_its_own_text():
    keys = [text for name, text in vars(attribute_keys).items() if name.isupper()]
    assert len(keys) == len(set(keys)) > 10
    assert all(key.startswith("bmbo:") for key in keys)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_one_file_knows_the_keys_and_one_the_private_names(path):
    texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    assert path == KEYS or not any(isinstance(text, str) and text.startswith("bmbo:") for text in texts)
    assert path == ADAPTER or not PRIVATE.search(path.read_text())


def test_optuna_has_the_private_names_that_are_used():
    study = optuna.create_study()
    study.enqueue_trial({"x": 0.5})
    waiting = study.get_trials()[0]
    assert enqueued_params(waiting) == {"x": 0.5}
    study.tell(study.ask(), 1.0)
    assert trial_id(study.get_trials()[0]) == 0
