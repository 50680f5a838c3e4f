"""What `make release` puts together: every file has its checksum, and all name one version."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import kforensics
from tests.command import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.repository]

VERSION = kforensics.__version__


@pytest.fixture(scope="module")
def release() -> Path:
    """Return the folder of the release."""
    if "KFORENSICS_RELEASE" not in os.environ:
        pytest.skip("`make release` builds the release and runs these tests")
    return ROOT / os.environ["KFORENSICS_RELEASE"]


def test_the_wheel_of_this_machine_is_built_once() -> None:
    """A release is not put together from two files of one name."""
    command = ["make", "--old-file=build", "wheels", "RUN=echo", f"BIN={Path(sys.executable).parent}"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    built = set(re.findall(r"^build --wheel .*platform=(\S+)$", made.stdout, re.MULTILINE))
    assert built == {"linux-x86_64", "linux-aarch64", "darwin-arm64"} - {f"{sys.platform}-{platform.machine()}"}


def test_every_file_has_its_checksum(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    named = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {path.name: path.read_bytes() for path in release.iterdir() if path.name != "SHA256SUMS"}
    assert named == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def test_there_is_a_wheel_for_every_platform_and_an_sdist(release: Path) -> None:
    names = sorted(path.name.removeprefix(f"kforensics-{VERSION}") for path in release.glob("*.[wt]*"))
    tags = ("macosx_11_0_arm64", "manylinux_2_17_aarch64", "manylinux_2_17_x86_64")
    assert names == [*(f"-py3-none-{tag}.whl" for tag in tags), ".tar.gz"]


def test_components_are_the_pinned_dependencies(release: Path) -> None:
    """No path of this machine is in the list, and no tool that only builds."""
    text = (release / f"kforensics-{VERSION}.cdx.json").read_text(encoding="utf-8")
    document = json.loads(text)
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [pin for pin in map(Requirement, lines) if pin.marker is None or pin.marker.evaluate()]
    pins = {pin.name: str(pin.specifier).removeprefix("==") for pin in pinned}
    components = {
        re.sub(r"[-_.]+", "-", component["name"]).lower(): component["version"] for component in document["components"]
    }
    assert document["metadata"]["component"]["version"] == VERSION
    assert {"construct", "lz4", "numpy", "pyarrow", "rich", "typer"} <= components.keys()
    assert components.items() <= pins.items()
    assert not {"pip", "shiv", "twine"} & components.keys()
    assert "file:" not in text


def test_notes_are_those_of_this_version(release: Path) -> None:
    notes = (release / "RELEASE_NOTES.md").read_text(encoding="utf-8")
    assert notes.startswith("### ")
    assert "\n## " not in notes
    assert notes.strip() in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
