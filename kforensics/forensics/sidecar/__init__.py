"""The files that lie beside a log (indexes, snapshots) compared with the log, and what consumers receive."""
