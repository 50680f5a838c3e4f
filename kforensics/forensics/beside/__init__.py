"""The files beside a log against the log: indexes, transaction indexes, snapshots."""
