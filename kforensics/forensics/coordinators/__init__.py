"""Transactions and group offsets across partitions: the coordinators' logs compared with the data partitions.

``forensics.checks.partition`` evaluates a partition alone. This package handles what needs ``__transaction_state``,
``__consumer_offsets`` or several partitions.
"""
