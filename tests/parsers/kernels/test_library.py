"""Where compiled kernels are kept and when they are trusted, each case in a process of its own with its own folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kforensics.parsers.kernels import library
from kforensics.parsers.kernels.library import FOLDER
from kforensics.parsers.kernels.policy import WORTH_COMPILING, WORTH_LOADING
from kforensics.parsers.kernels.target import HAS_CRC_INSTRUCTION

COMPILING = "compiling the fast kernels for this processor, once; this takes some seconds"
# Asks twice, for a process reads more than one file; tells whether they are there and what it cost.
ASK = """
import sys
from kforensics.parsers.kernels.library import kernels
found = [kernels(print), kernels(print, compiles=False), kernels(print)]
print([kernel is not None for kernel in found], "numba" in sys.modules)
"""
LOOK = """
from kforensics.parsers.kernels.library import kernels
print(kernels(print, compiles=False) is not None)
"""
CHOOSE = """
import sys
from kforensics.parsers.kernels.policy import kernels_for
for _ in range({inputs} - 1):
    kernels_for({size}, print)
print(kernels_for({size}, print) is not None, "llvmlite" in sys.modules, "numba" in sys.modules)
"""
# Reads on in plain Python as long as there are no kernels; the next file asks again.
BESIDE = """
import time
from kforensics.parsers.kernels.policy import WORTH_COMPILING, kernels_for
supply = kernels_for(WORTH_COMPILING, print)
first = supply.ready()
while supply._process.poll() is None:
    time.sleep(0.05)
later = supply.ready()
again = kernels_for(WORTH_COMPILING, print)
print(first is not None, later is not None, again is not None and again.ready() is later is not None)
"""
DUMP = """
import sys
from pathlib import Path
from tests.kafka_dump.test_twin_text import DATA, LOGS, dumped, forced_kernels
for path in LOGS[::9]:
    dump, _ = dumped(path.read_bytes(), DATA, forced_kernels, str(path))
    print(path.name, dump)
"""
FOUND, LOADED = "[True, True, True] False", "True"
# The instruction in machine code: F2, maybe a prefix for wide registers, 0F 38 and F0 or F1.
CRC_CODE = re.compile(rb"\xf2[\x40-\x4f]?\x0f\x38[\xf0\xf1]")


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a process that keeps kernels in a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KFORENSICS_")}
    return kept | {"PYTHONPATH": os.pathsep.join(sys.path), FOLDER: str(folder)} | variables


def begin(script: str, folder: Path, cwd: Path | None = None, **variables: str) -> subprocess.Popen[str]:
    """Start a process; as that of an installed command, it imports nothing from where it works."""
    command = [sys.executable, "-P", "-c", script]
    settings = environment(folder, **variables)
    return subprocess.Popen(command, env=settings, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines of a process, which must end well."""
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


def ask(script: str, folder: Path, cwd: Path | None = None, **variables: str) -> list[str]:
    """Return what a process says."""
    return said(begin(script, folder, cwd, **variables))


def kept(folder: Path) -> Path:
    """Return the one file in which kernels were kept."""
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a folder into which kernels were compiled, and what was said."""
    folder, work = tmp_path_factory.mktemp("cold") / "new" / "folder", tmp_path_factory.mktemp("evidence")
    for name in ("numba", "llvmlite", "kforensics"):
        (work / f"{name}.py").write_text("raise SystemExit('code from a folder of evidence has run')\n")
    return folder, ask(ASK, folder, work)


@pytest.fixture
def warm(cold: tuple[Path, list[str]], tmp_path: Path) -> Path:
    """Return a folder of this test with kernels in it."""
    path = kept(cold[0])
    copy = tmp_path / "warm" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    return copy.parent


def test_the_first_time_compiles_and_says_so_once(cold: tuple[Path, list[str]]) -> None:
    """The process that reads logs never loads numba, and nothing is imported from where it works."""
    folder, lines = cold
    assert lines == [COMPILING, FOUND]
    assert kept(folder).name.startswith("kernels-")


def test_the_second_time_loads_in_silence(warm: Path) -> None:
    assert ask(ASK, warm) == [FOUND]


def test_several_processes_may_begin_cold_at_once(tmp_path: Path) -> None:
    """Each works, and one file is left, which the next one loads."""
    processes = [begin(ASK, tmp_path) for _ in range(2)]
    assert [said(process)[-1] for process in processes] == [FOUND] * 2
    assert ask(LOOK, tmp_path) == [LOADED]
    assert kept(tmp_path).suffix == ".o"


def test_a_folder_that_cannot_be_written_costs_a_sentence(tmp_path: Path) -> None:
    """Compiled once for the process, not for each file it reads, and beside what is read meanwhile."""
    file = tmp_path / "file"
    file.touch()
    hint = f"the kernels cannot be kept for the next time; name a writable folder in {FOLDER}"
    assert ask(BESIDE, file / "below") == [COMPILING, hint, "False True True"]


def test_a_compiler_that_fails_beside_the_reader_is_told_of_once(tmp_path: Path) -> None:
    path = broken(tmp_path, "numba", "raise ImportError('no such thing here')\n")
    (first, second, last) = ask(BESIDE, tmp_path / "cache", PYTHONPATH=path)
    assert first == COMPILING
    assert "no such thing here" in second
    assert last == "False False False"


@pytest.mark.parametrize("where", [0, 3, 4, 1000, -1])
def test_a_damaged_file_is_not_loaded(warm: Path, where: int) -> None:
    path = kept(warm)
    data = bytearray(path.read_bytes())
    data[where] ^= 0x10
    path.write_bytes(data)
    assert ask(LOOK, warm) == ["False"]


@pytest.mark.parametrize("size", [0, 1, 4, 5, 5000])
def test_a_truncated_file_is_not_loaded(warm: Path, size: int) -> None:
    path = kept(warm)
    path.write_bytes(path.read_bytes()[:size])
    assert ask(LOOK, warm) == ["False"]


def test_a_file_that_everybody_may_write_is_not_loaded(warm: Path) -> None:
    kept(warm).chmod(0o666)
    assert ask(LOOK, warm) == ["False"]
    kept(warm).chmod(0o644)
    assert ask(LOOK, warm) == [LOADED]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_somebody_else_is_not_loaded(warm: Path) -> None:
    os.chown(kept(warm), 65534, 65534)
    assert ask(LOOK, warm) == ["False"]


def test_a_folder_in_the_place_of_the_file_is_not_loaded(warm: Path) -> None:
    path = kept(warm)
    path.unlink()
    path.mkdir()
    assert ask(LOOK, warm) == ["False"]


def test_what_is_kept_can_be_loaded_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "kernels.o"
    before = os.umask(0)
    try:
        assert library._kept(path, b"code")
    finally:
        os.umask(before)
    assert library._checked(path) == b"code"


def broken(tmp_path: Path, name: str, text: str) -> str:
    """Return a PYTHONPATH on which a package is not the one it should be."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / f"{name}.py").write_text(text)
    return os.pathsep.join([str(folder), *sys.path])


@pytest.mark.parametrize("package", ["numba", "llvmlite"])
def test_without_the_compiler_plain_python_goes_on_after_one_sentence(tmp_path: Path, package: str) -> None:
    path = broken(tmp_path, package, "raise ImportError('no such thing here')\n")
    lines = ask(ASK, tmp_path / "cache", PYTHONPATH=path)
    assert lines[-1] == "[False, False, False] False"
    sentences = [line for line in lines[:-1] if line != COMPILING]
    assert len(sentences) == 1
    assert re.fullmatch(r"the fast kernels cannot be used \(.*no such thing here\); reading goes on.*", sentences[0])


def test_a_compiler_that_dies_without_a_word_is_told_of(tmp_path: Path) -> None:
    path = broken(tmp_path, "numba", "import os\nos._exit(9)\n")
    (first, second, last) = ask(ASK, tmp_path / "cache", PYTHONPATH=path)
    assert first == COMPILING
    assert "(compiling failed: the compiler said nothing)" in second
    assert last == "[False, False, False] False"


def test_portable_kernels_print_the_same_without_the_instruction(cold: tuple[Path, list[str]], tmp_path: Path) -> None:
    """They are kept under another name beside the others."""
    native, _ = cold
    expected = ask(DUMP, native)
    assert ask(DUMP, tmp_path, KFORENSICS_PORTABLE_KERNELS="1") == expected
    assert len(expected) > 100
    assert kept(tmp_path).name != kept(native).name
    assert bool(CRC_CODE.search(kept(native).read_bytes())) == HAS_CRC_INSTRUCTION
    assert not CRC_CODE.search(kept(tmp_path).read_bytes())


def test_other_sources_have_other_kernels(warm: Path, tmp_path: Path) -> None:
    """A key of another version finds nothing."""
    path = kept(warm)
    path.rename(path.with_name("kernels-0123456789abcdef.o"))
    assert ask(LOOK, warm) == ["False"]


@pytest.mark.parametrize(
    ("choice", "size", "answer"),
    [
        ("", WORTH_LOADING - 1, "False False False"),
        ("", WORTH_LOADING, "True True False"),
        ("never", 1 << 40, "False False False"),
        ("always", 0, "True True False"),
    ],
)
def test_the_size_or_the_user_decides(warm: Path, choice: str, size: int, answer: str) -> None:
    """Small inputs pay for nothing; numba is never loaded where logs are read."""
    assert ask(CHOOSE.format(inputs=1, size=size), warm, KFORENSICS_KERNELS=choice) == [answer]


@pytest.mark.parametrize(
    ("choice", "inputs", "size", "tries"),
    [
        ("", 1, WORTH_COMPILING - 1, False),
        ("", 1, WORTH_COMPILING, True),
        ("", 63, WORTH_LOADING, False),
        ("", 64, WORTH_LOADING, True),
        ("", 64, WORTH_LOADING - 1, False),
        ("always", 1, 0, True),
    ],
)
def test_only_large_inputs_or_the_user_compile(
    tmp_path: Path, choice: str, inputs: int, size: int, tries: bool
) -> None:
    """One alone, or all of them together; seen by the sentence of a compiler that cannot work."""
    path = broken(tmp_path, "numba", "raise ImportError('no such thing here')\n")
    script = CHOOSE.format(inputs=inputs, size=size)
    lines = ask(script, tmp_path / "cache", KFORENSICS_KERNELS=choice, PYTHONPATH=path)
    assert (COMPILING in lines) == tries


def test_the_compilers_code_takes_no_memory_once_kernels_are_loaded() -> None:
    """Its pages are given back, and come again from its file where something of it is called after all."""
    script = """
import re
from pathlib import Path
from kforensics.parsers.kernels.library import COMPILER, kernels
assert kernels(compiles=False)
maps = re.split(r"(?m)^(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text())
code = [part for part in maps if part and COMPILER in part.splitlines()[0] and " r-xp " in part]
print(len(code), sum(int(re.search(r"Rss: +([0-9]+)", part)[1]) for part in code))
import llvmlite.binding as llvm
llvm.parse_assembly("define i32 @f() { ret i32 1 }").verify()
print("still there")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found, size, *words = done.stdout.split()
    assert int(found) >= 1
    assert int(size) < 5000, "kilobytes"
    assert words == ["still", "there"]
