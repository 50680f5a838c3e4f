"""From decoded tables to verdicts: it knows suspicion, and nothing about bytes."""
