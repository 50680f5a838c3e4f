"""Kafka's schema-generated messages: the bytes of internal topics, metadata and control records, and what they say.

`schema` describes the tables, which are `group`, `share_group`, `streams_group`, `transaction`, `share`, `metadata`,
`remote_log` and `control`; `codec` and `reader` decode; `render` prints JSON as Kafka does; `registry` finds the
message of a record; `records` is the forensic reading; `names` says what the numbers mean. Nothing is
imported here: each module costs something, and few commands need them all.
"""
