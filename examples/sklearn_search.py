"""Search the parameters of a scikit-learn estimator: with few samples first, and with all for what is worth it.

    python examples/sklearn_search.py

It needs `pip install "bmbo[sklearn]"`.
"""

import argparse
import os

from scipy.stats import loguniform
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from bmbo.integration.sklearn import BMBOSearchCV


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    budget = int(os.environ.get("BMBO_EXAMPLE_BUDGET", "10"))
    parser.add_argument("--n-iter", type=int, default=budget, help="the budget, in fits of all samples")
    given = parser.parse_args()
    digits, numbers = load_digits(return_X_y=True)
    known, new, known_numbers, new_numbers = train_test_split(digits, numbers, random_state=0)
    search = BMBOSearchCV(
        SVC(),
        {"C": loguniform(1e-2, 1e3), "gamma": loguniform(1e-6, 1.0), "kernel": ["rbf", "linear"]},
        n_iter=given.n_iter,
        cv=3,
        random_state=0,
    )
    search.fit(known, known_numbers)
    shares = [f"{share:.2f}" for share in search.cv_results_["n_resources"]]
    print(f"{len(shares)} configurations, with these shares of the samples: {', '.join(shares)}")
    print(f"best: {search.best_params_}, accuracy {search.best_score_:.3f} in cross-validation")
    print(f"accuracy on new digits: {search.score(new, new_numbers):.3f}")


if __name__ == "__main__":
    main()
