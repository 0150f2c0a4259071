# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a reader against the size of its file."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from connectors_core.source import Source

ROW = b"1234567,some text that fills the row a little,3.25,2013-01-01 00:00:00\n"
SCHEMA = pa.schema(
    [("id", pa.int64()), ("text", pa.string()), ("value", pa.float64()), ("at", pa.string())]
)


def peak(root: Path, megabytes: int) -> float:
    """Return the peak resident memory of a process that reads one CSV file as one split, in MB."""
    path = root / f"memory-{megabytes}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(b"id,text,value,at\n")
        block = ROW * (1 << 14)
        for _ in range(megabytes * (1 << 20) // len(block)):
            file.write(block)
    try:
        return peak_of("benchmarks.memory", str(path))
    finally:
        path.unlink()


def peak_of(module: str, *arguments: str) -> float:
    """Run a module in a separate process, and return its output."""
    found = subprocess.run(
        [sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True
    )
    return float(found.stdout)


def main(path: str) -> None:
    """Read the file as one split, and print the peak memory."""
    from connector_filesystem import FileSource

    print_peak_reading(FileSource(path, format="csv", schema=SCHEMA, split_size=1 << 40))


def print_peak_reading(source: Source[Any, Any]) -> None:
    """Read a bounded source as tasks do, and print the peak memory of this process in megabytes."""
    from connectors_core.engine.coordinator.enumeration import batch_entries, enumerate_splits
    from connectors_core.engine.coordinator.source_settings import SourceSettings
    from connectors_core.engine.execution.reader_task import ReaderTask, read_entry
    from connectors_core.engine.state import StateStore

    settings = SourceSettings(uid="source", source=source, parallelism=1)
    schema = source.schema()
    with tempfile.TemporaryDirectory() as folder:
        task = ReaderTask(source=source, uid="source", store=StateStore(folder), schema=schema)
        splits = enumerate_splits(settings)
        for entry in batch_entries(settings, splits, pipeline_id="bench", run_id="run"):
            for _ in read_entry(task, entry):
                pass
    # Do not use `ru_maxrss`, which a new program inherits from its parent process.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    print(int(found[1]) / 1024)


if __name__ == "__main__":
    main(sys.argv[1])
