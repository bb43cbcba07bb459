"""What a system without process groups cannot do is refused with a sentence."""

import os

import pytest

from bmbo.executors import LocalProcessExecutor, make_executor


def test_processes_are_refused_with_what_to_use_instead(monkeypatch):
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(OSError, match="executor 'process' needs Linux or macOS; use 'inline' or 'ray' on this system"):
        LocalProcessExecutor(2)
    with pytest.raises(OSError, match="needs Linux or macOS"):
        make_executor("auto", 1, trial_timeout=1.0)
