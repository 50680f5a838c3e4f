"""Replays batches into producers, transactions and anomalies; a log can be cut anywhere and its chunks merged."""
