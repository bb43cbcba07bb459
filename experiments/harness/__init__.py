"""Runs methods on problems under one set of rules, and keeps a record of every run."""
