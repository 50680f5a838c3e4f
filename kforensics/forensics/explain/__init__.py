"""Explain what happened to one offset, one producer or one transactional id, with the evidence."""
