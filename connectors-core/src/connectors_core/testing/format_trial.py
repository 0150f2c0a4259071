# SPDX-License-Identifier: Apache-2.0
"""The tools of the cases for a connector's format, which needs no pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from connectors_core.source import Boundedness
from connectors_core.testing.context import ROWS
from connectors_core.testing.data import assert_exactly
from connectors_core.testing.faults import Fault, FaultAction, injected
from connectors_core.testing.pace import stretched
from connectors_core.testing.sink_trial import TOTAL, SinkTrial
from connectors_core.testing.source_trial import SourceTrial
from connectors_core.testing.trial import DEADLINE, Trial

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DDL: Final = "split BIGINT, seq BIGINT, at TIMESTAMP, text STRING"
_ENDS_WITHIN: Final = 2 * DEADLINE


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of Spark with its options.

    Attributes:
        name: The name of the format.
        options: Its options.
        schema: The columns to read; None for those of the source.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: StructType | str | None = None

    def reader(self, new: Any) -> Any:
        """Return a reader from `spark.read` or `spark.readStream`."""
        reader = new.format(self.name).options(**self.options)
        return reader if self.schema is None else reader.schema(self.schema)


@dataclass(frozen=True, kw_only=True)
class FormatJob:
    """A stream from one format to another one, which ends with the data that exists now.

    Attributes:
        source: The format to read.
        sink: The format to write.
        checkpoint: The checkpoint location.
        spark: The settings of its Spark session in a separate process.
    """

    source: Format
    sink: Format
    checkpoint: str
    spark: Mapping[str, str]

    def __call__(self) -> None:
        """Run the stream in this process, which a test started for it."""
        from connectors_core.testing.spark_session import new_session

        self.run(new_session(self.spark))

    def run(self, spark: SparkSession) -> None:
        """Run the stream to its end."""
        rows = self.source.reader(spark.readStream).load()
        writer = rows.writeStream.format(self.sink.name).options(**self.sink.options)
        query = (
            writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()
        )
        seconds = stretched(_ENDS_WITHIN)
        try:
            assert query.awaitTermination(seconds), f"the query does not end within {seconds:.0f} s"
        finally:
            query.stop()


class FormatTrial(Trial):
    """A case in progress, on a Spark session."""

    @property
    def spark(self) -> Any:
        """The Spark session."""
        environment: Any = self.environment
        return environment.spark

    def job_between(self, source: Format, sink: Format) -> FormatJob:
        """Return a stream with the checkpoint of the case."""
        return FormatJob(
            source=source,
            sink=sink,
            checkpoint=str(self.location),
            spark=self.environment.session or {},
        )

    def fail_then_run(self, job: FormatJob, point: str) -> None:
        """Let a stream fail at its second pass of a point in the driver, and run it again."""
        fault = Fault(point, action=FaultAction.RAISE, nth=2, once=self.root / "failed")
        with injected(fault):
            try:
                job.run(self.spark)
            except Exception as failure:
                if "FaultInjected" not in str(failure):
                    raise
        assert fault.fired, "the stream ends before its second micro-batch"
        job.run(self.spark)


class SourceFormatTrial(SourceTrial, FormatTrial):
    """A case of a format that is read."""

    name: str

    def source(self, boundedness: Boundedness, **more: Any) -> Format:
        """Return the format with the options of the context."""
        schema = more.pop("schema", None)
        options = {**self.context.format_options(boundedness), **more}
        return Format(name=self.name, options=options, schema=schema)

    def batch(self, schema: StructType | None = None) -> DataFrame:
        """Return a batch read of all rows."""
        source = self.source(Boundedness.BOUNDED, schema=schema)
        frame: DataFrame = source.reader(self.spark.read).load()
        return frame

    def copies(self, boundedness: Boundedness) -> FormatJob:
        """Return a stream into files of Spark, one split in each micro-batch."""
        source = self.source(boundedness, **{"limits.splits": "1"})
        return self.job_between(source, Format(name="parquet", options={"path": self._copied}))

    def assert_read(self, frame: DataFrame) -> None:
        """Check that a DataFrame has each written row once."""
        found: Any = frame
        assert_exactly(self.context.to_rows(found.toArrow()), self.written)

    def assert_copied(self) -> None:
        """Check that the files have each written row once."""
        self.assert_read(self.spark.read.parquet(self._copied))

    @property
    def _copied(self) -> str:
        return str(self.root / "copied")


class SinkFormatTrial(SinkTrial, FormatTrial):
    """A case of a format that is written."""

    name: str

    def sink(self) -> Format:
        """Return the format with the options of the context."""
        return Format(name=self.name, options=self.context.format_options())

    def write_batch(self) -> None:
        """Write all rows in a batch of several tasks."""
        path = str(self._files(1))
        rows = Format(name="parquet", options={"path": path}).reader(self.spark.read).load()
        sink = self.sink()
        rows.repartition(3).write.format(sink.name).options(**sink.options).mode("append").save()

    def stream(self, batches: int) -> FormatJob:
        """Return a stream of all rows in this number of micro-batches."""
        options = {"path": str(self._files(batches)), "maxFilesPerTrigger": "1"}
        return self.job_between(Format(name="parquet", options=options, schema=_DDL), self.sink())

    def _files(self, count: int) -> Path:
        """Write all rows to this number of files."""
        folder = self.root / "rows"
        folder.mkdir()
        (rows,) = self.expected()
        size = -(-TOTAL // count)
        for number in range(count):
            part: pa.Table = rows.slice(number * size, size)
            pq.write_table(part.cast(ROWS), folder / f"{number:03d}.parquet")
        return folder
