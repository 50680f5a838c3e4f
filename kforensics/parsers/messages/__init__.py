"""Kafka's generated messages: the keys and values of internal topics, of the metadata log and of control records.

`schema` defines how a message is described. The schemas are in `group`, `share_and_streams_groups`,
`transaction_log`, `share`, `metadata`, `remote_log` and `control_messages`. `reader` and `codec` decode messages one by
one, `message_columns` decodes many of one version into numpy columns, and `json_render` prints them as Kafka does.
`registry` finds the schema of a record by its type, and `internal_records` decodes the records of any release.

This module imports nothing, because few commands need all of them.
"""
