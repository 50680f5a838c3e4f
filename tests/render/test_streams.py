import io

import pytest

from kforensics.parsers.files.source import BytesSource
from kforensics.render import streams
from kforensics.render.streams import MeteredSource, ProgressMeter, TextSink, progress_meter


class _Counter(ProgressMeter):
    def __init__(self) -> None:
        self.counted = 0

    def advance(self, size: int) -> None:
        self.counted += size


def test_text_is_written_in_order_and_in_blocks() -> None:
    out = io.BytesIO()
    sink = TextSink(out)
    sink.write("a")
    assert out.getvalue() == b""
    sink.write("b" * 70_000)
    assert out.getvalue() == b"a" + b"b" * 70_000
    sink.write("é\ud800")
    sink.flush()
    assert out.getvalue()[-3:] == "é?".encode()


def test_bytes_that_are_read_again_count_once() -> None:
    meter = _Counter()
    source = MeteredSource(BytesSource(bytes(100)), meter)
    for position, length in ((0, 10), (5, 10), (0, 5), (90, 50)):
        source.read(position, length)
    assert meter.counted == 100


@pytest.mark.parametrize(("show", "is_shown"), [(False, False), (None, False), (True, True)], ids=str)
def test_progress_is_shown_on_request(show: bool | None, is_shown: bool) -> None:
    """The standard error of a test is not a terminal."""
    with progress_meter(100, show=show) as meter:
        assert (meter is not None) is is_shown


def test_short_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_meter(100, show=True) as meter:
        assert meter
        meter.advance(50)
    assert capsys.readouterr().err == ""


def test_long_work_shows_progress_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich treat the stream as a terminal
    monkeypatch.setenv("COLUMNS", "80")
    with progress_meter(100, show=True) as meter:
        assert meter
        meter.advance(100)
        meter.advance(0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "100/100" in captured.err


def test_partitions_and_their_bytes_count_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_meter(0, show=True, what="lso") as meter:
        assert meter
        meter.expect({"a-0": 60, "a-1": 40})
        meter.expect({"a-0": 60})
        meter.advance(30)
        meter.finish("a-0")
        meter.finish("a-0")
        meter.advance(15)
    err = capsys.readouterr().err
    assert "lso 0/2 partitions" in err
    assert "lso 1/2 partitions" in err
    assert "75/100" in err


@pytest.mark.parametrize(("counted", "shown"), [((40, 3), (40, 3)), ((120, 9), (100, 8))])
def test_sums_that_tasks_have_counted_are_shown(
    counted: tuple[int, int],
    shown: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tasks that Spark runs twice may count twice."""
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_meter(100, show=True, what="audit", partitions=8) as meter:
        assert meter
        meter.reach(*counted)
    err = capsys.readouterr().err
    assert f"{shown[0]}/100" in err
    assert f"audit {shown[1]}/8 partitions" in err
