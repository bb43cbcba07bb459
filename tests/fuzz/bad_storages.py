"""Make storages that are cut off, foreign, newer or changed by a hostile hand."""

import json
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from bmbo.cli.study_file import StudyFile
from bmbo.history import Outcome, Query
from bmbo.ledger import Ledger
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Problem
from tests.fuzz.bad_study_files import FILE
from tests.fuzz.case import Case

READS = (("status",), ("status", "--json"), ("best",), ("trials",), ("export",), ("retry",), ("drop", "--failed"))

NAMED = ("study.toml", "study.db")
"""How a command may name the study: by its file, or by its database."""

STRANGE = (
    '"text"', "[3]", "{}", "-1", "1.5", "1e999", "NaN", "true", '{"half": ', "", "null and void", '"\\u001b[2J"',
    '"../../etc/passwd"', '{"py/object": "os.system"}', "9" * 400, '"cos\\nsystem\\n(S\'reboot\'\\ntR."', "[" * 3000,
)  # fmt: skip
"""What no attribute of a trial can be, apart from those that are texts or tables."""

OF_TRIALS = tuple(f"bmbo:{name}" for name in ("level", "cost", "seconds", "fidelity"))
RARE = tuple(
    f"bmbo:{name}" for name in ("beat", "retries", "batch", "resume_from", "duplicate_of", "retry_of", "apart")
)
TABLES = ("studies", "trials", "trial_params", "trial_values", "trial_user_attributes", "study_user_attributes")

DEFINITIONS = (
    '"text"', "[]", "{}", "3", '{"format": 2}', '{"format": 1}', '{"half": ', '{"format": [1]}',
    '{"format": 1, "fidelities": [], "space": [], "seed": 0, "direction": "minimize"}',
    '{"format": 1, "fidelities": [{"value": 1, "cost": "x"}], "space": [], "seed": 0, "direction": "minimize"}',
    '{"format": 1, "fidelities": [{"evil": 1}], "space": 7, "seed": 0, "direction": "minimize"}',
    '{"format": 1, "fidelities": [{"value": 1, "cost": 1}], "space": [{"name": "x", "kind": "float", "low": 0, '
    '"high": 1}], "seed": "x", "direction": "minimize"}',
    '{"format": 1, "fidelities": [{"value": 1, "cost": 1}], "space": [{"name": "x", "kind": "os.system"}], "seed": 0, '
    '"direction": "minimize"}',
)  # fmt: skip

INSERT = "insert into trial_user_attributes (trial_id, key, value_json) values (?, ?, ?)"
UPDATE = "update trial_user_attributes set value_json = ? where trial_id = ? and key = ?"
DEFINE = "update study_user_attributes set value_json = ? where key = 'bmbo:definition'"
MARK = "insert into study_user_attributes (study_id, key, value_json) values (1, ?, 'true')"


@dataclass(frozen=True)
class Originals:
    """Hold a whole study in a database and in a journal, and its files of definition."""

    database: bytes
    journal: bytes
    database_file: bytes
    journal_file: bytes


def originals() -> Originals:
    """Return a study with four finished trials and one that waits."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        definition = FILE.replace("sqlite:///study.db", "study.journal")
        for storage in (f"sqlite:///{folder}/study.db", str(folder / "study.journal")):
            (folder / "study.toml").write_text(FILE)
            file = StudyFile.read(folder / "study.toml")
            problem = Problem(file.space, file.ladder)
            ledger = Ledger.create(storage, "study", StudyDefinition(problem, 3), load_if_exists=False)
            for number, level in enumerate((0, 0, 1, 1)):
                unit = problem.space.encode({"x": 0.01, "n": number + 1, "kind": "b"})
                ledger.add(Query(unit, level), Outcome(float(number), 1.0))
            ledger.add(Query(problem.space.encode({"x": 0.05, "n": 9, "kind": 3}), 0))
        # One file, without the log beside it.
        with closing(sqlite3.connect(folder / "study.db")) as used, closing(sqlite3.connect(folder / "one.db")) as one:
            used.backup(one)
            one.execute("pragma journal_mode=delete").close()
        database, journal = ((folder / each).read_bytes() for each in ("one.db", "study.journal"))
        return Originals(database, journal, FILE.encode(), definition.encode())


def of_database(whole: Originals) -> st.SearchStrategy[Case]:
    """Return cases of databases with an attribute, a table or a page that is wrong."""
    trials, strange = st.integers(1, 4), st.sampled_from(STRANGE)
    changes = st.one_of(
        st.builds(lambda trial, key, text: (UPDATE, (text, trial, key)), trials, st.sampled_from(OF_TRIALS), strange),
        st.builds(lambda trial, key, text: (INSERT, (trial, key, text)), trials, st.sampled_from(RARE), strange),
        st.builds(lambda text: (DEFINE, (text,)), st.sampled_from(DEFINITIONS)),
        st.builds(lambda table: (f"drop table {table}", ()), st.sampled_from(TABLES)),
        st.builds(lambda trial: ("delete from trial_values where trial_id = ?", (trial,)), trials),
        st.builds(lambda text: (MARK, (f"bmbo:dropped:{text}",)), st.text("abc-._", max_size=4)),
        st.builds(
            lambda trial, text: ("update trial_params set distribution_json = ? where trial_id = ?", (text, trial)),
            trials,
            st.sampled_from(['{"half', "{}", '{"name": "os.system", "attributes": {}}', "3"]),
        ),
        st.builds(
            lambda trial, value: ("update trial_params set param_value = ? where trial_id = ?", (value, trial)),
            trials,
            st.sampled_from([-5.0, 1e300, 99.0]),
        ),
    )
    changed = st.builds(
        lambda change, words, named: _case(words, named, whole, whole.database, change),
        changes,
        st.sampled_from(READS),
        st.sampled_from(NAMED),
    )
    # The last page may be empty; half of the file is not.
    cut = st.builds(
        lambda size, words, named: _case(words, named, whole, whole.database[:size]),
        st.integers(0, len(whole.database) // 2),
        st.sampled_from(READS),
        st.sampled_from(NAMED),
    )
    return st.one_of(changed, changed, changed, cut)


def _case(
    words: tuple[str, ...], named: str, whole: Originals, database: bytes, *changes: tuple[str, tuple[object, ...]]
) -> Case:
    first, *more = words
    files = {"study.toml": whole.database_file, "study.db": database}
    return Case("stored attribute", (first, named, *more), files, changes)


def of_journal(whole: Originals) -> st.SearchStrategy[Case]:
    """Return cases of journals with a record that nobody can have written."""
    lines = whole.journal.splitlines(keepends=True)

    def changed(place: int, code: object, words: tuple[str, ...]) -> Case:
        record = json.dumps({**json.loads(lines[place]), "op_code": code}).encode() + b"\n"
        journal = b"".join([*lines[:place], record, *lines[place + 1 :]])
        first, *more = words
        files = {"study.toml": whole.journal_file, "study.journal": journal}
        return Case("journal record", (first, "study.toml", *more), files)

    places, codes = st.integers(0, len(lines) - 1), st.sampled_from([99, "x", None, [1], {}, -1])
    return st.builds(changed, places, codes, st.sampled_from(READS))
