# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a reader against the size of its file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

ROW = b"1234567,some text that fills the row a little,3.25,2013-01-01 00:00:00\n"
SCHEMA = pa.schema(
    [("id", pa.int64()), ("text", pa.string()), ("value", pa.float64()), ("at", pa.string())]
)


def peak(root: Path, megabytes: int) -> float:
    """Peak resident megabytes of a process that reads one CSV file of this size as one split."""
    path = root / f"memory-{megabytes}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(b"id,text,value,at\n")
        block = ROW * (1 << 14)
        for _ in range(megabytes * (1 << 20) // len(block)):
            file.write(block)
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    path.unlink()
    return float(found.stdout)


def main(path: str) -> None:
    """Read the file as a task would, and say how much memory that took."""
    import tempfile

    from connector_filesystem import FileSource
    from connectors_core.coordinator.enumeration import batch_entries, enumerate_splits
    from connectors_core.coordinator.source_coordinator import SourceSettings
    from connectors_core.execution.reading import ReaderTask, read_entry
    from connectors_core.state import StateStore

    source = FileSource(path, format="csv", schema=SCHEMA, split_size=1 << 40)
    settings = SourceSettings(uid="file", source=source, parallelism=1)
    with tempfile.TemporaryDirectory() as folder:
        task = ReaderTask(source=source, uid="file", store=StateStore(folder), schema=SCHEMA)
        splits = enumerate_splits(settings)
        for entry in batch_entries(settings, splits, pipeline_id="bench", run_id="run"):
            for _ in read_entry(task, entry):
                pass
    # Not `ru_maxrss`, which a new program takes over from the one that started it.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    print(int(found[1]) / 1024)


if __name__ == "__main__":
    main(sys.argv[1])
