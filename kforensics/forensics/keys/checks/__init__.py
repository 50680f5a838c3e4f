"""Families of findings on the keys of a topic."""
