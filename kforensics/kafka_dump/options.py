"""The options of Kafka's dump tool, and the errors it has for wrong ones."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kforensics.kafka_dump.compared_files import MAX_MESSAGE_SIZE, IndexOptions
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.styles import Style

__all__ = ["ToolOptions"]

INT_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What Kafka's tool takes on its command line, option by option.

    A decoder class is None if its option was not given, and empty if it was given without a class.
    """

    files: tuple[str, ...] = ()
    print_data_log: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int = INT_MAX
    key_decoder_class: str | None = None
    value_decoder_class: str | None = None
    offsets_decoder: bool = False
    transaction_log_decoder: bool = False
    cluster_metadata_decoder: bool = False
    remote_log_metadata_decoder: bool = False
    share_group_state_decoder: bool = False

    @property
    def prints_contents(self) -> bool:
        """Whether keys and payloads are printed: any decoder asks for it."""
        classes = (self.key_decoder_class, self.value_decoder_class)
        return self.print_data_log or self.topic_decoder is not None or any(name is not None for name in classes)

    @property
    def prints_records(self) -> bool:
        """Whether record lines are printed."""
        return self.deep_iteration or self.prints_contents

    @property
    def topic_decoder(self) -> str | None:
        """Kind of the internal topic's decoder; of several the first of this list wins."""
        given = {
            "offsets": self.offsets_decoder,
            "transaction": self.transaction_log_decoder,
            "cluster-metadata": self.cluster_metadata_decoder,
            "remote-log-metadata": self.remote_log_metadata_decoder,
            "share-group-state": self.share_group_state_decoder,
        }
        return next((kind for kind, wanted in given.items() if wanted), None)

    @property
    def decodes_text(self) -> bool:
        """Whether keys and payloads are decoded as UTF-8, as is the default."""
        return self.topic_decoder is None and not (self.key_decoder_class or self.value_decoder_class)

    @property
    def log_end(self) -> int | None:
        """Position at which the reading of a log ends, None for its own end."""
        return self.max_bytes if self.max_bytes < INT_MAX else None

    def index_options(self, budget: int) -> IndexOptions:
        """Return what to do with indexes."""
        return IndexOptions(self.verify_index_only, self.index_sanity_check, self.max_message_size, budget)

    def check(self, style: Style) -> None:
        """Refuse options that a release does not know.

        Raises:
            JavaError: as the tool's option parser does.
        """
        for field in fields(self):
            option = field.name.replace("_", "-")
            if getattr(self, field.name) != field.default and option not in style.options:
                message = f"{option} is not a recognized option"
                raise JavaError("joptsimple.UnrecognizedOptionException", message)
