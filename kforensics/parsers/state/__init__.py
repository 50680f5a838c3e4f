"""Indexes, snapshots, checkpoints and the other small files of a log directory."""
