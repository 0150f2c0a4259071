# SPDX-License-Identifier: Apache-2.0
"""The data source that a connector registers under its import name."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import (  # type: ignore[import-not-found, unused-ignore]
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from connectors_core.source.source import AnySource
    from connectors_core.spark.native_formats.parts import FormatParts
    from connectors_core.spark.native_formats.writing import BatchWriter, StreamWriter


class NativeFormat(DataSource):  # type: ignore[misc, unused-ignore]
    """A connector as a format of Spark; a subclass names its source and sink.

    A module `pyspark_<package>` contains the subclass under the name `DefaultSource`. Spark imports
    all such modules when it looks up a format, so the module imports nothing of the connector.

    Attributes:
        package: The import name of the connector, which is the name of the format.
        source: The name of its source; None if it has none.
        sink: The name of its sink; None if it has none.
    """

    package: ClassVar[str]
    source: ClassVar[str | None] = None
    sink: ClassVar[str | None] = None

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._inferred: AnySource | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.package

    def schema(self) -> StructType:
        """Return the columns of the source."""
        from connectors_core.spark.carriers.base import spark_schema

        # Spark pickles this object afterward, so a schema is inferred only once.
        self._inferred = self._parts().new_source()
        return spark_schema(self._inferred.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return self._parts().batch_reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream."""
        return self._parts().stream_reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of a batch."""
        return self._parts().batch_writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the writer of a stream."""
        return self._parts().stream_writer(schema, overwrite)

    def _parts(self) -> FormatParts:
        # Imported late: every session that uses any format in Python imports this module.
        from connectors_core.spark.native_formats.parts import FormatParts

        return FormatParts(
            self.package,
            source=self.source,
            sink=self.sink,
            options=dict(self.options),
            inferred=self._inferred,
        )
