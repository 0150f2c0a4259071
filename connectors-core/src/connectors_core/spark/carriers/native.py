# SPDX-License-Identifier: Apache-2.0
"""The carrier for Spark lines with the Python Data Source API.

Spark runs the stream reader in a separate process without access to the driver's objects. The
reader holds no state: it polls for the file of the next plan and turns immutable plans into
partitions.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from pyspark import cloudpickle
from pyspark.sql.datasource import (  # type: ignore[import-not-found, unused-ignore]
    DataSource,
    DataSourceStreamReader,
    InputPartition,
)

from connectors_core.errors import StateCorruptedError
from connectors_core.spark.carriers.base import ENTRIES, Carrier, hand_on, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from connectors_core.spark.carriers.base import PlanFeed, ReadEntry

_ID_LENGTH: Final = 8


class NativeCarrier(Carrier):
    """A Python data source whose stream offset is the plan number."""

    def _read(self, row_type: StructType, read_entry: ReadEntry, name: str) -> DataFrame:
        return self._load(name, row_type, read_entry)

    def _open_entries(self) -> DataFrame:
        return self._load(f"{self.uid} entries", spark_schema(ENTRIES), hand_on)

    def _load(self, what: str, row_type: StructType, read_entry: ReadEntry) -> DataFrame:
        name = _format_name(self._pipeline_id, what)
        # One class per source, which carries user objects through cloudpickle. Options would show
        # them in plans and logs, and accept only strings.
        body = {
            "format_name": name,
            "uid": self.uid,
            "row_type": row_type,
            # Planning handles it as bytes, so only tasks import the modules of the user's objects.
            "read_entry": cast(Any, cloudpickle).dumps(read_entry),
            "plans": self._plans,
        }
        cast(Any, self._spark).dataSource.register(type(name, (_PlanSource,), body))
        return self._spark.readStream.format(name).load()

    def _prime(self, start: int, newest: int) -> None:
        # Spark takes its offset from its log and requests the missing plans. Unreadable entries
        # must fail now and not in the middle of the first micro-batch.
        for plan in range(start + 1, newest + 1):
            self._plans.entries(plan)

    def feed(self, plan: int, entries: Sequence[str]) -> None:
        """Do nothing, since the stream reader polls for plans."""


def _format_name(pipeline_id: str, what: str) -> str:
    # Spark ignores case in names, and uids may contain any character: the digest makes the name
    # unique.
    digest = hashlib.sha256(f"{pipeline_id}\n{what}".encode()).hexdigest()[:_ID_LENGTH]
    return "_".join(("connectors", digest, re.sub(r"\W", "_", what)))


class _EntryPartition(InputPartition):  # type: ignore[misc, unused-ignore]
    def __init__(self, entry: str) -> None:
        super().__init__(None)
        self.entry = entry


class _PlanSource(DataSource):  # type: ignore[misc, unused-ignore]
    """The base of the class that `NativeCarrier` creates for each source."""

    format_name: ClassVar[str]
    uid: ClassVar[str]
    row_type: ClassVar[StructType]
    read_entry: ClassVar[bytes]
    plans: ClassVar[PlanFeed]

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def schema(self) -> StructType:
        return self.row_type

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _PlanReader(self.uid, self.plans, self.read_entry)


class _PlanReader(DataSourceStreamReader):  # type: ignore[misc, unused-ignore]
    def __init__(self, uid: str, plans: PlanFeed, read_entry: bytes) -> None:
        self._uid = uid
        self._plans = plans
        self._read_entry = read_entry

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._offset(self._plans.initial())

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        return self._offset(self._plans.newest_after(self._plan(start)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        plans = range(self._plan(start) + 1, self._plan(end) + 1)
        return [_EntryPartition(entry) for plan in plans for entry in self._plans.entries(plan)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        read_entry: ReadEntry = pickle.loads(self._read_entry)
        return read_entry(cast(_EntryPartition, partition).entry)

    def _offset(self, plan: int) -> dict[str, Any]:
        return {"uid": self._uid, "plan": plan}

    def _plan(self, offset: dict[str, Any]) -> int:
        if offset["uid"] != self._uid:
            raise StateCorruptedError(
                "Spark's offset log gives this source the offset of another source",
                expected=self._uid,
                found=offset["uid"],
                hint="keep the original order of the sources in the query",
            )
        return int(offset["plan"])
