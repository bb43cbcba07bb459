"""Compare methods on problems: run them, record the runs, and report on the records."""
