"""Inputs: local and remote files, folder listings, discovery, and the meaning of file and folder names."""
