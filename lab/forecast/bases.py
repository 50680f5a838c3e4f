"""The log directories that are doctored: of a broker that was stopped in order, and of one that was killed."""

import shutil
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from lab.broker import Node, make_cluster, running
from lab.driver import Driver, driving, records
from lab.places import ROOT
from lab.progress import say
from lab.scenario import workspace
from lab.scenarios.steps import open_producer, small_segments, transaction

DATA = ROOT / "tests" / "data" / "forecast"
# The metadata log gets snapshots and begins above 0; producers and transactions outlive the base's age.
CONFIG = {
    "metadata.log.max.record.bytes.between.snapshots": "2500",
    "transaction.max.timeout.ms": "2147483647",
    "transactional.id.expiration.ms": "2147483647",
    "producer.id.expiration.ms": "2147483647",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2147483647",
    "offsets.retention.minutes": "2147483647",
}
RETENTION = {
    "4": {"internal.metadata.log.segment.bytes": "3000", "metadata.max.retention.bytes": "5000"},
    "3": {
        "metadata.log.segment.bytes": "3000",
        "metadata.log.segment.min.bytes": "3000",
        "metadata.max.retention.bytes": "5000",
    },
}
_CLEANER_SECONDS = 90
_LONG = {"transaction_timeout_ms": "2147483647"}
# A fixed date in the archive: the same files make the same bytes.
_DATE = (2026, 11, 23, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Base:
    """A state of log directories before the start.

    Attributes:
        release: release of the broker.
        state: ``stopped``, ``killed``, ``jbod``, ``apart``, which has the metadata log in a directory apart, or
            ``dynamic``, which has a dynamic quorum; the last three are stopped.
        log_dirs: names of the log directories; the empty name is the folder itself.
        metadata_log_dir: name of the directory of the metadata log if it is none of them.
        has_zookeeper: whether the metadata is in ZooKeeper, whose data the archive has too.
    """

    release: str
    state: str
    log_dirs: tuple[str, ...] = ("",)
    metadata_log_dir: str | None = None
    has_zookeeper: bool = False

    @property
    def name(self) -> str:
        """The name of the base and of its archive."""
        return f"{self.release}-{'zookeeper-' * self.has_zookeeper}{self.state}"

    @property
    def archive(self) -> Path:
        """The archive with its files."""
        return DATA / f"{self.name}.zip"

    def directories(self, data: Path) -> list[str]:
        """The directories with logs and with the metadata log, in a folder."""
        names = [*self.log_dirs, *([] if self.metadata_log_dir is None else [self.metadata_log_dir])]
        return [str(data / name) if name else str(data) for name in names]

    def settings(self, node: Node) -> dict[str, str]:
        """The setting of a node that names the directory of the metadata log, if there is one."""
        name = self.metadata_log_dir
        return {} if name is None else {"metadata.log.dir": str(Path(node.data.name) / name)}


JBOD, APART = ("a", "b"), "metadata"
BASES = (
    Base("4.4.0", "stopped"),
    Base("4.4.0", "killed"),
    Base("4.4.0", "jbod", JBOD),
    Base("4.4.0", "apart", JBOD, APART),
    Base("4.4.0", "dynamic"),
    Base("3.9.1", "stopped"),
    Base("3.9.1", "killed"),
    Base("3.6.2", "stopped"),
    Base("3.6.2", "killed"),
    Base("3.6.2", "apart", ("a",), APART),
    Base("3.7.2", "stopped"),
    Base("3.8.1", "stopped"),
    *(Base(release, state, has_zookeeper=True) for release in ("2.8.2", "3.9.1") for state in ("stopped", "killed")),
    Base("2.8.2", "jbod", JBOD, has_zookeeper=True),
)


def unpack(base: Base, folder: Path) -> None:
    """Write the files of a base to a new folder, sparse where they are zero."""
    with zipfile.ZipFile(base.archive) as archive:
        for name in archive.namelist():
            path = folder / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            content = archive.read(name)
            with path.open("wb") as file:
                file.write(content.rstrip(b"\0"))
                file.truncate(len(content))


def pack(folder: Path, base: Base) -> None:
    """Write the archive of a base."""
    base.archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(base.archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix() + ("/" if path.is_dir() else "")
            content = b"" if path.is_dir() else path.read_bytes()
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED, 9)
    say(f"wrote {base.name}: {base.archive.stat().st_size // 1024} KB")


def build(release: str) -> None:
    """Write the archives of the bases of a release, all from one run each."""
    folder = workspace(f"forecast-{release}")
    cluster = make_cluster(folder, release, config=CONFIG | RETENTION[release[0]])
    cluster.format()
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        node = cluster.nodes[0]
        write(driver, release)
        _wait_for_cleaner(node)
        cluster.stop()
        keep(node, folder, Base(release, "stopped"))
        cluster.start()
        write_more(driver)
        cluster.kill()
        keep(node, folder, Base(release, "killed"))
    for base in BASES:
        if base.release == release and base.state in ("jbod", "apart") and not base.has_zookeeper:
            build_several(base)
    if release == "4.4.0":
        build_dynamic(release)


def build_several(base: Base) -> None:
    """Write the archive of a broker with several directories, which has stopped in order."""
    folder = workspace(f"forecast-{base.name}")
    cluster = make_cluster(folder, base.release, config=CONFIG, log_dirs=base.log_dirs)
    cluster.nodes[0].config.update(base.settings(cluster.nodes[0]))
    cluster.format()
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        write_plain(driver)
        cluster.stop()
        keep(cluster.nodes[0], folder, base)


def build_dynamic(release: str) -> None:
    """Write the archive of a broker that is the only voter of a dynamic quorum, and has stopped in order."""
    folder = workspace(f"forecast-{release}-dynamic")
    cluster = make_cluster(folder, release, config=CONFIG | RETENTION[release[0]])
    make_dynamic(cluster.nodes[0])
    cluster.format("--standalone")
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        write(driver, release)
        _wait_for_cleaner(cluster.nodes[0])
        cluster.stop()
        keep(cluster.nodes[0], folder, Base(release, "dynamic"))


def make_dynamic(node: Node) -> None:
    """Let a node find the voters in the metadata log instead of in its settings."""
    node.config.pop("controller.quorum.voters", None)
    node.config["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{node.controller_port}"


def write_plain(driver: Driver) -> None:
    """Some records for each of several log directories."""
    driver.call("create_topic", name="plain", partitions=4)
    open_producer(driver, "p")
    for number in range(8):
        driver.send("p", "plain", records(f"plain {number}", 3), number % 4)


def write(driver: Driver, release: str) -> None:
    """Several segments, aborted, open and ended transactions, a moved log start, an empty partition."""
    small = small_segments(release, 900)
    driver.call("create_topic", name="plain", partitions=3, configs=small)
    driver.call("create_topic", name="single")
    driver.call("create_topic", name="txn", configs=small_segments(release, 1500))
    driver.call("create_topic", name="open")
    driver.call("create_topic", name="trimmed", configs=small)
    driver.call("create_topic", name="idle")
    driver.call("create_topic", name="compact", configs={**small, "cleanup.policy": "compact"})
    open_producer(driver, "p")
    open_producer(driver, "q", enable_idempotence="true")
    open_producer(driver, "t", "tx", **_LONG)
    open_producer(driver, "u", "ux", **_LONG)
    for number in range(9):
        driver.send("q", "plain", records(f"plain {number}", 3, 60))
        driver.send("p", "plain", records(f"plain {number}", 2, 60), 1)
        driver.send("p", "trimmed", records(f"trimmed {number}", 3, 60))
        driver.send("q", "single", records(f"single {number}", 3, 40))
        driver.send("p", "compact", records("compact", 3, 60))
    for outcome in ("commit", "abort", "commit", "abort", "commit"):
        transaction(driver, "t", "txn", outcome, 3, 2)
    transaction(driver, "t", "open", "abort", 2)
    transaction(driver, "t", "open", "commit", 2)
    driver.call("begin", name="u")
    driver.send("u", "open", records("hanging", 3))
    driver.send("q", "open", records("afterwards", 5))
    driver.call("delete_records", topic="trimmed", partition=0, before=11)
    driver.call("begin", name="t")
    driver.send("t", "txn", records("offsets", 1))
    driver.call("send_offsets", name="t", topic="txn", partition=0, offset=3, metadata="", group="movers")
    driver.call("commit", name="t")
    driver.call("pause", milliseconds=2000)


def write_more(driver: Driver) -> None:
    """What lies behind the checkpoints of a killed broker."""
    open_producer(driver, "late", enable_idempotence="true")
    open_producer(driver, "v", "vx", **_LONG)
    for number in range(7):
        driver.send("late", "plain", records(f"late {number}", 3, 60))
        driver.send("late", "single", records(f"late {number}", 3, 40))
    transaction(driver, "v", "txn", "abort", 2, 2)
    transaction(driver, "v", "txn", "commit", 1)
    driver.call("pause", milliseconds=1500)


def _wait_for_cleaner(node: Node) -> None:
    folder = node.data / "__cluster_metadata-0"
    deadline = time.monotonic() + _CLEANER_SECONDS
    while time.monotonic() < deadline and (folder / f"{0:020}.log").exists():
        time.sleep(0.5)
    time.sleep(1)


def keep(node: Node, folder: Path, base: Base, zookeeper: Path | None = None) -> None:
    """Copy what the start would find, and pack it.

    Args:
        node: the broker.
        folder: takes the copy.
        base: what it is a copy of.
        zookeeper: folder of the data of ZooKeeper, if it is part of the copy.
    """
    copied = folder / base.state
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(node.data, copied / "data")
    stored = copied / "zookeeper" / "version-2"
    for file in () if zookeeper is None else (zookeeper / stored.name).iterdir():
        stored.mkdir(parents=True, exist_ok=True)
        (stored / file.name).write_bytes(file.read_bytes().rstrip(b"\0"))  # its log has space reserved at the end
    pack(copied, base)
