"""Every option of ``dump`` with kernels and in pure Python: the same bytes, reports and outcome, whatever the logs.

The test counts the batches that kernels have read, so that it cannot compare pure Python with itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.analyses import dump as analysis
from kforensics.analyses.dump import DumpOutcome, DumpRequest, dump_rows, dump_text
from kforensics.analyses.filters import Isolation, offset_range, pattern, time_range
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.parsers.kernels.library import Kernels, Request, load_kernels
from kforensics.parsers.kernels.policy import no_kernels
from kforensics.parsers.kernels.request import SLOT
from kforensics.parsers.log.selection import Selection
from kforensics.render.formats import BytesFormat, Format
from kforensics.render.payloads import Redactor
from lab.places import SAMPLES
from tests.thorough import share, some

pytestmark = pytest.mark.exhaustive

LOGS = sorted(path for suffix in ("log", "checkpoint") for path in SAMPLES.rglob(f"*.{suffix}"))
LINES, DATA = ToolOptions(), ToolOptions(print_data_log=True)
BARE = ToolOptions(print_data_log=True, skip_record_metadata=True)
FILTERS: dict[str, dict[str, Any]] = {
    "everything": {},
    "offsets": {"selection": Selection(offsets=offset_range("3:25"))},
    "first offset": {"selection": Selection(offsets=offset_range("7:"))},
    "offsets out of range": {"selection": Selection(offsets=offset_range("99999999999999999999:"))},
    "times": {"selection": Selection(times=time_range("1700000000000:1795400000000"))},
    "times before": {"selection": Selection(times=time_range(":1795300000000"))},
    "producer id": {"selection": Selection(producer_id=0)},
    "no producer id": {"selection": Selection(producer_id=-1)},
    "producer id out of range": {"selection": Selection(producer_id=1 << 70)},
    "producer epoch": {"selection": Selection(producer_epoch=0)},
    "leader epoch": {"selection": Selection(leader_epoch=0)},
    "transactional": {"selection": Selection(transactional=True)},
    "not transactional": {"selection": Selection(transactional=False)},
    "control": {"selection": Selection(control=True)},
    "no control": {"selection": Selection(control=False)},
    "key": {"selection": Selection(key=pattern("1"))},
    "key prefix": {"selection": Selection(key=pattern("^k"))},
    "key pattern": {"selection": Selection(key=pattern("[0-4]$"))},
    "all at once": {
        "selection": Selection(offset_range("1:40"), time_range("1:"), transactional=True, key=pattern("e"))
    },
    "read_committed": {"isolation": Isolation.READ_COMMITTED},
    "read_committed offsets": {
        "isolation": Isolation.READ_COMMITTED,
        "selection": Selection(offsets=offset_range("2:30")),
    },
    "aborted": {"aborted": True},
    "limit": {"limit": 700},
    "limit of one": {"limit": 1, "selection": Selection(control=False)},
    "limit of a filter": {"limit": 300, "selection": Selection(control=False, offsets=offset_range("1:"))},
}
OUTPUTS: dict[str, dict[str, Any]] = {
    "batch lines": {"tool": LINES},
    "record lines": {"tool": DATA},
    "contents": {"tool": BARE},
    "ndjson records": {"output_format": Format.NDJSON, "table": "records"},
    "csv batches": {"output_format": Format.CSV, "table": "batches"},
    "arrow records": {"output_format": Format.ARROW, "table": "records"},
    "arrow batches": {"output_format": Format.ARROW, "table": "batches"},
}
PAYLOAD_OUTPUTS = ["record lines", "contents", "ndjson records", "json records", "csv records", "arrow records"]
REDACT = Redactor(b"a secret")
PAYLOADS: dict[str, dict[str, Any]] = {
    **{str(item): {"key_format": item, "value_format": item} for item in BytesFormat if item is not BytesFormat.JSON},
    "hex keys": {"key_format": BytesFormat.HEX},
    "redact": {"redact": REDACT},
    "redact hex": {"redact": REDACT, "value_format": BytesFormat.HEX},
}


class CountingKernels:
    """Compiled kernels, and the batches that they have read.

    Attributes:
        batches: their number.
    """

    def __init__(self, kernels: Kernels) -> None:
        self._kernels, self.batches = kernels, 0

    def poll(self) -> CountingKernels:
        """Return the kernels, which are loaded already."""
        return self

    def __getattr__(self, name: str) -> Callable[[int], int]:
        kernel = getattr(self._kernels, name)

        def counting(address: int) -> int:
            status: int = kernel(address)
            if name in ("lines", "batch_columns", "record_columns"):
                self.batches += Request.from_address(address)[SLOT.batches]
            return status

        return counting


@pytest.fixture(scope="module", autouse=True)
def _one_processor() -> Iterator[None]:
    """Use one thread, because starting others takes longer than reading a small segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _process: {0})
        yield


def dumped(request: DumpRequest, monkeypatch: pytest.MonkeyPatch, policy: Any) -> tuple[bytes, list[str], DumpOutcome]:
    """Return the output, the reports and the outcome of a dump with some kernels."""
    monkeypatch.setattr(analysis, "kernels_for", policy)
    out, reports = BytesIO(), list[str]()
    run = dump_text if request.output_format is Format.TEXT else dump_rows
    outcome = run(request, out, reports.append, reports.append)
    return out.getvalue(), reports, outcome


def comparable(data: bytes, request: DumpRequest) -> Any:
    """Return output in which only rows count: how they are grouped in record batches may differ."""
    if request.output_format is not Format.ARROW:
        return data
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all().combine_chunks()


def same(request: DumpRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Check that kernels and pure Python dump the same; return the number of batches that kernels have read."""
    loaded = load_kernels()
    assert loaded, "the kernels cannot be compiled here"
    counting = CountingKernels(loaded)
    expected, reports, outcome = dumped(request, monkeypatch, lambda *_, **__: no_kernels(0))
    written = dumped(request, monkeypatch, lambda *_, **__: counting)
    assert comparable(written[0], request) == comparable(expected, request)
    assert written[1:] == (reports, outcome)
    return counting.batches


@pytest.fixture(scope="module")
def mutated(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return copies of samples, truncated anywhere and with some bits flipped."""
    dice, folder = Random(20), tmp_path_factory.mktemp("mutated")  # noqa: S311  # dice for a test
    for number, path in enumerate(dice.sample(LOGS, share(60, 5))):
        data = bytearray(path.read_bytes())
        for _ in range(dice.choice([0, 1, 1, 3]) if data else 0):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        target = folder / f"mutated-{number}"
        target.mkdir()
        end = dice.choice([None, dice.randint(0, len(data))])
        (target / path.name).write_bytes(data[:end])
    return tuple(str(path) for path in sorted(Path(folder).glob("*/*")))


def part(outputs: list[str], output: str) -> tuple[str, ...]:
    """Return the samples for one of the outputs; together, all outputs of an option have all samples."""
    return tuple(map(str, some(LOGS[outputs.index(output) :: len(outputs)], 9)))


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("filters", FILTERS)
def test_every_filter_selects_the_same(
    filters: str, output: str, mutated: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = DumpRequest((), **{**OUTPUTS[output], **FILTERS[filters]})
    if request.selection.key and "batch" in output:
        pytest.skip("keys are those of records")
    assert same(replace(request, paths=part(list(OUTPUTS), output)), monkeypatch) > (15 if request.limit is None else 0)
    assert same(replace(request, paths=mutated), monkeypatch) or request.limit is not None


@pytest.mark.parametrize("output", PAYLOAD_OUTPUTS)
@pytest.mark.parametrize("payloads", PAYLOADS)
def test_payloads_are_shown_the_same(
    payloads: str, output: str, mutated: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: dict[str, Any] = {}
    if output.endswith(" records"):
        rows = {"output_format": Format(output.partition(" ")[0]), "table": "records"}
    request = DumpRequest((), **{"tool": OUTPUTS.get(output, {}).get("tool", LINES), **rows, **PAYLOADS[payloads]})
    assert same(replace(request, paths=part(PAYLOAD_OUTPUTS, output)), monkeypatch) > 15
    assert same(replace(request, paths=mutated), monkeypatch)
