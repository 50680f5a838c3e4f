"""Kafka's own tools and the imitation, run on the same damaged indexes, snapshots and transaction indexes."""

import fcntl
import random
import shutil
import struct
from itertools import product
from pathlib import Path

import pytest

from kforensics.kafka_dump.styles import STYLES
from kforensics.kafka_dump.tool_options import IndexOptions
from kforensics.parsers.format.checksums import crc32c
from lab.golden.process import ToolProcess
from lab.golden.tools import TOOLS, DumpTool
from lab.places import CACHE
from tests.kafka_dump.imitation import run
from tests.kafka_dump.segments import TIME, batch, index, time_index
from tests.thorough import share

CASES = share(40, 8)
BASE = "00000000000000000100"
NUMBERS = (0, 1, -1, 7, 100, 2**31 - 1, -(2**31))

pytestmark = pytest.mark.java


def damaged(dice: random.Random, data: bytes, width: int) -> bytes:
    """Return data with up to four random errors: flipped bits, cut or added bytes, other numbers, a repeated entry."""
    content = bytearray(data)
    for _ in range(dice.choice((0, 1, 1, 2, 4))):
        kind, position = dice.randrange(6), dice.randrange(len(content) + 1)
        if kind == 0 and position < len(content):
            content[position] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del content[position:]
        elif kind == 2:
            content += bytes(dice.choice((1, 8, 12, 34, 46, 300)))
        elif kind == 3:
            content += dice.randbytes(dice.choice((1, 5, 8, 12)))
        elif kind == 4 and position + 4 <= len(content):
            content[position : position + 4] = struct.pack(">i", dice.choice(NUMBERS))
        elif kind == 5:
            content[position:position] = content[:width]
    return bytes(content)


def segment(dice: random.Random, base: int) -> dict[str, bytes]:
    """Return a log of a few batches with indexes that are nearly right."""
    offsets = [base + 3 * n for n in range(dice.randrange(1, 7))]
    batches = [batch(offset, 3, kept=dice.choice((None, None, 0, 2))) for offset in offsets]
    positions = [sum(map(len, batches[:n])) for n in range(len(batches))]
    name = f"{base:020}"
    return {
        f"{name}.log": b"".join(batches),
        f"{name}.index": index(
            *((o - base + dice.choice((0, 2, 2, 2, 5)), p) for o, p in zip(offsets, positions, strict=True))
        ),
        f"{name}.timeindex": time_index(*((TIME + o + 2, o - base + dice.choice((1, 2, 2, 2))) for o in offsets)),
    }


def index_case(dice: random.Random) -> tuple[dict[str, bytes], list[str]]:
    files = segment(dice, 100)
    files[f"{BASE}.index"] = damaged(dice, files[f"{BASE}.index"], 8)
    files[f"{BASE}.timeindex"] = damaged(dice, files[f"{BASE}.timeindex"], 12)
    if dice.random() < 0.3:
        files[f"{BASE}.log"] = damaged(dice, files[f"{BASE}.log"], 61)
    for suffix in (".log", ".index", ".timeindex"):
        if dice.random() < 0.03:
            del files[f"{BASE}{suffix}"]
    return files, [BASE + dice.choice((".index", ".timeindex"))]


def snapshot_case(dice: random.Random) -> tuple[dict[str, bytes], list[str]]:
    entries = [
        struct.pack(">qhiqiqiq", n, 0, 9, dice.choice((-1, 60)), n, TIME, 0, dice.choice((-1, 5))) for n in range(3)
    ]
    data = damaged(dice, struct.pack(">hIi", 1, 0, 3) + b"".join(entries), 46)
    if len(data) > 6:
        data = data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]
    return {f"{BASE}.snapshot": data}, [f"{BASE}.snapshot"]


def transaction_case(dice: random.Random) -> tuple[dict[str, bytes], list[str]]:
    data = b"".join(struct.pack(">hqqqq", 0, 5000 + n, 10 * n, 10 * n + 5, 10 * n) for n in range(3))
    return {f"{BASE}.txnindex": damaged(dice, data, 34)}, [f"{BASE}.txnindex"]


def several_case(dice: random.Random) -> tuple[dict[str, bytes], list[str]]:
    files: dict[str, bytes] = {}
    for n in range(dice.randrange(2, 30)):
        files |= segment(dice, 1000 + 100 * n)
    chosen = [name for name in files if not name.endswith(".log") and dice.random() < 0.7]
    return files, chosen or [next(name for name in files if name.endswith(".index"))]


MAKERS = (index_case, snapshot_case, transaction_case, several_case)


def options(dice: random.Random) -> tuple[IndexOptions, list[str]]:
    arguments: list[str] = []
    verify, sanity, size = dice.random() < 0.2, dice.random() < 0.15, IndexOptions().max_message_size
    if dice.random() < 0.2:
        size = dice.choice((0, 17, 61, 100, 2**31 - 1))
        arguments += ["--max-message-size", str(size)]
    arguments += ["--verify-index-only"] * verify + ["--index-sanity-check"] * sanity
    return IndexOptions(verify, sanity, size), arguments


def provide(tool: DumpTool) -> None:
    """Download and compile a tool; one test process at a time, because they share the folder."""
    missing = [name for name in ("mvn", "javac") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} fetch and start Kafka's own tools, and are not installed here")
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tool.command()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.version)
def test_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: DumpTool) -> None:
    """Both streams and the exit code equal those of the tool, whatever the damage."""
    provide(tool)
    monkeypatch.chdir(tmp_path)
    style = STYLES[tool.version.rpartition(".")[0]]
    with ToolProcess(tool, tmp_path) as process:
        for make, number in product(MAKERS, range(CASES)):
            dice = random.Random(f"{make.__name__} {number}")  # noqa: S311 - dice for damage, not for secrets
            folder = f"{make.__name__}-{number}"
            (tmp_path / folder).mkdir()
            files, names = make(dice)
            for name, content in files.items():
                (tmp_path / folder / name).write_bytes(content)
            paths = [f"{folder}/{name}" for name in names]
            chosen, arguments = options(dice)
            # The imitation runs first, because the tool may create or trim an index.
            output = run(paths, chosen, style, str(tmp_path))
            expected = process.run(("--files", ",".join(paths), *arguments))
            assert output == (expected.exit, expected.stdout, expected.stderr), (paths, arguments)
