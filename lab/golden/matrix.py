"""Which runs are made: every file and every option that applies to it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

from lab.golden.tools import DECODERS, DumpTool

LOGS = (".log", ".checkpoint")
INDEXES = (".index", ".timeindex", ".txnindex")
DUMPABLE = (*LOGS, *INDEXES, ".snapshot")
RENAMED = (".deleted", ".swap", ".cleaned")
_SMALL = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """One file of a scenario, by its path relative to the scenario's folder."""

    path: PurePosixPath
    size: int

    @property
    def topic(self) -> str:
        """The topic, by the name of the folder."""
        return self.path.parent.name.rpartition("-")[0]

    @property
    def broker(self) -> str:
        """The first folder of the path: usually a broker."""
        return self.path.parts[0]


@dataclass(frozen=True, slots=True)
class Command:
    """One command line, and the folders it may alter."""

    arguments: tuple[str, ...]
    alters: tuple[str, ...] = ()


def list_samples(scenario: Path) -> list[Sample]:
    """Every file that lies in a folder of the scenario, in order."""
    files = (path for path in scenario.rglob("*") if path.is_file())
    samples = [Sample(PurePosixPath(path.relative_to(scenario)), path.stat().st_size) for path in files]
    return sorted((sample for sample in samples if len(sample.path.parts) > 1), key=lambda sample: sample.path)


def list_commands(tool: DumpTool, samples: Sequence[Sample]) -> list[Command]:
    """The command lines of one tool for one scenario, each once."""
    found = [
        *(command for sample in samples for command in _for_file(tool, sample)),
        *(command for sample in _firsts(samples) for command in _decoded_by_class(tool, sample)),
        *_wrongly_decoded(tool, samples),
        *_unknown_files(samples),
        *_for_folders(samples),
        *_for_brokers(samples),
    ]
    return list(dict.fromkeys(found))


def argument_errors(tool: DumpTool, samples: Sequence[Sample]) -> list[Command]:
    """Command lines that are refused, or nearly: once for all scenarios is enough."""
    log = next(str(sample.path) for sample in samples if sample.path.suffix == ".log")
    index = next(str(sample.path) for sample in samples if sample.path.suffix == ".index")
    lines = [
        [],
        ["--help"],
        ["--files"],
        ["--deep-iteration"],
        ["--files", log, "--no-such-option"],
        ["--files", index, "--max-message-size", "many"],
        ["--files", log, "--max-bytes", "-1"],
        ["--files", log, "--max-bytes", "many"],
        ["--files", log, "--skip-record-metadata"],
        ["--files", log, "--print-data-log", "--key-decoder-class", "no.such.Decoder"],
        ["--files", log, "--value-decoder-class"],
        ["--files", f"{log},,{log},"],
        ["--files", f"{log}, {log}"],
        ["--files", f"./{log}"],
        ["--files", log.replace("/", "//")],
        ["--files", "missing/00000000000000000000.log"],
        ["--files", "missing/00000000000000000000.snapshot"],
        *(["--files", log, decoder] for decoder in DECODERS.values() if decoder not in tool.decoders),
    ]
    return [Command(tuple(line)) for line in lines]


def _for_file(tool: DumpTool, sample: Sample) -> Iterator[Command]:
    suffix = sample.path.suffix
    if suffix in LOGS:
        return (_command([sample], options) for options in _log_options(tool, sample))
    if suffix == ".index":
        sizes: list[list[str]] = [["--max-message-size", str(_SMALL)]] if sample.size else []
        return (_command([sample], options) for options in [*_INDEX_OPTIONS, *sizes])
    if suffix == ".timeindex":
        return (_command([sample], options) for options in _INDEX_OPTIONS)
    if suffix in DUMPABLE or suffix in RENAMED:
        return iter([_command([sample], [])])
    return iter(())


_INDEX_OPTIONS: tuple[list[str], ...] = ([], ["--verify-index-only"], ["--index-sanity-check"])


def _log_options(tool: DumpTool, sample: Sample) -> Iterator[list[str]]:
    yield []
    if sample.path.suffix == ".checkpoint" and not tool.limits_bytes:
        return
    yield ["--deep-iteration"]
    if sample.size == 0:
        return
    yield ["--print-data-log"]
    decoder = DECODERS.get(sample.topic, "")
    if decoder in tool.decoders:
        yield [decoder]
    if tool.skips_metadata:
        yield ["--deep-iteration", "--skip-record-metadata"]
        yield ["--print-data-log", "--skip-record-metadata"]
        if decoder in tool.decoders:
            yield [decoder, "--skip-record-metadata"]
    if tool.limits_bytes:
        yield ["--max-bytes", str(_SMALL)]
        yield ["--max-bytes", str(sample.size // 2)]
        yield ["--max-bytes", str(sample.size // 2), "--print-data-log"]


def _decoded_by_class(tool: DumpTool, sample: Sample) -> Iterator[Command]:
    """Numbers as keys and values, which often fail: that is worth knowing too."""
    for package in tool.class_decoders:
        key = ["--key-decoder-class", f"{package}.LongDecoder"]
        value = ["--value-decoder-class", f"{package}.IntegerDecoder"]
        yield _command([sample], key)
        yield _command([sample], value)
        yield _command([sample], [*key, "--value-decoder-class", f"{package}.StringDecoder"])
    if tool.skips_metadata:
        yield _command([sample], [*value, "--skip-record-metadata"])


def _firsts(samples: Iterable[Sample]) -> Iterator[Sample]:
    """The first log with content of every folder that holds no internal topic."""
    logs = (each for each in samples if each.path.suffix == ".log" and each.size and each.topic not in DECODERS)
    for _folder, group in groupby(logs, key=lambda sample: sample.path.parent):
        yield next(group)


def _wrongly_decoded(tool: DumpTool, samples: Sequence[Sample]) -> Iterator[Command]:
    """One ordinary log under every decoder, and each internal topic under the others' decoders."""
    seen: set[str] = set()
    for sample in samples:
        topic = sample.topic if sample.topic in DECODERS else ""
        if sample.path.suffix != ".log" or not sample.size or topic in seen:
            continue
        seen.add(topic)
        for decoder in sorted(tool.decoders - {DECODERS.get(topic, "")}):
            yield _command([sample], [decoder])


def _unknown_files(samples: Iterable[Sample]) -> Iterator[Command]:
    """The first file of each name that no tool knows."""
    seen: set[str] = set()
    for sample in samples:
        if sample.path.suffix not in (*DUMPABLE, *RENAMED) and sample.path.name not in seen:
            seen.add(sample.path.name)
            yield _command([sample], [])


def _for_folders(samples: Iterable[Sample]) -> Iterator[Command]:
    """All files of a folder in one run: the order of the summaries, and what an abort leaves out."""
    known = (sample for sample in samples if sample.path.suffix in (*DUMPABLE, *RENAMED))
    for _folder, group in groupby(known, key=lambda sample: sample.path.parent):
        files = list(group)
        if len(files) > 1:
            yield _command(files, ["--deep-iteration"])


def _for_brokers(samples: Sequence[Sample]) -> Iterator[Command]:
    """All logs of a broker, and all indexes of its logs that are not empty, each in one run."""
    full = {sample.path for sample in samples if sample.path.suffix == ".log" and sample.size}
    for _broker, group in groupby(samples, key=lambda sample: sample.broker):
        files = list(group)
        if len({sample.path.parent for sample in files}) < 2:
            continue
        yield from _together([each for each in files if each.path.suffix == ".log"], "--deep-iteration")
        for suffix in (".index", ".timeindex"):
            indexes = [each for each in files if each.path.suffix == suffix and each.path.with_suffix(".log") in full]
            yield from _together(indexes, "--verify-index-only")


def _together(files: Sequence[Sample], option: str) -> Iterator[Command]:
    if len(files) > 1:
        yield _command(files, [option])


def _command(files: Sequence[Sample], options: Sequence[str]) -> Command:
    names = ",".join(str(sample.path) for sample in files)
    altered = {str(sample.path.parent) for sample in files if sample.path.suffix in INDEXES}
    return Command(("--files", names, *options), tuple(sorted(altered)))
