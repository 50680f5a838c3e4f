"""Reads a segment with aiokafka and prints how many records it met: ``read_with_aiokafka.py batches|records FILE``."""

import json
import sys
from pathlib import Path

from aiokafka.record.memory_records import MemoryRecords


def main(job: str, path: str) -> None:
    """Compare every checksum; for records, decode each one too."""
    memory = MemoryRecords(Path(path).read_bytes())
    records = 0
    while (batch := memory.next_batch()) is not None:
        if not batch.validate_crc():
            raise SystemExit(f"aiokafka finds a wrong checksum before offset {batch.next_offset}.")
        # Formats 0 and 1 do not say how many; these segments begin at 0 and have no gaps.
        records = records + sum(1 for _ in batch) if job == "records" else batch.next_offset
    print(json.dumps({"records": records}))


if __name__ == "__main__":
    main(*sys.argv[1:])
