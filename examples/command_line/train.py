"""Train a small model. This program does not know bmbo: it takes settings as arguments and prints its result last."""

import argparse
import json
import math
import random


def main() -> None:
    """Fit a line to noisy points by stochastic gradient descent, and print the loss."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--learning-rate", type=float, required=True)
    arguments.add_argument("--decay", type=float, required=True)
    arguments.add_argument("--schedule", choices=["constant", "cosine"], required=True)
    arguments.add_argument("--epochs", type=int, required=True)
    given = arguments.parse_args()

    generator = random.Random(0)
    points = [(x, 3 * x - 1 + generator.gauss(0, 0.1)) for x in (generator.uniform(-1, 1) for _ in range(100))]
    slope = offset = 0.0
    for epoch in range(given.epochs):
        share = 0.5 + 0.5 * math.cos(math.pi * epoch / given.epochs) if given.schedule == "cosine" else 1.0
        for x, y in points[:70]:
            error = slope * x + offset - y
            slope -= given.learning_rate * share * (error * x + given.decay * slope)
            offset -= given.learning_rate * share * error
        print(f"epoch {epoch + 1}: y = {slope:.3f} x + {offset:.3f}")
    loss = sum((slope * x + offset - y) ** 2 for x, y in points[70:]) / 30
    print(json.dumps({"value": loss}))


if __name__ == "__main__":
    main()
