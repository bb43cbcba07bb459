"""Crash in the middle of a study, and continue without losing a result.

    python examples/resume_after_crash.py --crash-at 12       # is killed, as in a power failure
    python examples/resume_after_crash.py                     # finishes the same study, within the same budget

Run the same script again, and nothing else. Limits count over the whole study, and the trial that was running runs
again under its own number. With a seed, the trials are the same as in a run without a crash.
"""

import argparse
import os
import signal

import bmbo


def main() -> None:
    """Run the study, or the rest of it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n-trials", type=int, default=40)
    arguments.add_argument("--crash-at", type=int, default=-1, metavar="TRIAL")
    given = arguments.parse_args()

    def objective(trial: bmbo.Trial) -> float:
        if trial.number == given.crash_at:
            os.kill(os.getpid(), signal.SIGKILL)
        x, y = trial.params["x"], trial.params["y"]
        bias = 0.0 if trial.fidelity == "exact" else 0.1 * (x - y)
        return (x - 0.3) ** 2 + (y - 0.6) ** 2 + bias

    study = bmbo.create_study(
        study_name="crash",
        storage="sqlite:///crash.db",
        load_if_exists=True,
        space={"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)},
        fidelities=[bmbo.Fidelity("rough", cost=1), bmbo.Fidelity("exact", cost=5)],
        seed=1,
    )
    finished = sum(trial.value is not None for trial in study.trials)
    print(f"{finished} trials have finished before")
    study.optimize(objective, n_trials=given.n_trials)
    print(f"{len(study.trials)} trials, best {study.best_value:.4f} with {dict(study.best_params)}")


if __name__ == "__main__":
    main()
