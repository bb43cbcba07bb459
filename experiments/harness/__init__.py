"""Run methods on problems under one set of rules, and keep a record of every run."""
