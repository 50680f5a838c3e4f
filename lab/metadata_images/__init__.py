"""The images that Kafka's own classes replay from the metadata logs of the samples.

For each snapshot, and for each log from each snapshot and from its start if that is there, at each later snapshot and
at its end: the records that Kafka's ``ImageWriter`` writes of the ``MetadataImage``. Files that a broker had renamed to
delete them are used too, under their names from before.
"""

import json
import lzma
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.jars import broker_jars, tool
from lab.places import CLASSES, SAMPLES
from lab.progress import say

RELEASE = "4.4.0"
IMAGES = SAMPLES / "golden" / "metadata-images" / f"images-{RELEASE}.json.xz"
# Its records have no meaning: Kafka itself cannot write their image.
LEFT_OUT = "every-record"
_SOURCE = Path(__file__).with_name("MetadataImages.java")
_DELETED = ".deleted"


def make_metadata_images() -> int:
    """Write the images of all samples with a metadata log.

    Returns:
        The number of images.
    """
    found = sorted(SAMPLES.rglob("__cluster_metadata-0"))
    folders = [folder for folder in found if LEFT_OUT not in folder.parts]
    with tempfile.TemporaryDirectory() as temporary:
        copies = {copy_whole(folder, Path(temporary) / str(number)): folder for number, folder in enumerate(folders)}
        images = [json.loads(line) for line in replay(list(copies)).splitlines()]
        for image in images:
            image["folder"] = str(copies[Path(image["folder"])].relative_to(SAMPLES))
    IMAGES.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(image, separators=(",", ":")) for image in images)
    IMAGES.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    say(f"wrote {len(images)} images of {len(folders)} metadata logs, {IMAGES.stat().st_size} bytes")
    return len(images)


def read_metadata_images(path: Path = IMAGES) -> list[dict[str, Any]]:
    """The stored images."""
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]


def copy_whole(folder: Path, copy: Path) -> Path:
    """Copy a metadata log, with the files that were to be deleted under their names from before.

    Returns:
        The copy.
    """
    copy.mkdir(parents=True)
    for file in folder.iterdir():
        if file.is_file():
            shutil.copyfile(file, copy / file.name.removesuffix(_DELETED))
    return copy


def replay(folders: list[Path]) -> str:
    """The images of metadata logs, replayed by Kafka: a JSON object on each line."""
    jars = broker_jars(RELEASE)
    classes = CLASSES / f"metadata-images-{RELEASE}"
    _run([tool("javac"), "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(_SOURCE)])
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return _run([tool("java"), quiet, "-cp", f"{classes}:{jars}/*", "MetadataImages", *map(str, folders)])


def _run(command: list[str]) -> str:
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"{Path(command[0]).name} failed on metadata images:\n{outcome.stderr[-2000:]}")
    return outcome.stdout
