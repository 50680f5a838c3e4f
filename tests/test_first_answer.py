"""From nothing to the first answer: the lines of the pages, run in empty environments.

The lines are read from the pages, and only what a test cannot have is replaced: the address of the repository, the log
directory of a broker, and other hosts, whose `scp` and `ssh` run on this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from scripts import documented, install_lines
from tests.command import ROOT, SAMPLES
from tests.once import once
from tests.test_image import source

__all__ = ["source"]

pytestmark = [pytest.mark.slow, pytest.mark.repository, pytest.mark.timeout(3600)]

LOGS = SAMPLES / "transactions-v2"
LOG_DIR = "/var/lib/kafka/data"
GIT = ("/usr/bin/env", "git", "-C")
# What a shell on another host runs: `ssh HOST COMMAND…` and `scp FILE HOST:NAME`. The file is there already for `make`.
PROGRAMS = {
    "ssh": 'shift; cd "$HOST_FOLDER"; exec env -i HOME="$HOST_FOLDER" PATH="$HOST_PATH" "$@"',
    "scp": 'exec cp "$1" "$HOST_FOLDER/${2#*:}"',
    "make": "exit 0",
}


def block(page: str, heading: str) -> str:
    """Return the first block for a shell below a heading of a page."""
    section = (ROOT / page).read_text("utf-8").partition(f"## {heading}\n")[2]
    code = re.search(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert code
    return code[1]


def first_answer(page: str, heading: str) -> tuple[str, list[str]]:
    """Return the first command with output below a heading of a page, and the lines it shows."""
    section = (ROOT / page).read_text("utf-8").partition(f"\n{heading}")[2]
    code = documented.BLOCK.search(section)
    assert code
    command, *lines = code[1].splitlines()
    return command.removeprefix(documented.PROMPT), lines


def shell(script: str, folder: Path, *places: Path, ends_with: int = 0, **variables: str) -> list[str]:
    """Return the lines that a script prints, run in a folder without the environment of the tests.

    Args:
        script: what to run; its first failure ends it.
        folder: where to run it.
        places: folders with programs, before those of the system.
        ends_with: its exit code.
        variables: further variables.
    """
    system = [place for place in os.environ["PATH"].split(os.pathsep) if not place.startswith(sys.prefix)]
    base = Path(sys.base_prefix, "bin")
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name in ("HOME", "TMPDIR")}
    path = os.pathsep.join(map(str, [*places, base, *system]))
    environment = {**kept, "PATH": path, "COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        ["/bin/sh", "-euc", script],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ends_with, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return [line.rstrip() for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with the files of this checkout as they are now."""
    return once(tmp_path_factory, "repository", _commit)


def _commit(folder: Path) -> None:
    listed = [*GIT, str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]:
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    author = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "core.hooksPath="]
    for words in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "--message", "As it is"]):
        subprocess.run([*GIT, str(folder), *words], check=True)


@pytest.fixture(scope="module")
def dist() -> Path:
    """Return the folder with the wheel and the one file."""
    if "KFORENSICS_DIST" not in os.environ:
        pytest.skip("`make onefile` builds the wheel and the one file and runs these tests")
    return ROOT / os.environ["KFORENSICS_DIST"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs of an environment that has pip alone."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    return folder / "bin"


def program(path: Path, code: str) -> None:
    """Write a program for a shell."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)


@pytest.mark.thorough
def test_a_checkout_answers_in_three_minutes(repository: Path, tmp_path: Path) -> None:
    command, shown = first_answer("docs/index.md", "## Three minutes")
    script = block("docs/index.md", "Three minutes") + command
    lines = shell(script, tmp_path, ends_with=1, REPOSITORY=str(repository))
    answer = next(number for number, line in enumerate(lines) if line == shown[0])
    assert documented.is_shown(lines[answer:], shown)


def test_a_wheel_answers(dist: Path, environment: Path) -> None:
    (line,) = [line for line in block("README.md", "Install").splitlines() if install_lines.WHEEL in line]
    assert "pip install" in line
    shell(line, dist, environment)
    command, shown = first_answer("README.md", "## Ask what happened")
    assert documented.is_shown(shell(command, ROOT, environment, ends_with=1), shown)


@pytest.mark.thorough
def test_pip_knows_what_every_line_installs(repository: Path, environment: Path, tmp_path: Path) -> None:
    """It finds the package, each extra and releases that fit each other; other tests install the first and the last."""
    blocks = [block(page, "Install") for page in ("README.md", "docs/index.md")]
    assert blocks[0] == blocks[1]
    lines = [line for line in blocks[0].splitlines() if install_lines.WHEEL not in line]
    assert [line.startswith("pip install") for line in lines] == [True] * 4
    # An environment variable would reach the installation of what builds the package, too.
    program(tmp_path / "bin" / "pip", f'shift; exec "{environment}/pip" install --dry-run --quiet "$@"')
    shell("\n".join(lines), repository, tmp_path / "bin", environment, REPOSITORY=f"file://{repository}")


def test_one_file_answers_on_another_host(dist: Path, tmp_path: Path) -> None:
    """That host has Python alone."""
    venv.create(tmp_path / "python", with_pip=False)
    (tmp_path / "host").mkdir()
    for name, code in PROGRAMS.items():
        program(tmp_path / "programs" / name, code)
    (tmp_path / "dist").symlink_to(dist)
    release = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    script = block("docs/containers.md", "One file").replace(LOG_DIR, str(LOGS)).replace("python3.11", release)
    place, path = str(tmp_path / "host"), f"{tmp_path}/python/bin:/usr/bin:/bin"
    lines = shell(script, tmp_path, tmp_path / "programs", HOST_FOLDER=place, HOST_PATH=path)
    assert re.match(r"[A-Z]+, \d+ incidents: 18 partitions", lines[0])


@pytest.mark.thorough
def test_the_image_answers(repository: Path) -> None:
    """The lines end with 1, for what the audit finds."""
    if not shutil.which("docker") or subprocess.run(["/usr/bin/env", "docker", "info"], check=False).returncode:
        pytest.skip("no images can be built and run here")
    lines = block("docs/containers.md", "A container").replace(LOG_DIR, str(LOGS))
    answer = shell(lines, repository, ends_with=1)
    assert any(re.match(r"[A-Z]+, \d+ incidents: 18 partitions", line) for line in answer)


@pytest.mark.thorough
def test_what_the_image_installs_answers(source: Path, tmp_path: Path) -> None:
    """The lines of the Dockerfile and the arguments of the page, where no image can be built."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    (run,) = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    place = tmp_path / "opt"
    shell(run.replace("/opt/kforensics", str(place)), source)
    words = shlex.split(block("docs/containers.md", "A container").replace("\\\n", " ").splitlines()[1])
    arguments = words[words.index("kforensics") :]
    assert arguments[-1] == "/evidence"
    lines = shell(shlex.join([*arguments[:-1], str(LOGS)]), tmp_path, place / "bin", ends_with=1)
    assert re.match(r"[A-Z]+, \d+ incidents: 18 partitions", lines[0])
    assert not (place / "bin" / "pip").exists()


def test_lines_change_to_the_published_name_with_one_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\npip install . " in install_lines.install_lines()
    assert install_lines.install_extra("plots", "By") == "\nBy `pip install '.[plots]'` in a checkout.\n\n"
    monkeypatch.setattr(install_lines, "PUBLISHED", "kforensics")
    assert re.search(r"\npip install kforensics +# the toolkit\n", install_lines.install_lines())
    assert install_lines.install_extra("plots", "By") == "\nBy `pip install 'kforensics[plots]'`.\n\n"
