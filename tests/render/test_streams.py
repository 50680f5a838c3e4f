import io

import pytest

from kforensics.parsers.files.source import BytesSource
from kforensics.render import streams
from kforensics.render.streams import Meter, MeteredSource, TextSink, metered


class _Counter(Meter):
    def __init__(self) -> None:
        self.counted = 0

    def advance(self, size: int) -> None:
        self.counted += size


def test_text_comes_in_order_and_in_blocks() -> None:
    out = io.BytesIO()
    sink = TextSink(out)
    sink.write("a")
    assert out.getvalue() == b""
    sink.write("b" * 70_000)
    assert out.getvalue() == b"a" + b"b" * 70_000
    sink.write("é\ud800")
    sink.flush()
    assert out.getvalue()[-3:] == "é?".encode()


def test_bytes_read_twice_are_counted_once() -> None:
    meter = _Counter()
    source = MeteredSource(BytesSource(bytes(100)), meter)
    for position, length in ((0, 10), (5, 10), (0, 5), (90, 50)):
        source.read(position, length)
    assert meter.counted == 100


@pytest.mark.parametrize(("wanted", "shown"), [(False, False), (None, False), (True, True)], ids=str)
def test_progress_is_shown_where_it_is_wanted(wanted: bool | None, shown: bool) -> None:
    """Nobody looks at the standard error of a test."""
    with metered(100, wanted=wanted) as meter:
        assert (meter is not None) is shown


def test_short_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with metered(100, wanted=True) as meter:
        assert meter
        meter.advance(50)
    assert capsys.readouterr().err == ""


def test_long_work_shows_progress_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(streams, "PATIENCE", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes the stream for a terminal
    monkeypatch.setenv("COLUMNS", "80")
    with metered(100, wanted=True) as meter:
        assert meter
        meter.advance(100)
        meter.advance(0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "100/100" in captured.err
