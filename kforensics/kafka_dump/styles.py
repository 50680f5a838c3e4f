"""What differs between the dump tools of five releases, one field per line that depends on it.

Rule: ``kafka.tools.DumpLogSegments`` (Scala, up to 4.2) and ``org.apache.kafka.tools.DumpLogSegments`` (Java, since
4.3). A style is chosen by its key in ``STYLES``; ``PLAIN`` is what is printed without one. What the decoders of keys,
values and control records print they know by release, not from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

__all__ = ["PLAIN", "STYLES", "Style"]

_FIRST_OPTIONS = frozenset(
    {
        "files",
        "print-data-log",
        "deep-iteration",
        "verify-index-only",
        "index-sanity-check",
        "max-message-size",
        "key-decoder-class",
        "value-decoder-class",
        "offsets-decoder",
        "transaction-log-decoder",
        "help",
        "version",
    }
)
_OPTIONS_2_8 = _FIRST_OPTIONS | {"cluster-metadata-decoder", "skip-record-metadata"}
_OPTIONS_3_9 = _OPTIONS_2_8 | {"max-bytes", "remote-log-metadata-decoder"}
_OPTIONS_4_0 = _OPTIONS_3_9 | {"share-group-state-decoder"}


@dataclass(frozen=True, slots=True)
class Style:
    """How one release prints.

    Attributes:
        name: key in ``STYLES``, empty for ``PLAIN``.
        release: the release that is imitated, to the byte.
        options: long options that the tool knows, without dashes.
        offsets_json: coordinator records of ``__consumer_offsets`` are JSON, else the old text form.
        transaction_json: the same for ``__transaction_state``.
        ignores_names_without_dot: a file name without a dot is an unknown file, else it ends the run.
        reads_checkpoints: ``.checkpoint`` files are dumped, else unknown.
        log_start: words before the number in the first line of a ``.log``.
        delete_horizon: batch lines have ``deleteHorizonMs:``.
        upper_case_codecs: codec names are upper case.
        key_size: word for the key size in record lines.
        value_size: word for the value size.
        record_form: letter of the record line's template: D, E or F.
        legacy_tail: template of the checksum part in record lines of formats 0 and 1.
        bar_before_lone_payload: without metadata and key a payload follows the bar, else a blank.
        first_gap_from_minus_one: a first record with another offset than 0 counts as a gap behind -1.
        newest_pair_first: pairs of the summaries come last found first, else sorted.
        java_maps: files of a summary are in the order of Java's HashMap, else of Scala's.
        names_file_of_lost_offsets: the heading of offsets not found names the file.
        says_empty_index: an ``.index`` without entries is called empty.
        reads_log_to_end: of a ``.timeindex`` entry all batches behind its position are read, also behind the match.
        corrupt_index: class of the exception of a failed sanity check.
        scala_option: an open transaction is ``Some(n)`` or ``None``, else an ``OptionalLong``.
        snapshot_last_timestamp: ``.snapshot`` lines have ``lastTimestamp:``.
        snapshot_blank_at_end: a ``.snapshot`` line without batch ends in a blank.
        old_reader: records are read by the readers of 2.x, which name several failures otherwise.
        generated_snapshots: snapshots are read by a generated schema, version first, else by the old type classes.
    """

    name: str
    release: str
    options: frozenset[str] = _OPTIONS_4_0
    offsets_json: bool = True
    transaction_json: bool = True
    ignores_names_without_dot: bool = False
    reads_checkpoints: bool = True
    log_start: str = "Log starting offset"
    delete_horizon: bool = True
    upper_case_codecs: bool = False
    key_size: str = "keySize"
    value_size: str = "valueSize"
    record_form: Literal["D", "E", "F"] = "F"
    legacy_tail: str = " isValid: {crc_valid} crc: {crc}}}"
    bar_before_lone_payload: bool = False
    first_gap_from_minus_one: bool = False
    newest_pair_first: bool = True
    java_maps: bool = False
    names_file_of_lost_offsets: bool = False
    says_empty_index: bool = True
    reads_log_to_end: bool = False
    corrupt_index: str = "org.apache.kafka.storage.internals.log.CorruptIndexException"
    scala_option: bool = False
    snapshot_last_timestamp: bool = True
    snapshot_blank_at_end: bool = True
    generated_snapshots: bool = True
    old_reader: bool = False

    def codec(self, name: str) -> str:
        """Return the name of a codec in the letters of the release."""
        return name.upper() if self.upper_case_codecs else name

    @property
    def json_decoders(self) -> frozenset[str]:
        """Kinds of decoders whose output is JSON; they print what is wrong with a record where others end the run."""
        kinds = {"offsets": self.offsets_json, "transaction": self.transaction_json, "share-group-state": True}
        return frozenset(kind for kind, is_json in kinds.items() if is_json)


_4_2 = Style("4.2", "4.2.1")
_4_3 = replace(
    _4_2,
    name="4.3",
    release="4.3.1",
    ignores_names_without_dot=True,
    legacy_tail=" isValid: {crc_valid} crc: {crc}",
    bar_before_lone_payload=True,
    first_gap_from_minus_one=True,
    newest_pair_first=False,
    java_maps=True,
    names_file_of_lost_offsets=True,
    reads_log_to_end=True,
    snapshot_blank_at_end=False,
)
_3_9 = replace(
    _4_2,
    name="3.9",
    release="3.9.1",
    options=_OPTIONS_3_9,
    transaction_json=False,
    generated_snapshots=False,
)
_2_8 = replace(
    _3_9,
    name="2.8",
    release="2.8.2",
    options=_OPTIONS_2_8,
    offsets_json=False,
    reads_checkpoints=False,
    log_start="Starting offset",
    delete_horizon=False,
    upper_case_codecs=True,
    record_form="E",
    legacy_tail=" crc: {crc} isvalid: {crc_valid}",
    corrupt_index="kafka.log.CorruptIndexException",
    scala_option=True,
    snapshot_last_timestamp=False,
    old_reader=True,
)
_2_7 = replace(
    _2_8,
    name="2.7",
    release="2.7.2",
    options=_FIRST_OPTIONS,
    key_size="keysize",
    value_size="valuesize",
    record_form="D",
    says_empty_index=False,
)

STYLES: Mapping[str, Style] = MappingProxyType({style.name: style for style in (_4_3, _4_2, _3_9, _2_8, _2_7)})

# Without a style: the lines of 4.3 without its known bugs; who prints never stops at damage then.
PLAIN = replace(_4_3, name="", release="", first_gap_from_minus_one=False, reads_log_to_end=False)
