"""Comparisons of methods on problems: what runs them, what records them and what reports on the records."""
