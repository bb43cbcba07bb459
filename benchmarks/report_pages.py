"""Make reports of studies of several sizes, measure them, and take pictures of them.

    python benchmarks/report_pages.py --folder report-pages

Each size is a study in memory with random configurations at three levels, of which one in twenty fails. The table has
the processor seconds of `study.report` and the size of the page. Pictures need playwright and an installed Chromium:
each page is shown as on a desktop and as on a phone, and printed. Without them the script says so and measures only.
"""

import argparse
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from optuna.storages import BaseStorage

import bmbo
from bmbo.history import Outcome, Query
from bmbo.ledger import Ledger, Owner, open_storage
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Ladder, Problem, Space
from surrogate_table import heading, markdown, write

SPACE = Space(
    {
        "learning_rate": bmbo.Float(1e-5, 1e-1, log=True),
        "dropout": bmbo.Float(0.0, 0.6),
        "layers": bmbo.Int(1, 8),
        "optimiser": bmbo.Categorical(["sgd", "adam", "lion"]),
    }
)
FIDELITIES = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(5, cost=5), bmbo.Fidelity(25, cost=25, name="25 epochs")]
SHARES = (0.8, 0.14, 0.06)
"""Shares of the levels among the trials."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SIZES = {"desktop": (1200, 900), "phone": (390, 844)}


def loss(params: Mapping[str, Any], epochs: float, rng: np.random.Generator) -> float:
    """Return a smooth loss with a little noise, which more epochs make smaller."""
    rate = np.log10(params["learning_rate"]) + 3.0
    base = 0.1 * rate**2 + (params["dropout"] - 0.2) ** 2 + 0.01 * abs(params["layers"] - 4)
    return base + {"sgd": 0.15, "adam": 0.0, "lion": 0.05}[params["optimiser"]] + 0.5 / epochs + 0.01 * rng.normal()


def study_of(num_trials: int, storage: BaseStorage | None = None) -> bmbo.Study:
    """Return a study, in memory by default, that holds trials as two workers would have left them."""
    problem = Problem(SPACE, Ladder(FIDELITIES))
    storage = open_storage(storage)
    ledger = Ledger.create(storage, f"{num_trials} trials", StudyDefinition(problem, 0), load_if_exists=False)
    rng = np.random.default_rng(0)
    owners = [Owner.new() for _ in range(2)]
    for number in range(num_trials):
        level = int(rng.choice(len(FIDELITIES), p=SHARES))
        unit = tuple(float(u) for u in SPACE.snap(rng.random(SPACE.dim)))
        cost = problem.ladder.costs[level]
        value = loss(SPACE.decode(unit), float(FIDELITIES[level].value), rng)
        outcome = Outcome.of(value, cost, cost)
        if number % 20 == 19:
            outcome = Outcome(None, cost, cost, error=f"RuntimeError: {1000 + number} MB are not enough")
        ledger.add(Query(unit, level), owner=owners[number % 2].text)
        ledger.finish(ledger.read().entries[number], outcome)
    for owner in owners:
        owner.leave()
    return bmbo.load_study(study_name=ledger.name, storage=storage, method=bmbo.screening())


def take_pictures(pages: Sequence[Path], folder: Path) -> str:
    """Take pictures of pages, and return where they are, or what is missing if it cannot be done."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the measurements do without it
    except ImportError:
        return "no pictures: playwright is not installed"
    if path is None:
        return f"no pictures: none of {', '.join(BROWSERS)} is installed"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for page in pages:
            for name, (width, height) in SIZES.items():
                opened = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=2)
                opened.goto(page.absolute().as_uri())
                opened.wait_for_selector("body[data-drawn]", timeout=120_000)
                opened.screenshot(path=page.with_name(f"{page.stem}-{name}.png"), full_page=True)
                if name == "desktop":
                    opened.pdf(path=page.with_suffix(".pdf"), format="A4")
                opened.close()
        browser.close()
    return f"pictures are in {folder}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[5, 60, 500, 5000], metavar="N")
    arguments.add_argument("--folder", type=Path, default=Path("report-pages"), help="for pages and pictures")
    arguments.add_argument("--out", type=Path, help="a file for the table")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    rows: list[list[str]] = []
    pages: list[Path] = []
    for size in given.sizes:
        study = study_of(size)
        begun = time.process_time()
        pages.append(study.report(given.folder / f"report-{size}.html"))
        rows.append([str(size), f"{time.process_time() - begun:.1f}", f"{pages[-1].stat().st_size / 1e6:.1f}"])
    table = markdown(["trials", "processor seconds", "megabytes"], rows)
    text = f"{heading('report_pages.py', ('numpy', 'plotly', 'scipy'))}\n\n{table}"
    write(given.out, text)
    print(text)
    print(take_pictures(pages, given.folder))


if __name__ == "__main__":
    main()
