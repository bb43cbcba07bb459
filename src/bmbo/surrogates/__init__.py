"""Learn a posterior over functions from data."""
