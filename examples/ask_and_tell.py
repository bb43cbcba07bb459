"""Run trials by hand: `ask` says what to run, and `tell` takes the result.

    python examples/ask_and_tell.py

Use this if something else runs the trials: a laboratory, the queue of a simulator, or a person.
"""

import argparse

import bmbo


def experiment(temperature: float, catalyst: str, minutes: float) -> float:
    """Return the yield of a made-up reaction. Shorter runs have less of it, and one catalyst fails when it is hot."""
    if catalyst == "B" and temperature > 380:
        raise RuntimeError("the catalyst has decomposed")
    best = {"A": 350.0, "B": 365.0, "C": 320.0}[catalyst]
    full = {"A": 0.70, "B": 0.85, "C": 0.60}[catalyst] - ((temperature - best) / 80) ** 2
    return full * (1 - 2 ** (-minutes / 10))


def main() -> None:
    """Run rounds of four trials each."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n-trials", type=int, default=40)
    given = arguments.parse_args()

    study = bmbo.create_study(
        study_name="reaction",
        storage="sqlite:///reaction.db",
        load_if_exists=True,
        direction="maximize",
        space={"temperature": bmbo.Float(280, 400), "catalyst": bmbo.Categorical(["A", "B", "C"])},
        fidelities=[
            bmbo.Fidelity(10, cost=10, name="10 minutes"),
            bmbo.Fidelity(60, cost=60, name="an hour"),
        ],
    )
    # Configurations that you want to try come first.
    study.enqueue({"temperature": 350.0, "catalyst": "A"})
    while len(study.trials) < given.n_trials:
        # The four are chosen together, so that they differ from each other.
        for trial in study.ask(4):
            try:
                value = experiment(**trial.params, minutes=float(trial.fidelity))
            except RuntimeError as error:
                # A failure is a result too. It has a cost, and its reason is kept.
                study.tell(trial, error=str(error))
            else:
                study.tell(trial, value)

    for trial in study.trials:
        print(trial.number, f"level {trial.level}", dict(trial.params), trial.error or trial.value)
    print(f"best yield in an hour: {study.best_value:.3f} with {dict(study.best_params)}")


if __name__ == "__main__":
    main()
