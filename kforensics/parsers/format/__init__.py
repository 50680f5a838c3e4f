"""The binary format: layouts, integer types, checksums, codecs, and the rows that decoders yield."""
