"""Checks of the keys of a topic."""
