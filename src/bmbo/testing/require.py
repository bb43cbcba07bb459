"""How a suite says what is wrong."""


def require(condition: bool, sentence: str) -> None:
    """Raises an AssertionError with a sentence; plain `assert` would vanish under `python -O`."""
    if not condition:
        raise AssertionError(sentence)
