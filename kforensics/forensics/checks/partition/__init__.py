"""Checks of one partition."""
