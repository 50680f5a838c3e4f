"""Checks of transactions and consumer groups across a cluster."""
