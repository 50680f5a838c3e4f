"""Doctored samples: every kind of damage, small, and the same bytes in every run.

``sample_logs/damaged/<group>/<case>-<partition>/``: a group looks like a log dir, a case like a partition of it.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping

from lab.damage.batches import batch_cases
from lab.damage.cases import Case
from lab.damage.codecs import codec_cases
from lab.damage.controls import control_cases
from lab.damage.internal import internal_cases
from lab.damage.legacy import legacy_cases
from lab.damage.records import record_cases
from lab.damage.states import state_cases
from lab.errors import LabError
from lab.places import SAMPLES
from lab.progress import say

FOLDER = SAMPLES / "damaged"
GROUPS: Mapping[str, tuple[str, Callable[[], Iterable[Case]]]] = {
    "batches": ("Batch headers, lengths, counts and tails of segments.", batch_cases),
    "records": ("Records of magic 2, behind a good CRC.", record_cases),
    "codecs": ("Compressed streams, behind a good CRC unless it says so.", codec_cases),
    "controls": ("Control records.", control_cases),
    "legacy": ("Messages of magic 0 and 1, and wrappers.", legacy_cases),
    "states": ("Indexes, snapshots and checkpoint files.", state_cases),
    "internal": ("Records of internal topics, behind a good CRC.", internal_cases),
}
_TITLE = """\
# Doctored samples

Made by `python -m lab.damage`, byte for byte the same in every run; no broker wrote them. Unless a line says otherwise
the CRC is right, so that the damage lies behind a good CRC. Some cases are not damaged at all and stand here because
they are rare, or easily taken for damage: they say so.
"""


def make_damaged() -> int:
    """Rewrite all cases.

    Returns:
        How many there are.
    """
    shutil.rmtree(FOLDER, ignore_errors=True)
    lines = [_TITLE]
    count = 0
    for group, (says, cases) in GROUPS.items():
        lines.append(f"\n## {group}\n\n{says}\n\n| folder | what is wrong |\n|---|---|\n")
        for case in cases():
            _write(group, case)
            lines.append(f"| `{case.name}` | {case.says.replace('|', '&#124;')} |\n")
            count += 1
    (FOLDER / "README.md").write_text("".join(lines), encoding="utf-8")
    say(f"wrote damaged: {count} cases")
    return count


def _write(group: str, case: Case) -> None:
    folder = FOLDER / group / case.name
    if folder.exists():
        raise LabError(f"There are two cases named {case.name} in the group {group}.")
    folder.mkdir(parents=True)
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
