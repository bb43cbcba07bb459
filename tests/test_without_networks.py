"""Without the extra `networks`, all but the methods with networks works, and these say what to install."""

import os
import subprocess
import sys

# A module that is None in `sys.modules` counts as not installed.
WITHOUT = """
import sys
for name in ("blackjax", "jax", "jaxlib", "jaxtyping", "optax"):
    sys.modules[name] = None
"""
STUDY = """
[study]
name = "study"
storage = "sqlite:///study.db"
method = "bmbo_gp"
[space.x]
type = "float"
low = 0
high = 1
[[fidelities]]
value = 1
cost = 1
[objective]
function = "objective_of_test:train"
[run]
n_trials = 2
"""
SENTENCE = 'bmbo.methods.bmbo_gp needs jax, which is not installed: pip install "bmbo[networks]"'


def done(script, folder):
    """What a fresh process without the extra prints; it must end well."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BMBO_")}
    command = [sys.executable, "-c", WITHOUT + script]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    assert process.returncode == 0, process.stderr
    return process


def test_the_names_that_need_the_extra_say_so_and_all_others_work(tmp_path):
    script = """
import bmbo, importlib

packages = ["bmbo", "bmbo.history", "bmbo.inference", "bmbo.methods", "bmbo.policies", "bmbo.protocols", "bmbo.testing"]
for package in map(importlib.import_module, packages):
    for name in package.__all__:
        try:
            getattr(package, name)
        except ImportError as error:
            print(f"{package.__name__}.{name}" if "[networks]" in str(error) else error)
try:
    from bmbo import bmbo_darn
except ImportError as error:
    print(error)
"""
    *names, last = done(script, tmp_path).stdout.splitlines()
    assert last == 'bmbo.methods.bmbo_darn needs jax, which is not installed: pip install "bmbo[networks]"'
    assert {"bmbo.bmbo_darn", "bmbo.methods.mf_mes", "bmbo.history.Dataset", "bmbo.inference.NUTS"} <= set(names)
    free = {"bmbo.random_search", "bmbo.methods.screening", "bmbo.policies.Random", "bmbo.testing.check_policy"}
    assert not free & set(names)
    assert all(name.startswith("bmbo.") and " " not in name for name in names)


def test_random_search_and_the_integrations_need_no_extra(tmp_path):
    done(
        """
import bmbo, optuna
from bmbo.integration.optuna import BMBOSampler

study = bmbo.create_study(
    space={"x": bmbo.Float(0, 1)}, fidelities=[bmbo.Fidelity(1, cost=1)], method=bmbo.random_search()
)
study.optimize(lambda trial: trial.params["x"], n_trials=3)
optuna.create_study(sampler=BMBOSampler()).optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
""",
        tmp_path,
    )


def test_a_study_file_whose_method_needs_the_extra_ends_in_a_sentence_and_writes_nothing(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "objective_of_test.py").write_text("def train(trial):\n    return trial.params['x']\n")
    script = """
from bmbo.cli import main

assert main(["run", "study.toml"]) == 1
assert main(["worker", "study.toml"]) == 1
"""
    assert done(script, tmp_path).stderr.splitlines() == [f"bmbo: {SENTENCE}"] * 2
    assert not (tmp_path / "study.db").exists()


def test_a_record_whose_method_needs_the_extra_can_be_read_and_not_run(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "objective_of_test.py").write_text("def train(trial):\n    return trial.params['x']\n")
    script = """
import bmbo
from bmbo.cli import main
from bmbo.study.stored_method import described, note_method

def train(trial):
    return trial.params["x"]

where = {"study_name": "study", "storage": "sqlite:///study.db"}
study = bmbo.create_study(**where, space={"x": bmbo.Float(0, 1)}, fidelities=[bmbo.Fidelity(1, cost=1)])
study.optimize(train, n_trials=1)
study._ledger.note_method({"shown": "bmbo_gp()", "name": "bmbo_gp", "settings": {}})

study = bmbo.load_study(**where)
assert study.best_trial.number == 0
assert "use" in study.answer()
for run in (lambda: study.optimize(train, n_trials=2), study.ask, study.recommendation):
    try:
        run()
    except ImportError as error:
        print(error)
names = ["--storage", "sqlite:///study.db", "--study", "study"]
assert main(["worker", *names, "--objective", "objective_of_test:train", "--n-trials", "2"]) == 1
assert main(["status", "study.toml"]) == 0
assert main(["report", "study.toml", "--out", "report.html"]) == 0
study = bmbo.load_study(**where)
assert len(study.trials) == 1
print(study._ledger.method["shown"])
study.plans = False
study.optimize(train, n_trials=2)
"""
    process = done(script, tmp_path)
    said = f"the study has the method bmbo_gp(): {SENTENCE}"
    lines = process.stdout.splitlines()
    assert lines[:3] == [said] * 3
    assert lines[-1] == "bmbo_gp()"
    assert f"bmbo: {said}" in process.stderr.splitlines()
