"""Continue training where the same configuration stopped at a lower fidelity.

    python examples/checkpoints.py

The pattern has three parts, all in `objective`: load from `trial.resume_from` if there is one, train only the missing
epochs up to `trial.fidelity`, and save into `trial.checkpoint_dir`.
"""

import argparse
from pathlib import Path

import numpy as np

import bmbo

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.normal(size=(400, 20))
TARGETS = INPUTS @ GENERATOR.normal(size=20) + 0.1 * GENERATOR.normal(size=400)


def load(folder: Path | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the weights, the momentum and the finished epochs, from a checkpoint or from the beginning."""
    if folder is None:
        return np.zeros(20), np.zeros(20), 0
    # NumPy's own format holds no code, because allow_pickle is off.
    with np.load(folder / "state.npz") as state:
        return state["weights"], state["momentum"], int(state["epochs"])


def objective(trial: bmbo.Trial) -> float:
    """Return the validation error after `trial.fidelity` epochs. An earlier trial may have done some of them."""
    weights, momentum, done = load(trial.resume_from)
    print(f"trial {trial.number}: epochs {done + 1} to {trial.fidelity}", flush=True)
    x, y = INPUTS[:300], TARGETS[:300]
    for _ in range(done, int(trial.fidelity)):
        momentum = trial.params["momentum"] * momentum - trial.params["learning_rate"] * x.T @ (x @ weights - y) / 300
        weights = weights + momentum
    np.savez(trial.checkpoint_dir / "state.npz", weights=weights, momentum=momentum, epochs=trial.fidelity)
    return float(np.mean((INPUTS[300:] @ weights - TARGETS[300:]) ** 2))


def main() -> None:
    """Run the study and keep only the checkpoints that may still be useful."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n-trials", type=int, default=40)
    given = arguments.parse_args()

    study = bmbo.create_study(
        study_name="checkpoints",
        storage="sqlite:///checkpoints.db",
        load_if_exists=True,
        space={"learning_rate": bmbo.Float(1e-3, 1.0, log=True), "momentum": bmbo.Float(0.0, 0.95)},
        # The costs are those of the whole training. What goes on from a lower level pays only the difference.
        fidelities=[bmbo.Fidelity(2, cost=2), bmbo.Fidelity(8, cost=8), bmbo.Fidelity(32, cost=32)],
        continues=True,
    )
    study.optimize(objective, n_trials=given.n_trials, catch=(FloatingPointError,), keep_checkpoints="useful")
    above = [trial for trial in study.trials if trial.level > 0]
    continued = [trial for trial in above if trial.resume_from is not None]
    print(f"{len(continued)} of {len(above)} trials above the lowest level went on from a lower one")
    print(f"best error {study.best_value:.4f} with {dict(study.best_params)}")


if __name__ == "__main__":
    main()
