"""Message schemas of `__transaction_state`.

Source: https://github.com/apache/kafka/tree/trunk/transaction-coordinator/src/main/resources/common/message,
as shipped in the jars of releases 2.7 to 4.4.
"""

from __future__ import annotations

from kforensics.parsers.messages.schema import Field, MessageSchema

TRANSACTION_LOG_KEY = MessageSchema(
    "TransactionLogKey", 0, (Field("transactionalId", "string"),), flexible=None, highest=(("2.8", 0),)
)
TRANSACTION_LOG_VALUE = MessageSchema(
    "TransactionLogValue",
    0,
    (
        Field("producerId", "int64"),
        Field("previousProducerId", "int64", "1+", tag=0, default=-1, since="4.0"),
        Field("nextProducerId", "int64", "1+", tag=1, default=-1, since="4.0"),
        Field("producerEpoch", "int16"),
        Field("nextProducerEpoch", "int16", "1+", tag=3, default=-1, since="4.1"),
        Field("transactionTimeoutMs", "int32"),
        Field("transactionStatus", "int8"),
        Field(
            "transactionPartitions",
            "[]PartitionsSchema",
            nullable="0+",
            fields=(
                Field("topic", "string"),
                Field("partitionIds", "[]int32"),
            ),
        ),
        Field("transactionLastUpdateTimestampMs", "int64"),
        Field("transactionStartTimestampMs", "int64"),
        Field("clientTransactionVersion", "int16", "1+", tag=2, since="4.0"),
    ),
    flexible="1+",
    highest=(
        ("2.8", 0),
        ("3.4", 1),
    ),
)
