"""The lab: starts real Kafka brokers on loopback, drives them with real clients, and writes ``sample_logs/``.

Run it with ``python -m lab samples``. It needs Java 17 and Maven; everything it downloads or builds stays in
``.lab/`` at the root of the repository.
"""
