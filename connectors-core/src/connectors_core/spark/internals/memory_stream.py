# SPDX-License-Identifier: Apache-2.0
"""The JVM's `MemoryStream`: a plan is one `addData`, so its offset is the plan number.

`verify_contract` checks the class of the current session.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from connectors_core.errors import StateCorruptedError, UnsupportedError
from connectors_core.spark.internals.sessions import is_classic, java_session, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The package of MemoryStream and LongOffset: in Spark 4.1 and newer, and in older lines.
_PACKAGES: Final = (
    "org.apache.spark.sql.execution.streaming.runtime",
    "org.apache.spark.sql.execution.streaming",
)
# MemoryStream is a case class: two streams with the same number are equal, and one query would
# confuse their offsets.
_numbers = itertools.count(1_000_000)
_verified: set[str] = set()


class EntryStream:
    """A MemoryStream of strings.

    Args:
        spark: A classic session.
        partitions: Maximum number of partitions of a micro-batch.
    """

    def __init__(self, spark: SparkSession, partitions: int) -> None:
        self._spark = spark
        self._jvm: Any = jvm_of(spark)
        package = _package(self._jvm)
        self._long_offset = package.LongOffset
        session = java_session(spark)
        if _takes_sql_context(self._jvm, package):
            session = session.sqlContext()
        encoder = self._jvm.org.apache.spark.sql.Encoders.STRING()
        some = self._jvm.scala.Some(partitions)
        self.java = package.MemoryStream(next(_numbers), session, some, encoder)
        self.seal()

    def dataframe(self) -> DataFrame:
        """Return a streaming DataFrame of the entries."""
        from pyspark.sql import DataFrame

        return cast(DataFrame, cast(Any, DataFrame)(self.java.toDF(), self._spark))

    def seal(self) -> None:
        """Drop all plans, so that Spark fails when it requests an offset.

        A stream that does not know Spark's position would return a micro-batch without rows. Spark
        would commit it and silently lose rows. Without offsets, this cannot happen.
        """
        self.java.reset()
        getattr(self.java, "currentOffset_$eq")(None)
        getattr(self.java, "lastOffsetCommitted_$eq")(None)

    def reset(self, start: int) -> None:
        """Drop all plans and continue after `start`."""
        self.java.reset()
        offset = self._long_offset(start)
        getattr(self.java, "currentOffset_$eq")(offset)
        getattr(self.java, "lastOffsetCommitted_$eq")(offset)

    def add(self, entries: Sequence[str]) -> None:
        """Add the entries of the next plan."""
        rows = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(entries))
        self.java.addData(rows)

    def commit(self, number: int) -> None:
        """Drop the plans up to this one."""
        self.java.commit(self._long_offset(number))

    def newest(self) -> int:
        """Return the number of the newest plan."""
        offset = self.java.currentOffset()
        if offset is None:
            raise StateCorruptedError(
                "a plan was fed before restore", hint="this is a bug in the library: report it"
            )
        return int(offset.offset())

    def fed(self) -> tuple[int, int]:
        """Return the offset before the first held plan, and that of the newest plan."""
        newest = self.newest()
        return newest - int(self.java.batches().size()), newest

    def partition_sizes(self, start: int, end: int) -> list[int]:
        """Return the number of entries in each partition of a micro-batch."""
        offsets = self._long_offset(start), self._long_offset(end)
        return [len(part.records()) for part in self.java.planInputPartitions(*offsets)]


def verify_contract(spark: SparkSession) -> None:
    """Check that the session has a `MemoryStream` that this module supports.

    Args:
        spark: The session; checked once per application.

    Raises:
        UnsupportedError: The `MemoryStream` differs; names the difference.
    """
    if not is_classic(spark):
        raise UnsupportedError(
            "a Pipeline needs a classic Spark session, but this one has no JVM",
            expected="SparkSession.builder.master(...)",
            found=type(spark).__module__,
            hint="with Spark Connect, use the format name of the connector on Spark 4",
        )
    application = spark.sparkContext.applicationId
    if application in _verified:
        return
    try:
        found = _contract(spark)
    except UnsupportedError:
        raise
    except Exception as error:
        raise _contract_error(spark, "a usable MemoryStream", repr(error)) from error
    expected = {
        "offset before the first plan": [-1],
        "offset after a plan of two entries and one of none": [0, 1],
        "partition sizes of the first plan": [1, 1, 0],
        "partition sizes of the second plan": [0, 0, 0],
        "range held after a restart after plan 6 and two plans": [6, 8],
        "partition sizes of plan 8": [1, 0, 0],
        "range held after plan 7 is committed": [7, 8],
    }
    for what, value in expected.items():
        if found[what] != value:
            raise _contract_error(spark, f"{what}: {value}", str(found[what]))
    _verified.add(application)


def _contract(spark: SparkSession) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    stream = EntryStream(spark, 3)
    stream.reset(-1)
    found["offset before the first plan"] = [stream.newest()]
    offsets = found["offset after a plan of two entries and one of none"] = []
    stream.add(["a", "b"])
    offsets.append(stream.newest())
    stream.add([])
    offsets.append(stream.newest())
    found["partition sizes of the first plan"] = stream.partition_sizes(-1, 0)
    found["partition sizes of the second plan"] = stream.partition_sizes(0, 1)
    stream.reset(6)
    stream.add(["a", "b"])
    stream.add(["c"])
    found["range held after a restart after plan 6 and two plans"] = list(stream.fed())
    found["partition sizes of plan 8"] = stream.partition_sizes(7, 8)
    stream.commit(7)
    found["range held after plan 7 is committed"] = list(stream.fed())
    return found


def _contract_error(spark: SparkSession, expected: str, found: str) -> UnsupportedError:
    return UnsupportedError(
        f"the MemoryStream of this Spark ({spark.version}) is not supported",
        expected=expected,
        found=found,
        hint="use a Spark release in the compatibility matrix",
    )


def _package(jvm: Any) -> Any:
    for name in _PACKAGES:
        package = jvm
        for part in name.split("."):
            package = getattr(package, part)
        # py4j returns a package, not an error, if the class does not exist.
        if type(package.MemoryStream).__name__ == "JavaClass":
            return package
    raise UnsupportedError(
        "this Spark has no MemoryStream",
        expected=" or ".join(_PACKAGES),
        found="neither",
        hint="use a Spark release in the compatibility matrix",
    )


def _takes_sql_context(jvm: Any, package: Any) -> bool:
    name = package.MemoryStream._fqn
    constructor = jvm.org.apache.spark.util.Utils.classForName(name, True, True).getConstructors()[
        0
    ]
    return bool(constructor.getParameterTypes()[1].getSimpleName() == "SQLContext")
