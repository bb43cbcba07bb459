"""Offer the methods of bmbo inside other tools; each module needs the tool that it is named after."""
