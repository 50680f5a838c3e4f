"""Compare the files that lie beside a log (indexes, snapshots) with the log, and show what consumers receive."""
