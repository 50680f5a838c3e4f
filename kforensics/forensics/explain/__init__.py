"""The story of one offset, one producer or one transactional id."""
