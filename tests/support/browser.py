"""A browser without a window, for pages that must be seen to be tested."""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SIZES = {"desktop": (1200, 900), "phone": (390, 844)}
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@dataclass
class Visit:
    """What a browser did with a page: the page itself, what it said, and what it fetched."""

    page: Any
    said: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)


def browser_path():
    """Where a browser is; None without one."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@contextmanager
def browser_of_tests():
    """An open browser, or the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = browser_path()
    if path is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield opened
        opened.close()


@contextmanager
def visit(browser, address, size="desktop", until="body[data-drawn]"):
    """A page that was opened at a size and is drawn, with the errors and warnings that it gave."""
    width, height = SIZES[size]
    phone = size == "phone"
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=2 if phone else 1,
        is_mobile=phone,
        has_touch=phone,
    )
    opened = context.new_page()
    seen = Visit(opened)
    opened.on("console", lambda message: seen.said.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: seen.said.append(f"error: {error}"))
    opened.on("dialog", lambda dialog: (seen.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    opened.on("request", lambda request: seen.fetched.append(request.url))
    opened.goto(address)
    opened.wait_for_selector(until, timeout=120_000)
    yield seen
    context.close()
