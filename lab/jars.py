"""Jars of released Kafka versions, fetched with Maven into ``.lab/jars/<name>/``."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.places import JARS, SOURCES
from lab.progress import say

_DONE = ".complete"
# 4.4.0 names this artifact, which was never published; nothing in a broker needs it.
_NEVER_PUBLISHED = "org.apache.kafka:kafka-tools-api"
_LOGGING_BACK_END = "org.slf4j:slf4j-simple:1.7.36"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One Maven dependency.

    Attributes:
        coordinates: ``group:artifact:version`` or ``group:artifact:version:classifier``.
        exclusions: ``group:artifact`` of what must not come with it.
    """

    coordinates: str
    exclusions: Sequence[str] = (_NEVER_PUBLISHED,)

    def as_xml(self) -> str:
        """The ``<dependency>`` element of this artifact."""
        group, artifact, version, *classifier = self.coordinates.split(":")
        parts = [_element("groupId", group), _element("artifactId", artifact), _element("version", version)]
        parts += [_element("classifier", name) for name in classifier]
        parts.append(_element("exclusions", "".join(map(_exclusion, self.exclusions))))
        return _element("dependency", "".join(parts))


def broker_jars(version: str) -> Path:
    """The folder with every jar of a broker of this Kafka version."""
    # Kafka was built with Scala 2.13 from 2.4 on, and the releases before with 2.12.
    scala = "2.13" if tuple(map(int, version.split(".")[:2])) >= (2, 4) else "2.12"
    kafka = Artifact(f"org.apache.kafka:kafka_{scala}:{version}")
    # 0.11 makes ids with a class that Java had up to 10; without it, it ends while it starts.
    if version.startswith("0."):
        return fetch(f"kafka-{version}-jaxb", [kafka, Artifact("javax.xml.bind:jaxb-api:2.3.1")])
    return fetch(f"kafka-{version}", [kafka])


def fetch(name: str, artifacts: Sequence[Artifact]) -> Path:
    """Download artifacts with all they depend on; a folder that is complete is used again.

    Args:
        name: name of the folder in ``.lab/jars``.
        artifacts: what to fetch; a quiet logging back-end is added.

    Returns:
        The folder that holds the jars.

    Raises:
        LabError: Maven is missing or could not resolve an artifact.
    """
    folder = JARS / name
    if not (folder / _DONE).exists():
        say(f"fetching the jars of {name}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "pom.xml").write_text(_pom(name, [*artifacts, Artifact(_LOGGING_BACK_END)]), encoding="utf-8")
        _run_maven(folder)
        (folder / _DONE).touch()
    return folder


def tool(name: str) -> str:
    """The path of a program the lab needs.

    Raises:
        LabError: it is not installed.
    """
    path = shutil.which(name)
    if path is None:
        raise LabError(f"The lab needs {name!r}, which is not on the PATH: install a Java 17 JDK and Maven.")
    return path


def _run_maven(folder: Path) -> None:
    command = [tool("mvn"), "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"Maven could not fetch the jars of {folder.name}:\n{outcome.stdout[-2000:]}")


def _pom(name: str, artifacts: Sequence[Artifact]) -> str:
    template = (SOURCES / "poms" / "pom.xml").read_text(encoding="utf-8")
    dependencies = "\n".join("    " + artifact.as_xml() for artifact in artifacts)
    return template.replace("@NAME@", name).replace("@DEPENDENCIES@", dependencies)


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"


def _exclusion(coordinates: str) -> str:
    group, artifact = coordinates.split(":")
    return _element("exclusion", _element("groupId", group) + _element("artifactId", artifact))
