"""A cluster whose ``__transaction_state`` is older than its partitions, as after a backup of it was restored."""

from __future__ import annotations

from pathlib import Path

from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.forge import forge

__all__ = ["forge_rejected"]


def forge_rejected(folder: Path) -> None:
    """Write a coordinator that waits for a marker with epoch 5, and two partitions with higher epochs."""
    prepared = "a Ongoing 7 5 {t-0,u-0} t 10; a PrepareAbort 7 5 {t-0,u-0} t 20"
    forge_coordinator(folder, f"a Empty 7 5 t 1; {prepared}; b Empty 8 0 t 59000")
    log = f"D 7 5 0-0 @0-0 T {at(11)}; M 7 5 A 0 @1 {at(21)}; D 7 6 0-0 @2-2 T {at(30_000)}; M 7 6 C 0 @3 {at(30_001)}"
    forge(folder, f"{log}; D 7 8 0-0 @4-4 T {at(30_002)}; M 7 8 C 0 @5 {at(30_003)}")
    forge(folder, f"M 8 0 C 0 @0 {at(30_000)}; M 7 9 C 0 @1 {at(30_004)}", topic="u")
