"""The scale run: the audit on Spark beside the audit in process, and far more parts than this machine has disk for."""
