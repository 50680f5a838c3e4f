"""A transactional id or a group before the paths: a name if the files have it and no file has its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import SAMPLES, run

IDS, GROUPS = SAMPLES / "transactions-v2" / "broker-1", SAMPLES / "groups" / "broker-1"
AS_OF = ("--quiet", "--as-of", "2026-11-22")
NO_FILE = "there is no such file"


@pytest.mark.parametrize(
    ("command", "option", "name", "sample"),
    [("ids", "--transactional-id", "open-first", IDS), ("groups", "--group", "modern", GROUPS)],
)
@pytest.mark.parametrize("output_format", ["text", "json", "csv"])
def test_a_name_before_the_paths_is_that_of_the_option(
    command: str, option: str, name: str, sample: Path, output_format: str
) -> None:
    typed = run(command, *AS_OF, "--format", output_format, name, sample)
    assert (typed.code, typed.err) == (0, "")
    assert typed == run(command, *AS_OF, "--format", output_format, option, name, sample)


@pytest.mark.parametrize(
    ("command", "name", "sample", "hint"),
    [
        ("ids", "opn-first", IDS, "no record of the id 'opn-first' in __transaction_state-0; did you mean open-first?"),
        ("groups", "modrn", GROUPS, "no record of the group 'modrn' in __consumer_offsets; did you mean modern?"),
        ("ids", "orders", GROUPS / "orders-0", "no partition of __transaction_state is under the paths"),
        ("groups", "orders", IDS / "timed-out-0", "no partition of __consumer_offsets is under the paths"),
    ],
)
def test_an_unknown_name_is_a_missing_file_and_similar_names_are_suggested(
    command: str, name: str, sample: Path, hint: str
) -> None:
    ended = run(command, *AS_OF, "--alone", name, sample)
    first, second, *_ = ended.err.splitlines()
    assert ended.code == 3
    assert hint in first
    assert second == f"cannot read {name}: {NO_FILE}"


def test_a_folder_that_is_misspelt_is_no_unknown_name() -> None:
    ended = run("ids", *AS_OF, "/var/lib/kafka/dta", IDS)
    assert (ended.code, ended.err) == (3, f"cannot read /var/lib/kafka/dta: {NO_FILE}\n")


@pytest.mark.parametrize("command", ["ids", "groups"])
def test_a_name_without_paths_shows_the_command_with_one(command: str) -> None:
    ended = run(command, "--quiet", "my name")
    assert ended.code == 3
    assert f"kforensics {command} 'my name' /var/lib/kafka/data" in ended.err


def test_a_path_is_a_path_although_an_id_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("open-first").symlink_to(IDS)
    listed = run("ids", *AS_OF, "open-first", IDS)
    assert listed.code == 0
    assert "16 transactional ids" in listed.lines[0]


def test_the_option_counts_before_a_name() -> None:
    ended = run("ids", *AS_OF, "--transactional-id", "wide", "open-first", IDS)
    assert (ended.code, ended.lines[0]) == (3, "transactional id wide: CompleteCommit")
    assert f"cannot read open-first: {NO_FILE}" in ended.err


@pytest.mark.parametrize("name", ["nowhere", "s3://bucket/open-first", "open-f*", "case.tar!/open-first", "-"])
def test_what_may_be_a_path_is_no_name(name: str) -> None:
    from kforensics.parsers.files.input_paths import names_no_file

    assert names_no_file(name) == (name == "nowhere")
