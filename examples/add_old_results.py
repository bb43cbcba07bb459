"""Begin with known results: single results, a table, another study.

    python examples/add_old_results.py

Old results cost nothing and count as observations like any other. The first suggestion already uses them.
"""

import argparse
import csv
import io

import bmbo

# A table as a spreadsheet exports it. `fidelity` is one of the study's levels.
TABLE = """\
width,angle,fidelity,value
1.0,10,coarse,3.91
2.0,20,coarse,2.05
3.0,30,coarse,1.32
2.5,35,fine,1.18
3.5,25,fine,1.57
"""


def drag(width: float, angle: float, mesh: str) -> float:
    """Return the drag in a made-up simulation on a coarse or a fine mesh."""
    exact = (width - 2.8) ** 2 + ((angle - 33) / 15) ** 2 + 1
    return exact + (0.2 * width if mesh == "coarse" else 0.0)


def new_study(name: str) -> bmbo.Study:
    """Return a study with this name. All studies here have the same space and fidelities."""
    return bmbo.create_study(
        study_name=name,
        storage="sqlite:///drag.db",
        load_if_exists=True,
        space={"width": bmbo.Float(1, 5), "angle": bmbo.Float(0, 60)},
        fidelities=[bmbo.Fidelity("coarse", cost=1), bmbo.Fidelity("fine", cost=10)],
    )


def main() -> None:
    """Add results in three ways, and continue from there."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--total-cost", type=float, default=100.0)
    arguments.add_argument("--n-trials", type=int)
    given = arguments.parse_args()

    earlier = new_study("earlier")
    earlier.add_trial({"width": 4.0, "angle": 40.0}, 2.66, fidelity="fine")
    for row in csv.DictReader(io.StringIO(TABLE)):
        params = {"width": float(row["width"]), "angle": float(row["angle"])}
        earlier.add_trial(params, float(row["value"]), fidelity=row["fidelity"])

    study = new_study("drag")
    # Add all trials of another study. A pandas DataFrame from `trials_dataframe` works as well.
    study.add_trials(earlier)
    print(f"begins with {len(study.trials)} results, the best {study.best_value:.2f} at the fine mesh")
    # Limits do not count the added results, because they were paid for elsewhere.
    study.optimize(
        lambda trial: drag(**trial.params, mesh=str(trial.fidelity)),
        total_cost=given.total_cost,
        n_trials=given.n_trials,
    )
    print(f"best drag {study.best_value:.3f} with {dict(study.best_params)}")


if __name__ == "__main__":
    main()
