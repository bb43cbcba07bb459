"""Bad input by the thousand: `python -m tests.fuzz --cases 10000`."""
