"""Checks: each one evaluates one aspect of the evidence and yields findings. ``all_checks`` lists all of them."""
