"""The version, for whoever must not import more than that: a checkout or a zip has no metadata of a distribution."""

__version__ = "0.1.0"
