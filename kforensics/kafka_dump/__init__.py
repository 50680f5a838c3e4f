"""The text of Kafka's own dump tool, in the styles of its releases."""
