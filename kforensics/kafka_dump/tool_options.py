"""The command-line options of Kafka's dump tool."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kforensics.kafka_dump.java import MAX_INT, JavaError
from kforensics.kafka_dump.styles import DumpStyle
from kforensics.parsers.format.decompression import DEFAULT_BUDGET

MAX_MESSAGE_SIZE = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The options that apply to index files.

    Attributes:
        verify_only: compare entries with the log, but do not print them.
        sanity_only: only run the sanity check that a broker runs at startup.
        max_message_size: how many bytes of the log to read for an ``.index`` entry.
        budget: the most bytes to decompress per batch.
    """

    verify_only: bool = False
    sanity_only: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    budget: int = DEFAULT_BUDGET


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The command line of Kafka's tool, with one field per option.

    A decoder class is None if its option was not given, and empty if the option was given without a class.
    """

    files: tuple[str, ...] = ()
    print_data_log: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int = MAX_INT
    key_decoder_class: str | None = None
    value_decoder_class: str | None = None
    offsets_decoder: bool = False
    transaction_log_decoder: bool = False
    cluster_metadata_decoder: bool = False
    remote_log_metadata_decoder: bool = False
    share_group_state_decoder: bool = False

    @property
    def prints_contents(self) -> bool:
        """Whether keys and payloads are printed, which every decoder option implies."""
        classes = (self.key_decoder_class, self.value_decoder_class)
        return self.print_data_log or self.topic_decoder is not None or any(name is not None for name in classes)

    @property
    def prints_records(self) -> bool:
        """Whether record lines are printed."""
        return self.deep_iteration or self.prints_contents

    @property
    def topic_decoder(self) -> str | None:
        """The kind of the decoder for an internal topic; the first in this order if several are given."""
        flags = {
            "offsets": self.offsets_decoder,
            "transaction": self.transaction_log_decoder,
            "cluster-metadata": self.cluster_metadata_decoder,
            "remote-log-metadata": self.remote_log_metadata_decoder,
            "share-group-state": self.share_group_state_decoder,
        }
        return next((kind for kind, is_given in flags.items() if is_given), None)

    @property
    def decodes_text(self) -> bool:
        """Whether keys and payloads are decoded as UTF-8, which is the default."""
        return self.topic_decoder is None and not (self.key_decoder_class or self.value_decoder_class)

    @property
    def log_end(self) -> int | None:
        """The position at which reading a log ends; None for the end of the file."""
        return self.max_bytes if self.max_bytes < MAX_INT else None

    def index_options(self, budget: int) -> IndexOptions:
        """Return the options that apply to index files."""
        return IndexOptions(self.verify_index_only, self.index_sanity_check, self.max_message_size, budget)

    def check(self, style: DumpStyle) -> None:
        """Reject options that a release does not have.

        Raises:
            JavaError: the tool's option parser fails.
        """
        for field in fields(self):
            option = field.name.replace("_", "-")
            if getattr(self, field.name) != field.default and option not in style.options:
                message = f"{option} is not a recognized option"
                raise JavaError("joptsimple.UnrecognizedOptionException", message)
