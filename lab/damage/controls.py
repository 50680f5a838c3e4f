"""Control records that are damaged, unknown or out of place."""

import struct
from collections.abc import Iterator

from lab.damage.cases import Case, log_case
from lab.damage.forge import CONTROL, GZIP, TRANSACTIONAL, batch, gzipped, marker, plain, record, three

_PRODUCER = (4711, 2)
_COMMIT, _ABORT = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"
_VALUE = b"\x00\x00" + struct.pack(">i", 12)


def control_cases() -> Iterator[Case]:
    """A transaction of three records, then the control batch in question, then two good batches."""
    for name, (control, says) in {**_markers(), **_kraft()}.items():
        data = batch(3, three(3), attributes=TRANSACTIONAL, producer=(*_PRODUCER, 0))
        yield log_case(name, says, plain(0) + data + control + plain(9) + plain(12))


def _markers() -> dict[str, tuple[bytes, str]]:
    def marked(key: bytes, value: bytes) -> bytes:
        return marker(6, _PRODUCER, key, value)

    two = [record(0, _COMMIT, _VALUE), record(1, _ABORT, _VALUE)]
    return {
        "control-key-empty": (marked(b"", _VALUE), "The key of a marker is empty."),
        "control-key-short": (marked(b"\x00\x00\x00", _VALUE), "The key of a marker has three bytes."),
        "control-key-long": (marked(_COMMIT + b"more", _VALUE), "The key of a marker has eight bytes (accepted)."),
        "control-key-version-negative": (marked(b"\xff\xff\x00\x01", _VALUE), "The version in a marker's key is -1."),
        "control-key-version-5": (
            marked(b"\x00\x05\x00\x01", _VALUE),
            "The version in a marker's key is 5 (read as 0).",
        ),
        "control-key-null": (
            batch(6, [record(0, None, _VALUE)], attributes=TRANSACTIONAL | CONTROL, producer=(*_PRODUCER, -1)),
            "A marker has no key.",
        ),
        "control-type-9": (
            marked(b"\x00\x00\x00\x09", _VALUE),
            "The type of a control record is 9, which does not exist.",
        ),
        "control-type-negative": (marked(b"\x00\x00\xff\xfe", _VALUE), "The type of a control record is -2."),
        "marker-value-empty": (marked(_COMMIT, b""), "The value of a marker is empty."),
        "marker-value-short": (marked(_ABORT, _VALUE[:5]), "The value of a marker has five bytes."),
        "marker-value-long": (marked(_ABORT, _VALUE + b"more"), "The value of a marker has ten bytes (accepted)."),
        "marker-value-null": (
            batch(6, [record(0, _COMMIT, None)], attributes=TRANSACTIONAL | CONTROL, producer=(*_PRODUCER, -1)),
            "A marker has no value.",
        ),
        "marker-version-negative": (marked(_COMMIT, b"\xff\xff" + _VALUE[2:]), "The version of a marker is -1."),
        "marker-version-3": (marked(_COMMIT, b"\x00\x03" + _VALUE[2:]), "The version of a marker is 3 (read as 0)."),
        "marker-epoch-negative": (
            marked(_COMMIT, b"\x00\x00" + struct.pack(">i", -9)),
            "The coordinator epoch of a marker is -9.",
        ),
        "marker-not-transactional": (
            marker(6, _PRODUCER, _COMMIT, _VALUE, CONTROL),
            "A marker without the transactional bit.",
        ),
        "marker-without-producer": (marker(6, (-1, -1), _COMMIT, _VALUE), "A marker of producer -1."),
        "markers-two-in-one": (
            batch(6, two, attributes=TRANSACTIONAL | CONTROL, producer=(*_PRODUCER, -1)),
            "One control batch holds two markers.",
        ),
        "marker-compressed": (
            batch(6, gzipped(two[0]), count=1, attributes=TRANSACTIONAL | CONTROL | GZIP, producer=(*_PRODUCER, -1)),
            "A marker in a gzip batch.",
        ),
        "marker-missing-bit": (
            batch(6, two[:1], attributes=TRANSACTIONAL, producer=(*_PRODUCER, -1)),
            "A marker whose batch lacks the control bit, so it looks like data.",
        ),
        "data-with-control-bit": (
            batch(6, three(6), attributes=CONTROL),
            "Three data records whose batch has the control bit.",
        ),
        "control-batch-empty": (
            batch(6, [], last_delta=0, attributes=TRANSACTIONAL | CONTROL, producer=(*_PRODUCER, -1), times=(-1, 9)),
            "A control batch that the cleaner emptied (legal).",
        ),
    }


def _kraft() -> dict[str, tuple[bytes, str]]:
    leader = bytes.fromhex("0000 00000001 03 00000001 00 00000002 00 02 00000001 00 00")
    voters = (
        bytes.fromhex("0000 02 00000001 0000000000000001 0000000000000002 02 0b")
        + b"CONTROLLER"
        + bytes.fromhex("0268 2385 00 0000 0001 00 00 00")
    )
    header, footer, version = (
        b"\x00\x00" + struct.pack(">q", 1_699_999_999_999) + b"\x00",
        bytes(3),
        b"\x00\x00\x00\x01\x00",
    )
    whole = {
        "leader-change": (2, leader),
        "snapshot-header": (3, header),
        "snapshot-footer": (4, footer),
        "kraft-version": (5, version),
        "kraft-voters": (6, voters),
    }
    cases = {}
    for name, (number, value) in whole.items():
        cases[name] = (_kraft_batch(number, value), f"A {name} record outside of KRaft's own log; it is healthy.")
        cases[f"{name}-cut"] = (_kraft_batch(number, value[:-2]), f"The value of a {name} record ends too early.")
        cases[f"{name}-long"] = (_kraft_batch(number, value + b"more"), f"Bytes follow the value of a {name} record.")
        cases[f"{name}-version-1"] = (
            _kraft_batch(number, b"\x00\x01" + value[2:]),
            f"The version inside a {name} record is 1.",
        )
    cases["leader-change-wild-array"] = (
        _kraft_batch(2, leader[:6] + b"\xff\xff\x7f" + leader[7:]),
        "The voters of a leader-change record are wildly many.",
    )
    cases["leader-change-null-array"] = (
        _kraft_batch(2, leader[:6] + b"\x00" + leader[7:]),
        "The voters of a leader-change record are null.",
    )
    cases["snapshot-header-tagged"] = (
        _kraft_batch(3, header[:-1] + b"\x01\x05\x02xy"),
        "A snapshot-header record carries an unknown tagged field.",
    )
    return cases


def _kraft_batch(number: int, value: bytes) -> bytes:
    return batch(6, [record(0, struct.pack(">hh", 0, number), value)], attributes=CONTROL)
