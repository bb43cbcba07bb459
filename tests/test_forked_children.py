"""A process that has used the package can be forked: nothing has started threads of JAX before."""

import subprocess
import sys

import pytest

FORKS = """
import multiprocessing, sys
import bmbo

def objective(trial):
    return trial.params["x"]

bmbo.logging.set_verbosity(bmbo.logging.WARNING)
{use}
assert "jax" not in sys.modules
child = multiprocessing.get_context("fork").Process(target=print, args=("from the child",))
child.start()
child.join(60)
print(child.exitcode)
"""
STUDY = """
study = bmbo.create_study(space={"x": bmbo.Float(0, 1)}, fidelities=[bmbo.Fidelity(1, cost=1)])
study.optimize(objective, n_trials=4, show_progress_bar=False)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="fork is the way of Linux alone")
@pytest.mark.parametrize("use", ["", STUDY], ids=["imported", "used"])
def test_a_forked_child_does_not_hang(use):
    script = FORKS.replace("{use}", use)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["from the child", "0"], done.stderr
