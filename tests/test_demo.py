"""The demonstration says what was found and what to try next."""

import re

import pytest

from bmbo import demo


def shown(capsys):
    """What the demonstration printed, checked for what every run of it must say."""
    text = capsys.readouterr().out
    assert "budget 320, batches of 5" in text
    assert re.search(r"Best configuration at the top fidelity: x1 = \S+, x2 = \S+\n  value -\d", text)
    assert re.search(
        r"Next thing to try: x1 = \S+, x2 = \S+ at high\n  the surrogate expects -?\d\S* ± \S+ there", text
    )
    assert re.search(r"Where the money went:\n  low +\d+ evaluations  cost .*\n  middle +\d+ .*\n  high +\d+ ", text)
    assert re.search(r"Random search with the same money, 6 evaluations .*\n  the regret is \d\S*\n", text)
    spent = re.search(r"found for a cost of (\S+) in \d+ evaluations", text)
    assert spent is not None
    assert float(spent[1]) <= 320
    return text


def test_the_demonstration_prints_the_best_and_the_next_thing_to_try(capsys, tmp_path):
    page = tmp_path / "made" / "demo.html"
    demo.main(["--total-cost", "320", "--report", str(page)])
    assert f"to open in a browser: {page}" in shown(capsys)
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_help_says_what_the_demonstration_does(capsys):
    with pytest.raises(SystemExit) as end:
        demo.main(["--help"])
    assert end.value.code == 0
    assert "three-fidelity Branin" in " ".join(capsys.readouterr().out.split())
