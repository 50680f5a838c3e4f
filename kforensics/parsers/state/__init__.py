"""State files of a log directory: indexes, snapshots, checkpoints and small JSON files."""
