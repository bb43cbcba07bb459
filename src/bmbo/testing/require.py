"""Report what a check found wrong."""


def require(condition: bool, sentence: str) -> None:
    """Raise AssertionError with a sentence unless a condition holds; `python -O` would remove a plain `assert`."""
    if not condition:
        raise AssertionError(sentence)
