# SPDX-License-Identifier: Apache-2.0
"""The core's suites for files, for tests in this process and on Spark."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq

from connector_filesystem import (
    BucketAssigner,
    FileCompactStrategy,
    FileOrder,
    FileSink,
    FileSource,
    FileTable,
    RollingPolicy,
    SchemaChange,
    manifest_files,
)
from connectors_core.formats import JsonFormat
from connectors_core.secrets import Secret
from connectors_core.source import Boundedness
from connectors_core.testing import (
    LOOKUP_ROWS,
    ROWS,
    Capabilities,
    Capability,
    LookupExternalContext,
    LookupTestSuite,
    SinkExternalContext,
    SinkFormatTestSuite,
    SinkTestSuite,
    SourceExternalContext,
    SourceFormatTestSuite,
    SourceTestSuite,
    SplitDataWriter,
)

# The release of the suites that these tests support. Cases of later releases are new.
SUITES = "1.5"
SOURCE = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.UNBOUNDED,
            Capability.DISCOVERY,
            Capability.CUT_SPLITS,
            Capability.SKIPPED_SPLITS,
            Capability.REPLACED_SPLITS,
            Capability.REFUSALS,
            Capability.INPUT_VERSION,
            Capability.POISON_READS,
            Capability.MISFITS,
            Capability.REPLAYABLE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
        }
    ),
    cannot={
        Capability.GROWING_SPLITS: "a file is complete when it appears",
        Capability.LATE_COMMITS: "a file is complete when it appears",
        Capability.ACKNOWLEDGED_READS: "files stay where they are",
        Capability.OUTAGES: "files of this machine are always there; in process they are not",
    },
)
SINK = Capabilities(
    can=frozenset(
        {
            Capability.EXACTLY_ONCE,
            Capability.COMMITTED_EPOCHS,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
        }
    ),
    cannot={
        Capability.LEASES: "names of files are unique by themselves",
        Capability.REWRITING: "staged files stay until they are committed or swept",
        Capability.WRITER_STATE: "every file stands by itself",
        Capability.TOPOLOGIES: "every file is committed as it was written",
        Capability.OUTAGES: SOURCE.cannot[Capability.OUTAGES],
    },
)


def with_outages(of_this_machine: Capabilities) -> Capabilities:
    """The capabilities on storage that can be unavailable."""
    cannot = dict(of_this_machine.cannot)
    del cannot[Capability.OUTAGES]
    return Capabilities(can=of_this_machine.can | {Capability.OUTAGES}, cannot=cannot)


POISON = b"1,not a number,2024-01-01 00:00:00Z,x\n"
PASSWORD = "canary-5e0b"  # pragma: allowlist secret


def json_lines(rows: pa.Table) -> bytes:
    """Return each row as a line of JSON."""
    (batch,) = rows.to_batches()
    return b"".join(
        b"%s\n" % message for message in JsonFormat().encode(batch).messages.to_pylist()
    )


class CsvWriter(SplitDataWriter):
    """A writer that adds a file to a split for each later append."""

    def __init__(self, folder: Path, split: int) -> None:
        self._folder = folder
        self._split = f"{split:03d}"
        self._names = (f"{self._split}-{number:03d}.csv" for number in itertools.count())

    def write(self, rows: pa.Table) -> None:
        out = pa.BufferOutputStream()
        pa_csv.write_csv(rows, out)
        self._put(out.getvalue().to_pybytes())

    def cut(self, rows: int) -> None:
        (path,) = self._folder.glob(f"{self._split}-*.csv")
        header_and_rows = path.read_bytes().splitlines(keepends=True)[: 1 + rows]
        path.write_bytes(b"".join(header_and_rows))

    def spoil(self) -> None:
        for path in self._folder.glob(f"{self._split}-*.csv"):
            path.write_text("text that is not in UTF-8", encoding="utf-16")

    def replace(self, rows: pa.Table) -> None:
        (path,) = self._folder.glob(f"{self._split}-*.csv")
        path.unlink()
        pa_csv.write_csv(rows, path)

    def write_around_poison(self, *rows: pa.Table) -> None:
        out = pa.BufferOutputStream()
        for number, part in enumerate(rows):
            if number:
                out.write(POISON)
            pa_csv.write_csv(part, out, pa_csv.WriteOptions(include_header=not number))
        self._put(out.getvalue().to_pybytes())

    def write_poison(self) -> None:
        self._put(b"split,seq,at,text\n" + POISON)

    def _put(self, data: bytes) -> None:
        name = next(self._names)
        hidden = self._folder / f".{name}"
        hidden.write_bytes(data)
        hidden.rename(self._folder / name)


class CsvFiles(SourceExternalContext):
    """A folder of CSV files, read from an address."""

    def __init__(self, folder: Path, address: str = "") -> None:
        self._folder = folder
        self._url = f"{address}{folder}"
        self._splits = itertools.count()

    def create_split(self) -> CsvWriter:
        return CsvWriter(self._folder, next(self._splits))

    def create_source(self, boundedness: Boundedness, **settings: Any) -> FileSource:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        return FileSource(
            self._url,
            format="csv",
            schema=ROWS,
            monitor_interval=timedelta(milliseconds=50) if endless else None,
            on_schema_change=SchemaChange.IGNORE_NEW,
            storage_options={"password": Secret(PASSWORD)},
            **settings,
        )

    def create_skipping_source(self, boundedness: Boundedness) -> FileSource:
        return self.create_source(boundedness, on_unreadable="skip")

    def changed_sources(self, boundedness: Boundedness) -> Mapping[str, FileSource]:
        changed: dict[str, Any] = {
            "order=name": {"order": FileOrder.NAME},
            "order=modification-time": {"order": FileOrder.MODIFICATION_TIME},
            "path_regex": {"path_regex": ".*[.]csv"},
            "split_size": {"split_size": 1000},
            "batch_rows": {"batch_rows": 3},
        }
        return {name: self.create_source(boundedness, **each) for name, each in changed.items()}

    def format_options(self, boundedness: Boundedness) -> Mapping[str, str]:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        return {
            "path": self._url,
            "format": "csv",
            "schema": "split BIGINT, seq BIGINT, at TIMESTAMP, text STRING",
            **({"source.monitor-interval": "50 ms"} if endless else {}),
        }

    @contextlib.contextmanager
    def refusal(self) -> Iterator[None]:
        """Move the files away."""
        away = self._folder.with_name(f"{self._folder.name}-away")
        self._folder.rename(away)
        yield
        away.rename(self._folder)

    def create_typed_source(self, rows: pa.Table) -> FileSource:
        pq.write_table(rows, self._folder / "rows.parquet")
        return FileSource(self._url, format="parquet", schema=rows.schema)

    def create_misfit_source(self, schema: pa.Schema, parts: Sequence[pa.Table]) -> FileSource:
        (self._folder / "rows.jsonl").write_bytes(b"".join(map(json_lines, parts)))
        return FileSource(self._url, format="json", schema=schema)

    def secrets(self) -> list[str]:
        return [PASSWORD]


class ParquetFiles(SinkExternalContext):
    """A folder of Parquet files, written at an address."""

    def __init__(self, folder: Path, address: str = "") -> None:
        self._folder = folder / "out"
        self._url = f"{address}{self._folder}"

    def create_sink(self, **settings: Any) -> FileSink:
        options = {"password": Secret(PASSWORD)}
        usual = {"format": "parquet", "storage_options": options}
        return FileSink(self._url, **usual | settings)

    def changed_sinks(self) -> Mapping[str, FileSink]:
        changed: dict[str, Any] = {
            "format": {"format": "json"},
            "bucket_assigner": {"bucket_assigner": BucketAssigner.columns("split")},
            "rolling_policy": {"rolling_policy": RollingPolicy(max_rows=3)},
            "manifests": {"manifests": True},
            "parallelism": {"parallelism": 1},
        }
        return {name: self.create_sink(**each) for name, each in changed.items()}

    def format_options(self) -> Mapping[str, str]:
        return {"path": self._url, "format": "parquet"}

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        files = [str(path) for path in self._files(hidden=False)]
        return pa_dataset.dataset(files, schema=schema, format="parquet").to_table()

    def secrets(self) -> list[str]:
        return [PASSWORD]

    def leftovers(self) -> list[str]:
        epochs = self._folder / "_epochs"  # the number of the newest epoch stays
        return [path.name for path in self._files(hidden=True) if epochs not in path.parents]

    def _files(self, *, hidden: bool) -> Iterable[Path]:
        for path in self._folder.rglob("*"):
            parts = path.relative_to(self._folder).parts
            if path.is_file() and hidden == any(part[0] in "._" for part in parts):
                yield path


class CompactedFiles(ParquetFiles):
    """A folder of Parquet files that are merged before they are visible."""

    def create_sink(self, **settings: Any) -> FileSink:
        return super().create_sink(**settings).enable_compact(FileCompactStrategy(epochs=2))


class ListedFiles(CompactedFiles):
    """A folder of merged Parquet files, read from manifests."""

    def create_sink(self, **settings: Any) -> FileSink:
        return super().create_sink(**settings).replaced(manifests=True)

    def _files(self, *, hidden: bool) -> Iterable[Path]:
        if not hidden:
            is_written = (self._folder / "_manifests").exists()
            return map(Path, manifest_files(self._folder) if is_written else ())
        found = super()._files(hidden=True)
        return (path for path in found if path.parent.name != "_manifests")


class ParquetTable(LookupExternalContext):
    """A folder with one Parquet file, which gets a new name at each write."""

    def __init__(self, folder: Path, address: str = "") -> None:
        self._folder = folder / "table"
        self._url = f"{address}{self._folder}"
        self._numbers = itertools.count()
        self._folder.mkdir()

    def write(self, rows: pa.Table) -> None:
        before = list(self._folder.iterdir())
        name = f"{next(self._numbers):03d}.parquet"
        pq.write_table(rows, self._folder / f".{name}")
        (self._folder / f".{name}").rename(self._folder / name)
        for path in before:
            path.unlink()

    def create_table(self, options: Mapping[str, str], schema: pa.Schema = LOOKUP_ROWS) -> Any:
        return FileTable.from_options(
            {
                "path": self._url,
                "format": "parquet",
                "schema": schema,
                "storage-options.password": Secret(PASSWORD),
                **options,
            }
        )

    def create_typed_table(self, rows: pa.Table, options: Mapping[str, str]) -> Any:
        self.write(rows)
        return self.create_table(options, rows.schema)

    def create_misfit_table(
        self, schema: pa.Schema, rows: pa.Table, options: Mapping[str, str]
    ) -> Any:
        for path in self._folder.iterdir():
            path.unlink()
        (self._folder / "rows.jsonl").write_bytes(json_lines(rows))
        return self.create_table({"format": "json", **options}, schema)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        hidden = self._folder.with_name("away")
        self._folder.rename(hidden)
        yield
        hidden.rename(self._folder)

    def secrets(self) -> list[str]:
        return [PASSWORD]


class FileTableSuite(LookupTestSuite):
    written_for = SUITES
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.FULL_CACHE,
                Capability.OUTAGES,
                Capability.DATA_TYPES,
                Capability.MISFITS,
                Capability.SECRETS,
            }
        ),
        cannot=dict.fromkeys(
            (Capability.LOOKUP_BY_KEY, Capability.ASYNC_LOOKUP), "files have no keys"
        ),
    )

    def external_context(self, folder: Path) -> ParquetTable:
        return ParquetTable(folder, self.address)


class OfSource:
    """Settings that the suites of the source and of its parts share."""

    written_for = SUITES
    capabilities = SOURCE
    files = CsvFiles

    def external_context(self, folder: Path) -> CsvFiles:
        return self.files(folder, self.address)


class OfSink:
    """Settings that the suites of the sink and of its parts share."""

    written_for = SUITES
    capabilities = SINK

    def external_context(self, folder: Path) -> ParquetFiles:
        return ParquetFiles(folder, self.address)


class FileSourceSuite(OfSource, SourceTestSuite):
    pass


class FileSinkSuite(OfSink, SinkTestSuite):
    pass


class FileSourceFormatSuite(OfSource, SourceFormatTestSuite):
    format = "connector_filesystem"


class FileSinkFormatSuite(OfSink, SinkFormatTestSuite):
    format = "connector_filesystem"
