"""Commands over damaged clusters: files cut, exchanged, removed, or replaced by a pipe, a link or a folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from lab.fuzz.attack import LARGEST_SAMPLE, require
from lab.fuzz.command_run import CLEAN, FINDINGS, UNREADABLE, USAGE, CommandResult, run_command
from lab.fuzz.mutations import EXTREMES, damaged
from lab.places import SAMPLES

AS_OF = ("--as-of", "2026-11-22T01:00")
HUGE = 1 << 33
MOST_FILES = 60
STYLES = ("4.3", "4.2", "3.9", "2.8", "2.7")
FORMATS = ("text", "table", "json", "ndjson", "csv", "csv-safe", "arrow")
# Offsets and ids that clusters have, and some that none has.
NUMBERS = (*range(12), 1000, 1001, 4711, (1 << 31) - 1, (1 << 63) - 1)


def attack_commands(dice: Random, keep: Path | None) -> None:
    """Run a few commands over one damaged cluster."""
    with tempfile.TemporaryDirectory() as scratch:
        cluster = Path(scratch, "cluster")
        copy_sample(dice, cluster)
        damage_cluster(cluster, dice)
        if keep:
            shutil.copytree(cluster, keep / "cluster", symlinks=True, dirs_exist_ok=True, copy_function=_copied)
        for _ in range(3):
            arguments = list(map(str, dice.choice(COMMANDS)(dice, cluster)))
            if keep:
                (keep / "commands.txt").open("a", encoding="utf-8").write(f"{arguments}\n")
            _check_command(arguments, dice)
        if dice.random() < 0.2:
            _check_store(cluster, Path(scratch), dice, keep)


def _copied(source: str, target: str) -> str:
    """Copy a file as it is, a pipe or a sparse file too."""
    path = Path(source)
    if path.is_fifo():
        os.mkfifo(target)
        return target
    if not path.is_symlink() and path.stat().st_size >= HUGE >> 8:
        with path.open("rb") as file:
            Path(target).write_bytes(file.read(LARGEST_SAMPLE))
        os.truncate(target, path.stat().st_size)
        return target
    return shutil.copy2(source, target, follow_symlinks=False)


@cache
def _clusters() -> tuple[tuple[Path, ...], ...]:
    """Return the clusters of the samples: the folders of their brokers."""
    scenarios = sorted(path for path in SAMPLES.iterdir() if path.is_dir() and path.name != "golden")
    brokers = (tuple(sorted(path for path in scenario.iterdir() if path.is_dir())) for scenario in scenarios)
    return tuple(folders for folders in brokers if folders)


def copy_sample(dice: Random, cluster: Path) -> None:
    """Copy the brokers of a sample, without some of the partitions if there are many."""
    for broker in dice.choice(_clusters()):
        target = cluster / broker.name
        target.mkdir(parents=True)
        entries = sorted(broker.iterdir())
        partitions = [entry for entry in entries if entry.is_dir()]
        files = sum(len(list(entry.iterdir())) for entry in partitions)
        kept = dice.sample(partitions, len(partitions) * MOST_FILES // files) if files > MOST_FILES else partitions
        for entry in entries:
            if entry.is_file():
                shutil.copy2(entry, target)
            elif entry in kept:
                shutil.copytree(entry, target / entry.name)


# Damage --------------------------------------------------------------------------------------------------------------


def damage_cluster(cluster: Path, dice: Random) -> None:
    """Damage some files of a cluster."""
    files = sorted(path for path in cluster.rglob("*") if path.is_file())
    for path in dice.sample(files, min(len(files), dice.choice((1, 2, 4, 12)))):
        if path.is_file() and not path.is_symlink():
            dice.choice(DAMAGE)(path, dice.choice(files), dice)


def _damage_bytes(path: Path, _other: Path, dice: Random) -> None:
    path.write_bytes(damaged(path.read_bytes(), dice).data)


def _exchange(path: Path, other: Path, _dice: Random) -> None:
    if other.is_file() and not other.is_symlink():
        first, second = path.read_bytes(), other.read_bytes() if other.stat().st_size < HUGE else b""
        path.write_bytes(second)
        other.write_bytes(first)


def _remove(path: Path, _other: Path, dice: Random) -> None:
    if dice.random() < 0.5:
        path.unlink()
    else:
        path.write_bytes(b"")


def _replace(path: Path, other: Path, dice: Random) -> None:
    path.unlink()
    kind = dice.choice(("pipe", "folder", "link", "dangling", "loop", "upwards", "device"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        targets = {"dangling": "nowhere", "loop": path.name, "upwards": "../..", "device": "/dev/zero"}
        path.symlink_to(targets.get(kind, other))


def _rename(path: Path, _other: Path, dice: Random) -> None:
    number = f"{dice.choice(EXTREMES) & (1 << 64) - 1:020}"
    path.rename(path.with_name(dice.choice((f"{number}{path.suffix}", f"{path.name}.deleted", f"{path.name}.swap"))))


def _rename_folder(path: Path, _other: Path, dice: Random) -> None:
    folder = path.parent
    ending = dice.choice(("-99999999999", "-0", ".0123456789abcdef0123456789abcdef-delete", "-stray", "-1-future"))
    target = folder.with_name(folder.name + ending)
    if not target.exists():
        folder.rename(target)


def _enlarge(path: Path, _other: Path, _dice: Random) -> None:
    """Make the file sparse, as after a crash with preallocation, of a size that no reader may take into memory."""
    os.truncate(path, HUGE if path.suffix == ".log" else HUGE >> 8)


DAMAGE: tuple[Callable[[Path, Path, Random], None], ...] = (
    *(_damage_bytes,) * 8,
    *(_exchange, _remove, _replace, _replace, _rename, _rename_folder, _enlarge),
)

# Commands ------------------------------------------------------------------------------------------------------------


def _dump(dice: Random, cluster: Path) -> list[object]:
    files = sorted(path for path in cluster.rglob("*") if path.is_file()) or [cluster]
    check_indexes = dice.choice(("--verify-index-only", "--index-sanity-check"))
    choices: tuple[list[object], ...] = (
        [cluster],
        ["--print-data-log", cluster],
        ["--deep-iteration", "--print-data-log", dice.choice(files)],
        ["--style", dice.choice(STYLES), "--print-data-log", "--files", dice.choice(files)],
        ["--style", dice.choice(STYLES), check_indexes, "--files", dice.choice(files)],
        ["--format", dice.choice(FORMATS), dice.choice(("--records", "--batches", "--damage")), cluster],
        ["--format", "ndjson", "--records", "--isolation", "read_committed", cluster],
        ["--aborted", "--format", "csv", "--records", cluster],
        ["--format", "ndjson", dice.choice(files)],
        ["--offset", f"{dice.choice(NUMBERS)}:", "--max-bytes", dice.choice((10, 1000, 100000)), cluster],
        ["--max-decompressed-bytes", dice.choice((1, 100, 10000)), "--print-data-log", cluster],
        ["--format", "json", "--records", "--key-format", dice.choice(("hex", "int", "long", "json")), cluster],
        ["--offsets-decoder", "--print-data-log", cluster],
        ["--cluster-metadata-decoder", "--print-data-log", cluster],
    )
    return ["dump", *dice.choice(choices)]


def _question(*words: object) -> Callable[[Random, Path], list[object]]:
    def arguments(dice: Random, cluster: Path) -> list[object]:
        return [*words, *AS_OF, "--format", dice.choice((*("text",) * 5, *FORMATS)), cluster]

    return arguments


def _explain(dice: Random, cluster: Path) -> list[object]:
    question = dice.choice(("--offset", "--producer-id", "--transactional-id"))
    answer = dice.choice(("tx-hang-0", "tx-a", "tx")) if question == "--transactional-id" else dice.choice(NUMBERS)
    return ["explain", question, answer, *AS_OF, cluster]


COMMANDS: tuple[Callable[[Random, Path], list[object]], ...] = (
    *(_dump,) * 4,
    *(_question("lso"), _question("lso", "--history"), _question("transactions"), _question("producers")),
    *(_question("duplicates"), _question("scan"), _question("verify"), _explain, _explain),
    *(_question("audit"), _question("audit"), _question("audit", "--records"), _question("keys")),
)


def _check_command(arguments: list[str], dice: Random) -> None:
    """Run a command; sometimes with and without kernels, and require the same output.

    Arrow files with the same rows may have them in other batches.
    """
    if dice.random() < 0.7 or "arrow" in arguments:
        run_command(*arguments)
        return
    results = [run_command(*arguments, kernels=kernels) for kernels in ("always", "never")]
    require(
        results[0] == results[1], "kernels and Python differ:", arguments, *map(_difference, results, results[::-1])
    )


def _difference(result: CommandResult, other: CommandResult) -> str:
    lines = set((other.out.decode(errors="replace") + other.err).splitlines())
    mine = (result.out.decode(errors="replace") + result.err).splitlines()
    return f"{result.code} {[line for line in mine if line not in lines][:5]}"


def _check_store(cluster: Path, scratch: Path, dice: Random, keep: Path | None) -> None:
    """Audit into a store and report on it; then damage the store, which must be read or refused with a sentence."""
    store, page = scratch / "store", scratch / "report.html"
    result = run_command("audit", *AS_OF, "--output", store, cluster)
    if result.code == USAGE:
        return
    json.loads((store / "manifest.json").read_bytes())
    reported = run_command("report", "--output", page, store)
    require(reported.code in {CLEAN, FINDINGS, UNREADABLE}, "report:", reported)
    require(page.exists(), "there is no report:", reported)
    damage_cluster(store, dice)
    if keep:
        shutil.copytree(store, keep / "store", symlinks=True, dirs_exist_ok=True, copy_function=_copied)
    run_command("report", "--output", scratch / "second.html", store)
