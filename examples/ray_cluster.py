"""Run trials on a Ray cluster, or on a local Ray.

pip install "bmbo[ray]"
python examples/ray_cluster.py                                   # starts a Ray on this machine
python examples/ray_cluster.py --address auto --n-workers 16     # the cluster that this machine belongs to
"""

import argparse
import time

import bmbo
from bmbo.executors.ray import RayExecutor


def objective(trial: bmbo.Trial) -> float:
    """Return the value of a made-up training. It runs on any node of the cluster."""
    time.sleep(0.01 * int(trial.fidelity))
    x, y = trial.params["x"], trial.params["y"]
    return (x - 0.2) ** 2 + (y - 0.7) ** 2 + 1 / int(trial.fidelity)


def main() -> None:
    """Run the study on Ray."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n-trials", type=int, default=60)
    arguments.add_argument("--n-workers", type=int, default=4)
    arguments.add_argument("--address", help="address of a cluster; by default a local Ray is started")
    given = arguments.parse_args()

    study = bmbo.create_study(
        study_name="ray",
        storage="sqlite:///ray.db",
        load_if_exists=True,
        space={"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)},
        fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)],
    )
    # num_cpus and num_gpus are the resources of each trial; num_gpus may be a fraction. A trial that takes longer than
    # the timeout is cancelled. A trial whose node is lost runs again on another node. For a local Ray, executor="ray"
    # is enough.
    executor = RayExecutor(given.n_workers, trial_timeout=600, address=given.address, num_cpus=1, num_gpus=0)
    study.optimize(
        objective,
        n_trials=given.n_trials,
        executor=executor,
        batch_size=given.n_workers,
        n_workers=given.n_workers,
        asynchronous=True,
    )
    print(f"best {study.best_value:.4f} with {dict(study.best_params)}")


if __name__ == "__main__":
    main()
