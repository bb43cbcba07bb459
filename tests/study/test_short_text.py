"""Numbers, times and configurations as people read them."""

import pytest

from bmbo.study.short_text import duration, params_line, short_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0.0 s"),
        (3e-7, "0.0 s"),
        (3.14, "3.1 s"),
        (59.4, "59.4 s"),
        (59.9, "1 min 0 s"),
        (250.0, "4 min 10 s"),
        (7500.0, "2 h 5 min"),
        (180000.0, "2 d 2 h"),
    ],
)
def test_a_length_of_time_has_at_most_two_units(seconds, text):
    assert duration(seconds) == text


def test_values_are_short():
    assert params_line({"lr": 0.0123456789, "n": 3, "kind": "max", "no": None}) == "lr=0.0123457, n=3, kind=max, no=-"
    assert short_text(1e9) == "1e+09"
