"""Surrogates: what learns a posterior over functions from data."""
