"""What administrators do to the files of a stopped broker, and what a loss of power does to them."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from lab.broker import Node
from lab.random_cluster.load import Log

_METADATA = "__cluster_metadata"
_INDEXES = (".index", ".timeindex", ".txnindex")
_CHECKPOINTS = (
    "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)  # fmt: skip
# A page, which is what a file system loses or leaves full of zeros.
_PAGE = 4096


class FileRepairs:
    """An administrator at the shell of a broker's host.

    Args:
        log_dirs: the names of the log directories below the folder of a broker.
        log: where everything is noted.
        chance: decides.
    """

    def __init__(self, log_dirs: Sequence[str], log: Log, chance: Random) -> None:
        self._log_dirs = log_dirs
        self._log = log
        self._chance = chance

    def repair(self, node: Node) -> None:
        """Stop a broker in order, change files as pages and forums advise, and leave it stopped."""
        node.stop()
        actions = [
            self._without_indexes, self._without_snapshots, self._without_checkpoints, self._without_partition,
            self._without_newest_segment, self._moved,
        ]  # fmt: skip
        self._do(node, self._chance.choice(actions))

    def lose_power(self, node: Node) -> None:
        """Kill a broker, take back some of what it wrote last, and leave it stopped."""
        node.kill()
        self._do(node, self._cut)

    def _do(self, node: Node, action: Callable[[Path], None]) -> None:
        folder = node.data / self._chance.choice(self._log_dirs)
        name = action.__name__.removeprefix("_").replace("_", " ")
        self._log.note(f"FAULT files of broker {node.node_id}, {folder.name}: {name}")
        action(folder)

    def _without_indexes(self, folder: Path) -> None:
        for partition in self._some_partitions(folder):
            self._remove([path for path in partition.iterdir() if path.suffix in _INDEXES])

    def _without_snapshots(self, folder: Path) -> None:
        for partition in self._some_partitions(folder):
            self._remove([*partition.glob("*.snapshot")])

    def _without_checkpoints(self, folder: Path) -> None:
        names = self._chance.sample(_CHECKPOINTS, self._chance.choice((1, len(_CHECKPOINTS))))
        self._remove([folder / name for name in names if (folder / name).exists()])

    def _without_partition(self, folder: Path) -> None:
        for partition in self._some_partitions(folder)[:1]:
            self._log.note(f"FAULT remove {partition.name}")
            shutil.rmtree(partition)

    def _without_newest_segment(self, folder: Path) -> None:
        for partition in self._some_partitions(folder):
            *older, newest = sorted(partition.glob("*.log"))
            if older:
                self._remove([*partition.glob(f"{newest.stem}.*")])

    def _moved(self, folder: Path) -> None:
        """Move folders of partitions to another disk, and leave the checkpoints as they are."""
        others = [folder.parent / name for name in self._log_dirs if name != folder.name]
        for partition in self._some_partitions(folder) if others else ():
            to = self._chance.choice(others) / partition.name
            if not to.exists():
                self._log.note(f"FAULT move {partition.name} to {to.parent.name}")
                shutil.move(partition, to)

    def _cut(self, folder: Path) -> None:
        for partition in self._some_partitions(folder):
            newest = max(partition.glob("*.log"))
            size = newest.stat().st_size
            lost = min(size, self._chance.choice((1, 61, 700, _PAGE)))
            has_zeros = self._chance.random() < 0.5
            self._log.note(f"FAULT {newest} lost {lost} of {size} bytes, {'zeros' if has_zeros else 'cut'}")
            with newest.open("r+b") as file:
                file.truncate(size - lost)
                if has_zeros:
                    file.truncate(size)

    def _some_partitions(self, folder: Path) -> list[Path]:
        """Folders of some partitions, in the order of chance; never that of the metadata log."""
        found = sorted(path.parent for path in folder.glob("*/*.log") if not path.parent.name.startswith(_METADATA))
        partitions = [path for path in dict.fromkeys(found) if path.suffix == ""]
        return self._chance.sample(partitions, min(len(partitions), self._chance.choice((1, 3, len(partitions)))))

    def _remove(self, paths: Sequence[Path]) -> None:
        self._log.note(f"FAULT remove {len(paths)} files: {', '.join(path.name for path in paths[:3])}")
        for path in paths:
            path.unlink()
