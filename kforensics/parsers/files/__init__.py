"""Where bytes come from: sources, file systems, folders, and which file of a log directory is what."""
