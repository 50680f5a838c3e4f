"""The imitation of Kafka's dump tool: its output in the styles of five releases, and a plain style without its bugs."""
