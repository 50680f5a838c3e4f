"""Command lines that remedies name, ready to be pasted into a shell.

In a remedy a command is between backquotes. No value that is filled in contains one, so no name of a topic, a file or a
transactional id ends a command or begins one, and a shell interprets nothing in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

__all__ = [
    "ABORT",
    "BOOTSTRAP",
    "DESCRIBE",
    "FIND_HANGING",
    "LIST",
    "OFFSETS_TOOL",
    "REBUILD",
    "TERMINATE",
    "TRANSACTIONS_TOOL",
    "UNDER_REPLICATED",
    "UNLESS_REPLICAS_DIFFER",
    "UNLESS_REPLICAS_HAVE_MORE",
    "delete_records",
    "export_command",
    "filled_in",
    "for_brokers",
    "shell_word",
]

# Characters of the name of an exported file that come from a path; a name has at most 255.
MAX_NAME = 160
# What a command has in place of the brokers' address, which no log shows.
BOOTSTRAP = '"$BOOTSTRAP"'
TRANSACTIONS_TOOL = f"kafka-transactions.sh --bootstrap-server {BOOTSTRAP}"
FIND_HANGING = f"`{TRANSACTIONS_TOOL} find-hanging --topic {{topic}} --partition {{partition}}`"
ABORT = f"`{TRANSACTIONS_TOOL} abort --topic {{topic}} --partition {{partition}} --start-offset {{first_offset}}`"
LIST = f"`{TRANSACTIONS_TOOL} list`"
DESCRIBE = f"`{TRANSACTIONS_TOOL} describe --transactional-id {{transactional_id}}`"
TERMINATE = f"`{TRANSACTIONS_TOOL} forceTerminateTransaction --transactionalId {{transactional_id}}`"
OFFSETS_TOOL = f"kafka-get-offsets.sh --bootstrap-server {BOOTSTRAP}"
GROUPS_TOOL = f"kafka-consumer-groups.sh --bootstrap-server {BOOTSTRAP}"
UNDER_REPLICATED = (
    f"`kafka-topics.sh --bootstrap-server {BOOTSTRAP} --describe --under-replicated-partitions --topic {{topic}}`"
)
DESCRIBE_GROUP = f"`{GROUPS_TOOL} --describe --group {{group}}`"
# A replica is thrown away only if another one is intact: the damaged one may be the leader, or the only one.
REBUILD = (
    "Copy the files, and compare the other replicas of {topic}-{partition}: if one is intact, make it the leader and "
    "rebuild this one from it."
)
UNLESS_REPLICAS_DIFFER = "No action, unless replica-key-divergence is reported for {topic}-{partition}."
# What a cleaner leaves, where nothing else shows that there was one.
UNLESS_REPLICAS_HAVE_MORE = (
    "Compare the other replicas of {topic}-{partition}, and ask whether the topic was ever compacted: if they lack the "
    "same records, a cleaner removed them, and there is nothing to do. If one has more, this one has lost them."
)
PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
# Printable ASCII that single quotes protect. Backquotes, double quotes and braces have a meaning in remedies.
QUOTABLE = re.compile(r"[ !#-&(-_a-z|~]*")
PLACEHOLDER = re.compile(r"(?P<option>--[A-Za-z-]+ )?\{(?P<name>[a-z_]+)\}")


def shell_word(value: object) -> str:
    r"""Return a value as one word of a bash command: printable ASCII without backquotes, double quotes and braces.

    >>> print(shell_word("orders-0"), shell_word("a b"), shell_word("it's `x`\n"))
    orders-0 'a b' $'it\x27s \x60x\x60\x0a'
    """
    text = str(value)
    if PLAIN.fullmatch(text):
        return text
    if QUOTABLE.fullmatch(text):
        return f"'{text}'"
    characters = (chr(byte) for byte in text.encode("utf-8", "surrogateescape"))
    escaped = (char if QUOTABLE.fullmatch(char) and char != "\\" else f"\\x{ord(char):02x}" for char in characters)
    return f"$'{''.join(escaped)}'"


def filled_in(text: str, values: Mapping[str, object]) -> str:
    """Return a remedy with the values of its placeholders.

    >>> filled_in("`tool --topic {topic} --id {id}`", {"topic": "-a", "id": None})
    '`tool --topic=-a --id "$ID"`'

    Args:
        text: the remedy; other names in braces than those of the values stay as they are.
        values: the values by name; for None, which means that a value is unknown, the text gets a shell variable.
    """

    def word(match: re.Match[str]) -> str:
        name, option = match["name"], match["option"] or ""
        if name not in values:
            return match[0]
        value = values[name]
        quoted = f'"${name.upper()}"' if value is None else shell_word(value)
        # A tool would take a value that begins with a hyphen for an option.
        return f"{option.rstrip()}={quoted}" if option and str(value).startswith("-") else f"{option}{quoted}"

    return PLACEHOLDER.sub(word, text)


def delete_records(topic: str | None, partition: int | None, offset: int) -> str:
    """Return the command that deletes the records before an offset, between backquotes.

    >>> for command in delete_records("orders", 0, 4).strip("`").split(" && "):
    ...     print(command)
    echo '{"partitions":[{"topic":"orders","partition":0,"offset":4}],"version":1}' > delete-before-4.json
    kafka-delete-records.sh --bootstrap-server "$BOOTSTRAP" --offset-json-file delete-before-4.json

    Args:
        topic: the topic, None if it is unknown.
        partition: its partition.
        offset: the first offset to keep.
    """
    deleted = {"partitions": [{"topic": topic, "partition": partition, "offset": offset}], "version": 1}
    text = json.dumps(deleted, separators=(",", ":"))
    word = f"'{text}'" if PLAIN.fullmatch(topic or "") else shell_word(text)
    file = f"delete-before-{offset}.json"
    return f"`echo {word} > {file} && kafka-delete-records.sh --bootstrap-server {BOOTSTRAP} --offset-json-file {file}`"


def for_brokers(text: str, bootstrap_server: str | None) -> str:
    """Return a remedy whose commands name the brokers; unchanged if their address is unknown.

    Args:
        text: the remedy, with its values.
        bootstrap_server: addresses of brokers as HOST:PORT, separated by commas.
    """
    return text if bootstrap_server is None else text.replace(BOOTSTRAP, shell_word(bootstrap_server))


def export_command(path: str, first_offset: int, last_offset: int) -> str:
    """Return the command that saves the records in a range of offsets, between backquotes.

    >>> export_command("b 2/orders-0", 240, 259)
    "`kforensics dump --format ndjson --records --offset 240:260 --output b-2-orders-0-240-259.ndjson 'b 2/orders-0'`"

    The file is named by the path, so that commands for several partitions or brokers leave a file each.

    Args:
        path: a segment, or the folder of a partition.
        first_offset: first offset.
        last_offset: last offset.
    """
    folder = re.sub(r"/[0-9]{20}\.log[^/]*$", "", path)
    name = re.sub(r"[^\w.]+", "-", folder, flags=re.ASCII)[-MAX_NAME:].strip("-.") or "records"
    output = f"{name}-{first_offset}-{last_offset}.ndjson"
    offsets = f"{first_offset}:{last_offset + 1}"
    word = shell_word(f"./{path}" if path.startswith("-") else path)
    return f"`kforensics dump --format ndjson --records --offset {offsets} --output {output} {word}`"
