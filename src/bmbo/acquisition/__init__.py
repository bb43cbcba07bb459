"""Choose what to run next, from functions drawn from a posterior."""
