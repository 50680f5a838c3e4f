"""Where compiled kernels are cached and when they are trusted, each in a process of its own with its own folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kforensics.parsers.kernels import library
from kforensics.parsers.kernels.library import FOLDER
from kforensics.parsers.kernels.policy import MIN_COMPILE_BYTES, MIN_LOAD_BYTES
from tests.once import once

pytestmark = [pytest.mark.slow, pytest.mark.repository]  # a wheel has nothing to compile

COMPILING = "compiling the fast kernels for this processor, once; this takes some seconds"
# Loads several times, because a process reads more than one file; prints whether kernels were available and numba used.
LOAD = """
import sys
from kforensics.parsers.kernels.library import load_kernels
loaded = [load_kernels(print), load_kernels(print, compile_missing=False), load_kernels(print)]
print([kernel is not None for kernel in loaded], "numba" in sys.modules)
"""
LOAD_CACHED = """
from kforensics.parsers.kernels.library import load_kernels
print(load_kernels(print, compile_missing=False) is not None)
"""
APPLY_POLICY = """
import sys
from kforensics.parsers.kernels.policy import kernels_for
for _ in range({inputs} - 1):
    kernels_for({size}, print)
print(kernels_for({size}, print) is not None, "llvmlite" in sys.modules, "numba" in sys.modules)
"""
# Continues in pure Python while there are no kernels; the next file requests them again.
COMPILE_IN_BACKGROUND = """
import time
from kforensics.parsers.kernels.policy import MIN_COMPILE_BYTES, kernels_for
loader = kernels_for(MIN_COMPILE_BYTES, print)
first = loader.poll()
while loader._process.poll() is None:
    time.sleep(0.05)
later = loader.poll()
again = kernels_for(MIN_COMPILE_BYTES, print)
print(first is not None, later is not None, again is not None and again.poll() is later is not None)
"""
# As on a platform without a wheel, where the extra is not installed.
WITHOUT_COMPILER = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
from kforensics.parsers.kernels.policy import MIN_COMPILE_BYTES, kernels_for
print([kernels_for(size, print) for size in (MIN_COMPILE_BYTES // 2, MIN_COMPILE_BYTES // 4)])
print([kernels_for(MIN_COMPILE_BYTES, print) for _ in range(3)])
"""
AVAILABLE, LOADED = "[True, True, True] False", "True"


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a process that caches kernels in a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KFORENSICS_")}
    return kept | {"PYTHONPATH": os.pathsep.join(sys.path), FOLDER: str(folder)} | variables


def begin(script: str, folder: Path, cwd: Path | None = None, **variables: str) -> subprocess.Popen[str]:
    """Start a process that, like an installed command, imports nothing from its working directory."""
    command = [sys.executable, "-P", "-c", script]
    settings = environment(folder, **variables)
    return subprocess.Popen(command, env=settings, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output_of(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines that a process prints; it must succeed."""
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


def run(script: str, folder: Path, cwd: Path | None = None, **variables: str) -> list[str]:
    """Return the lines that a script prints."""
    return output_of(begin(script, folder, cwd, **variables))


def cached_file(folder: Path) -> Path:
    """Return the only file in a cache folder."""
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a folder with newly compiled kernels, and the output of the process."""
    made = once(tmp_path_factory, "cold", _compile)
    return made / "new" / "folder", (made / "lines").read_text().splitlines()


def _compile(folder: Path) -> None:
    work = folder / "evidence"
    work.mkdir()
    for name in ("numba", "llvmlite", "kforensics"):
        (work / f"{name}.py").write_text("raise SystemExit('code from a folder of evidence has run')\n")
    (folder / "lines").write_text("\n".join(run(LOAD, folder / "new" / "folder", work)))


@pytest.fixture
def quick(cold: tuple[Path, list[str]], tmp_path: Path) -> str:
    """Return a PYTHONPATH with a numba that takes no time: the process that imports it writes what was compiled before.

    It is for tests of what surrounds the compiler.
    """
    copy = f"os.write(1, open({str(cached_file(cold[0]))!r}, 'rb').read())"
    return broken(tmp_path, "numba", f"import os\n{copy}\nos._exit(0)\n")


@pytest.fixture
def warm(cold: tuple[Path, list[str]], tmp_path: Path) -> Path:
    """Return a folder of this test with cached kernels."""
    path = cached_file(cold[0])
    copy = tmp_path / "warm" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    return copy.parent


def test_the_first_process_compiles_and_reports_it_once(cold: tuple[Path, list[str]]) -> None:
    """The process that reads logs never loads numba, and nothing is imported from its working directory."""
    folder, lines = cold
    assert lines == [COMPILING, AVAILABLE]
    assert cached_file(folder).name.startswith("kernels-")


def test_the_second_process_loads_without_a_message(warm: Path) -> None:
    assert run(LOAD, warm) == [AVAILABLE]


def test_several_processes_may_compile_at_once(quick: str, tmp_path: Path) -> None:
    """Each of them succeeds, and one file remains, which the next process loads."""
    folder = tmp_path / "cache"
    processes = [begin(LOAD, folder, PYTHONPATH=quick) for _ in range(4)]
    assert [output_of(process)[-1] for process in processes] == [AVAILABLE] * 4
    assert run(LOAD_CACHED, folder) == [LOADED]
    assert cached_file(folder).suffix == ".o"


def test_a_folder_that_is_not_writable_is_reported(quick: str, tmp_path: Path) -> None:
    """The kernels are compiled once for the process, not for each file it reads, and in the background."""
    file = tmp_path / "file"
    file.touch()
    hint = f"the compiled kernels cannot be cached; set {FOLDER} to a folder that only you may write"
    assert run(COMPILE_IN_BACKGROUND, file / "below", PYTHONPATH=quick) == [COMPILING, hint, "False True True"]


def test_a_compiler_that_fails_in_the_background_is_reported_once(tmp_path: Path) -> None:
    path = broken(tmp_path, "numba", "raise ImportError('no such thing here')\n")
    (first, second, last) = run(COMPILE_IN_BACKGROUND, tmp_path / "cache", PYTHONPATH=path)
    assert first == COMPILING
    assert "no such thing here" in second
    assert last == "False False False"


@pytest.mark.parametrize("where", [0, 3, 4, 1000, -1])
def test_a_damaged_file_is_not_loaded(warm: Path, where: int) -> None:
    path = cached_file(warm)
    data = bytearray(path.read_bytes())
    data[where] ^= 0x10
    path.write_bytes(data)
    assert run(LOAD_CACHED, warm) == ["False"]


@pytest.mark.parametrize("size", [0, 1, 4, 5, 5000])
def test_a_truncated_file_is_not_loaded(warm: Path, size: int) -> None:
    path = cached_file(warm)
    path.write_bytes(path.read_bytes()[:size])
    assert run(LOAD_CACHED, warm) == ["False"]


def refused(folder: Path) -> str:
    """Return why cached kernels are refused. It is reported once, and nothing is compiled."""
    (sentence, last) = run(LOAD, folder)
    assert last == "[False, False, False] False"
    why = re.fullmatch(
        r"the fast kernels are unavailable \((.*)\); continuing in pure Python, which is slower", sentence
    )
    assert why is not None
    return why[1]


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_a_file_that_other_users_may_write_is_not_loaded(warm: Path, mode: int) -> None:
    cached_file(warm).chmod(mode)
    assert "may be written by others" in refused(warm)
    cached_file(warm).chmod(0o644)
    assert run(LOAD_CACHED, warm) == [LOADED]


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_file_in_a_folder_that_other_users_may_write_is_not_loaded(warm: Path, mode: int) -> None:
    warm.chmod(mode)
    assert refused(warm).startswith(f"{warm} may be written by others")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_or_folder_of_another_user_is_not_loaded(warm: Path, what: str) -> None:
    os.chown(warm if what == "folder" else cached_file(warm), 65534, 65534)
    assert "belongs to another user" in refused(warm)


@pytest.mark.parametrize("what", ["folder", "pipe", "link", "nowhere"])
def test_what_is_no_regular_file_is_not_loaded(warm: Path, what: str) -> None:
    """A pipe does not hang, and a link is not followed."""
    path = cached_file(warm)
    moved = path.rename(warm.parent / path.name)
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(moved if what == "link" else warm / "nowhere")
    assert refused(warm).startswith(f"{path} is ")


def test_the_cache_is_written_through_no_link(tmp_path: Path) -> None:
    """Neither the file nor an unfinished one of a name that could be guessed; the folder is of this user alone."""
    folder, victim = tmp_path / "new" / "cache", tmp_path / "victim"
    assert library._write_cache(folder / "kernels.o", b"code")
    assert folder.stat().st_mode & 0o777 == 0o700
    victim.touch(0o600)
    (folder / "kernels.o").unlink()
    (folder / "kernels.o").symlink_to(victim)
    (folder / f"kernels.o.{os.getpid()}.part").symlink_to(victim)
    assert library._write_cache(folder / "kernels.o", b"code")
    assert (victim.read_bytes(), victim.stat().st_mode & 0o777) == (b"", 0o600)
    assert library._trusted_code(folder / "kernels.o") == b"code"
    folder.chmod(0o770)
    assert not library._write_cache(folder / "other.o", b"code")
    assert sorted(path.name for path in folder.iterdir()) == ["kernels.o", f"kernels.o.{os.getpid()}.part"]


def test_cached_kernels_can_be_loaded_with_any_umask(tmp_path: Path) -> None:
    path = tmp_path / "kernels.o"
    before = os.umask(0)
    try:
        assert library._write_cache(path, b"code")
    finally:
        os.umask(before)
    assert library._trusted_code(path) == b"code"


def broken(tmp_path: Path, name: str, text: str) -> str:
    """Return a PYTHONPATH with another package of the same name."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / f"{name}.py").write_text(text)
    return os.pathsep.join([str(folder), *sys.path])


@pytest.mark.parametrize("package", ["numba", "llvmlite"])
def test_without_the_compiler_pure_python_continues_after_one_message(tmp_path: Path, package: str) -> None:
    path = broken(tmp_path, package, "raise ImportError('no such thing here')\n")
    lines = run(LOAD, tmp_path / "cache", PYTHONPATH=path)
    assert lines[-1] == "[False, False, False] False"
    sentences = [line for line in lines[:-1] if line != COMPILING]
    assert len(sentences) == 1
    assert re.fullmatch(r"the fast kernels are unavailable \(.*no such thing here\); continuing.*", sentences[0])


def test_without_the_extra_large_inputs_report_once_how_to_install_it(tmp_path: Path) -> None:
    small, sentence, large = run(WITHOUT_COMPILER, tmp_path / "cache")
    assert (small, large) == ("[None, None]", "[None, None, None]")
    assert re.fullmatch(r"the fast kernels are unavailable \(.* pip install .*(numba|kernels).*\); .*", sentence)


def test_a_compiler_that_dies_silently_is_reported(tmp_path: Path) -> None:
    path = broken(tmp_path, "numba", "import os\nos._exit(9)\n")
    (first, second, last) = run(LOAD, tmp_path / "cache", PYTHONPATH=path)
    assert first == COMPILING
    assert "(compiling failed: the compiler printed no error)" in second
    assert last == "[False, False, False] False"


def test_code_that_the_compiler_could_not_write_completely_is_not_loaded(tmp_path: Path) -> None:
    """On a full disk the compiler may end with 0 all the same, and a part of its code would end this process."""
    path = broken(tmp_path, "numba", "import os\nos.write(1, b'\\x7fELF' + bytes(60))\nos._exit(0)\n")
    (first, second, last) = run(LOAD, tmp_path / "cache", PYTHONPATH=path)
    assert first == COMPILING
    assert "incomplete; is the folder for temporary files full? See TMPDIR" in second
    assert last == "[False, False, False] False"


def test_portable_kernels_are_cached_under_another_name(
    cold: tuple[Path, list[str]], quick: str, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    assert run(LOAD, folder, PYTHONPATH=quick, KFORENSICS_PORTABLE_KERNELS="1") == [COMPILING, AVAILABLE]
    assert cached_file(folder).name != cached_file(cold[0]).name


def test_other_sources_have_other_kernels(warm: Path, tmp_path: Path) -> None:
    """Kernels with another key are not loaded."""
    path = cached_file(warm)
    path.rename(path.with_name("kernels-0123456789abcdef.o"))
    assert run(LOAD_CACHED, warm) == ["False"]


@pytest.mark.parametrize(
    ("choice", "size", "expected"),
    [
        ("", MIN_LOAD_BYTES - 1, "False False False"),
        ("", MIN_LOAD_BYTES, "True True False"),
        ("never", 1 << 40, "False False False"),
        ("always", 0, "True True False"),
    ],
)
def test_the_size_or_the_user_decides(warm: Path, choice: str, size: int, expected: str) -> None:
    """Small inputs cost nothing; numba is never loaded in a process that reads logs."""
    assert run(APPLY_POLICY.format(inputs=1, size=size), warm, KFORENSICS_KERNELS=choice) == [expected]


@pytest.mark.parametrize(
    ("choice", "inputs", "size", "compiles"),
    [
        ("", 1, MIN_COMPILE_BYTES - 1, False),
        ("", 1, MIN_COMPILE_BYTES, True),
        ("", 63, MIN_LOAD_BYTES, False),
        ("", 64, MIN_LOAD_BYTES, True),
        ("", 64, MIN_LOAD_BYTES - 1, False),
        ("always", 1, 0, True),
    ],
)
def test_only_large_inputs_or_the_user_compile(
    tmp_path: Path, choice: str, inputs: int, size: int, compiles: bool
) -> None:
    """One large input or all inputs together. The message of a compiler that cannot work shows it."""
    path = broken(tmp_path, "numba", "raise ImportError('no such thing here')\n")
    script = APPLY_POLICY.format(inputs=inputs, size=size)
    lines = run(script, tmp_path / "cache", KFORENSICS_KERNELS=choice, PYTHONPATH=path)
    assert (COMPILING in lines) == compiles


def test_the_compilers_code_uses_no_memory_once_kernels_are_loaded() -> None:
    """Its pages are released, and read from its file again if the code is used again."""
    script = """
import re
from pathlib import Path
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.target import LLVM
assert load_kernels(compile_missing=False)
maps = re.split(r"(?m)^(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text())
code = [part for part in maps if part and LLVM in part.splitlines()[0] and " r-xp " in part]
print(len(code), sum(int(re.search(r"Rss: +([0-9]+)", part)[1]) for part in code))
import llvmlite.binding as llvm
llvm.parse_assembly("define i32 @f() { ret i32 1 }").verify()
print("still usable")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    mappings, size, *words = done.stdout.split()
    assert int(mappings) >= 1
    assert int(size) < 8_000, "kilobytes, of the 32,000 that are resident otherwise"
    assert words == ["still", "usable"]
