"""Take the pictures of the report and of the dashboard that the documentation shows.

    python benchmarks/screenshots.py --folder docs/figures/screenshots

The study is a run of the default method with four worker processes. Its objective is a formula that stands for a
training, waits in proportion to the epochs, and fails with eight layers. It needs the extras `plot` and `dashboard`,
playwright, and an installed Chromium. The report is shown as on a desktop and as on a phone.
"""

import argparse
import shutil
import tempfile
import threading
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

import bmbo
from bmbo.dashboard import DashboardServer
from bmbo.ledger import Ledger
from report_pages import BROWSERS, FIDELITIES, SPACE, loss

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TOTAL_COST = 700.0
SECONDS_PER_EPOCH = 0.01
NUM_WORKERS = 4
TOO_MANY_LAYERS = 8
DESKTOP, PHONE, DASHBOARD = (1100, 1400), (390, 1400), (1100, 2000)
"""Widths and heights of the pictures: what a reader sees first, and some scrolling."""
MODEL = ("#levels", "#slices")
"""The first and the last section of the picture that shows what the model says."""

OUR_FIGURE = '[id="user-defined-plot:bmbo-progress-0"] .main-svg'


def objective(trial: bmbo.Trial) -> float:
    """Return the loss of a training that takes as long as it has epochs."""
    time.sleep(SECONDS_PER_EPOCH * float(trial.fidelity))
    if trial.params["layers"] == TOO_MANY_LAYERS:
        raise MemoryError(f"{9000 + 100 * trial.number} MB are not enough")
    return loss(trial.params, float(trial.fidelity), np.random.default_rng(trial.number))


def run_study() -> bmbo.Study:
    """Return a study that has spent its budget, in a file of the working directory."""
    study = bmbo.create_study(
        study_name="classifier", storage="sqlite:///classifier.db", space=SPACE, fidelities=FIDELITIES
    )
    study.optimize(
        objective, total_cost=TOTAL_COST, batch_size=NUM_WORKERS, n_workers=NUM_WORKERS, catch=(MemoryError,)
    )
    return study


def picture(
    browser: Any, address: str, size: tuple[int, int], until: str, path: Path, *, part: tuple[str, str] | None = None
) -> None:
    """Write a picture of a page, or of a part of it, as soon as something is there that the page shows last."""
    is_phone = size is PHONE
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        device_scale_factor=2 if is_phone else 1,
        is_mobile=is_phone,
        has_touch=is_phone,
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(until, timeout=120_000)
    page.wait_for_load_state("networkidle")
    if part is None:
        page.screenshot(path=path, type="jpeg", quality=75)
    else:
        first, last = (page.locator(each).bounding_box() for each in part)
        height = last["y"] + last["height"] - first["y"]
        clip = {"x": 0, "y": first["y"], "width": size[0], "height": height}
        page.screenshot(path=path, type="jpeg", quality=75, clip=clip, full_page=True)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    folder: Path = parser.parse_args().folder.absolute()
    executable = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if executable is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is installed")
    folder.mkdir(parents=True, exist_ok=True)
    # The page shows where the study is kept: not the path of some folder.
    with tempfile.TemporaryDirectory() as made, chdir(made):
        study = run_study()
        ledger = Ledger.load(study.storage, study.study_name)
        server = DashboardServer(ledger, study.policy, host="127.0.0.1", port=0, model=True)
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            with sync_playwright() as driver:
                report = study.report(Path(made) / "report.html").as_uri()
                browser = driver.chromium.launch(executable_path=executable, args=list(FLAGS))
                drawn = "body[data-drawn]"
                picture(browser, report, DESKTOP, drawn, folder / "report-desktop.jpg")
                picture(browser, report, DESKTOP, drawn, folder / "report-model.jpg", part=MODEL)
                picture(browser, report, PHONE, drawn, folder / "report-phone.jpg")
                picture(browser, server.address, DASHBOARD, OUR_FIGURE, folder / "dashboard.jpg")
                browser.close()
        finally:
            server.close()
            thread.join()


if __name__ == "__main__":
    main()
