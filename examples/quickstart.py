"""Tune a small classifier that can be trained for 1, 5 or 25 epochs.

    python examples/quickstart.py

The study is kept in quickstart.db. If you run the script again, even after a crash, it continues where it was.
"""

import argparse

import numpy as np

import bmbo


def train(learning_rate: float, weight_decay: float, batch: int, features: str, epochs: int) -> float:
    """Return the validation loss of a logistic regression after some epochs of stochastic gradient descent."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(1200, 10))
    labels = (inputs[:, 0] + inputs[:, 1] ** 2 + 0.3 * generator.normal(size=1200) > 0.8).astype(float)
    if features == "squares":
        inputs = np.concatenate([inputs, inputs**2], axis=1)
    train_part, test_part = slice(0, 800), slice(800, None)
    weights, bias = np.zeros(inputs.shape[1]), 0.0
    for _ in range(epochs):
        order = generator.permutation(800)
        for rows in np.split(order, range(batch, 800, batch)):
            x, y = inputs[train_part][rows], labels[train_part][rows]
            error = 1 / (1 + np.exp(-np.clip(x @ weights + bias, -30, 30))) - y
            weights -= learning_rate * (x.T @ error / len(rows) + weight_decay * weights)
            bias -= learning_rate * error.mean()
    logits = np.clip(inputs[test_part] @ weights + bias, -30, 30)
    return float(np.mean(np.log1p(np.exp(logits)) - labels[test_part] * logits))


def objective(trial: bmbo.Trial) -> float:
    """Return the loss to minimise. `trial.params` is the configuration, and `trial.fidelity` the number of epochs."""
    return train(**trial.params, epochs=int(trial.fidelity))


def main() -> None:
    """Run the study and print what it found."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--total-cost", type=float, default=400.0)
    arguments.add_argument("--n-trials", type=int)
    given = arguments.parse_args()

    study = bmbo.create_study(
        study_name="quickstart",
        storage="sqlite:///quickstart.db",
        load_if_exists=True,
        direction="minimize",
        space={
            "learning_rate": bmbo.Float(1e-3, 3.0, log=True),
            "weight_decay": bmbo.Float(1e-6, 1e-1, log=True),
            "batch": bmbo.Int(8, 256, log=True),
            "features": bmbo.Categorical(["plain", "squares"]),
        },
        # From the cheapest to the one that counts. Costs can have any unit; here they are epochs.
        fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(5, cost=5), bmbo.Fidelity(25, cost=25)],
    )
    study.optimize(objective, total_cost=given.total_cost, n_trials=given.n_trials, batch_size=4)

    print(f"best loss {study.best_value:.4f} with {dict(study.best_params)}")
    choice = study.recommendation()
    print(f"the model would choose {dict(choice.params)} and expects {choice.value:.4f} ± {choice.std:.4f}")


if __name__ == "__main__":
    main()
