"""Layouts, primitive types, codecs and the rows that decoders return."""
