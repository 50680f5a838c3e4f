"""Checks of the replicas of one partition."""
