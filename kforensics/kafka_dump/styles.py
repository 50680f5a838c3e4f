"""The differences between the dump tools of five releases.

Rule: ``kafka.tools.DumpLogSegments`` (Scala, up to 4.2) and ``org.apache.kafka.tools.DumpLogSegments`` (Java, since
4.3). Users choose a style by its name in ``STYLES``; ``PLAIN_STYLE`` is the default. The decoders of keys, values and
control records know the differences in their own output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

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
class DumpStyle:
    """The output format of one release.

    Attributes:
        name: the key in ``STYLES``; empty for ``PLAIN_STYLE``.
        release: the release that is imitated byte for byte.
        options: the tool's long options, without dashes.
        offsets_json: records of ``__consumer_offsets`` are printed as JSON, not in the old text form.
        transaction_json: records of ``__transaction_state`` are printed as JSON, not in the old text form.
        ignores_names_without_dot: a file whose name has no dot is ignored; in other styles it ends the run.
        reads_checkpoints: ``.checkpoint`` files are dumped; other styles ignore them.
        log_start: the text before the number in the first line of a ``.log``.
        delete_horizon: batch lines have ``deleteHorizonMs:``.
        upper_case_codecs: codec names are in upper case.
        key_size: the label of the key size in record lines.
        value_size: the label of the value size in record lines.
        record_form: the letter of the template for record lines: D, E or F.
        legacy_tail: the template of the checksum in record lines of formats 0 and 1.
        bar_before_lone_payload: without metadata and key, a bar precedes the payload; in other styles a blank.
        first_gap_from_minus_one: a first record whose offset is not 0 counts as a gap after offset -1.
        newest_pair_first: the pairs of a summary are in reverse order of discovery; in other styles sorted.
        java_maps: the files of a summary are in the order of Java's HashMap; in other styles of Scala's.
        names_file_of_lost_offsets: the heading above offsets that were not found has the file name.
        says_empty_index: an ``.index`` without entries is reported as empty.
        reads_log_to_end: for each ``.timeindex`` entry the log is read from its position to the end, past the match.
        corrupt_index: the class of the exception of a failed sanity check.
        scala_option: an open transaction is ``Some(n)`` or ``None``; in other styles an ``OptionalLong``.
        snapshot_last_timestamp: ``.snapshot`` lines have ``lastTimestamp:``.
        snapshot_blank_at_end: a ``.snapshot`` line without a batch ends with a blank.
        old_reader: records are read by the readers of 2.x, which report several failures differently.
        generated_snapshots: snapshots are read with a generated schema; in other styles with the old type classes.
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
        """Return the name of a codec in the letter case of the release."""
        return name.upper() if self.upper_case_codecs else name

    @property
    def json_decoders(self) -> frozenset[str]:
        """The kinds of decoders that print JSON. They print an error for a bad record, where other decoders abort."""
        kinds = {"offsets": self.offsets_json, "transaction": self.transaction_json, "share-group-state": True}
        return frozenset(kind for kind, is_json in kinds.items() if is_json)


_4_2 = DumpStyle("4.2", "4.2.1")
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

STYLES: Mapping[str, DumpStyle] = MappingProxyType({style.name: style for style in (_4_3, _4_2, _3_9, _2_8, _2_7)})

# The default: the lines of 4.3 without its known bugs. Damage does not end a dump in this style.
PLAIN_STYLE = replace(_4_3, name="", release="", first_gap_from_minus_one=False, reads_log_to_end=False)
