# SPDX-License-Identifier: Apache-2.0
"""Reads the logs that Spark keeps in the checkpoint of a streaming query.

They are read through the JVM's Hadoop FileSystem, so every URL works that Spark takes as a
checkpoint. Listings are turned into one string in the JVM: a call through py4j per file would take
longer than the micro-batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from connectors_core.engine.coordinator.spark_offsets import corrupted_log, logged_offsets
from connectors_core.spark.carriers.base import BEFORE_FIRST, Resume

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_FILE: Final = re.compile(r"/(\d+)(?=[,)])")


class SparkLog:
    """The logs of one streaming query.

    Args:
        spark: A classic session.
        checkpoint: The checkpoint location as given to Spark.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        session = cast(Any, spark)
        jvm = session._jvm
        # Looked up once: py4j asks the JVM for every part of a dotted name.
        self._new_path: Any = jvm.org.apache.hadoop.fs.Path
        self._to_paths: Any = jvm.org.apache.hadoop.fs.FileUtil.stat2Paths
        self._to_text: Any = jvm.org.apache.commons.io.IOUtils.toString
        self._show: Any = jvm.scala.runtime.ScalaRunTime.stringOf
        self._checkpoint = checkpoint
        self._root = self._new_path(checkpoint)
        self._files = self._root.getFileSystem(
            session._jsparkSession.sessionState().newHadoopConf()
        )
        self._last_read: tuple[int, str] | None = None

    def query_id(self) -> str | None:
        """Return Spark's id of the query, or None before its first start."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def write_query_id(self, query_id: str) -> None:
        """Give the query its id before its first start, as Spark would; nothing where it has one.

        So the id can be recorded with the pipeline before Spark has begun.
        """
        if self.query_id() is not None:
            return
        temporary = self._path(f".metadata.{query_id}.tmp")
        stream = self._files.create(temporary, True)
        try:
            stream.write(bytearray(json.dumps({"id": query_id}).encode()))
        finally:
            stream.close()
        self._files.rename(temporary, self._path("metadata"))

    def has_state(self) -> bool:
        """Return whether the query keeps state: joins, aggregations, deduplication."""
        return bool(self._files.exists(self._path("state")))

    def last_logged_batch(self) -> int:
        """Return the newest batch whose offsets are fixed, or -1."""
        return self._newest("offsets")

    def last_committed_batch(self) -> int:
        """Return the newest batch that Spark has finished, or -1."""
        return self._newest("commits")

    def is_committed(self, batch_id: int) -> bool:
        """Return whether Spark has finished a batch; faster than a listing.

        Args:
            batch_id: The batch.
        """
        return bool(self._files.exists(self._path(f"commits/{batch_id}")))

    def offsets(self, batch_id: int, sources: Sequence[str]) -> dict[str, int | None]:
        """Return the plan numbers up to which a batch reads.

        Args:
            batch_id: A batch in Spark's offset log.
            sources: What `sources_of` says of the DataFrame of the query.

        Returns:
            For every source the plan number, or None where no plan had been made known to Spark.

        Raises:
            StateCorruptedError: The log has no such batch, or it is not of these sources.
        """
        name = f"offsets/{batch_id}"
        if self._last_read is None or self._last_read[0] != batch_id:
            text = self._read(name)
            if text is None:
                raise corrupted_log(
                    f"{self._checkpoint}/{name}", "a batch's offsets", "no such file"
                )
            self._last_read = batch_id, text
        return logged_offsets(self._last_read[1], sources, f"{self._checkpoint}/{name}")

    def plans_of(
        self, batch_id: int, sources: Sequence[str], initial: int = BEFORE_FIRST
    ) -> dict[str, range]:
        """Return the plans that a batch reads.

        Called once per micro-batch, it reads one small file: the offsets of the batch before are
        kept from the call before.

        Args:
            batch_id: A batch in Spark's offset log.
            sources: What `sources_of` says of the DataFrame of the query.
            initial: The plan before the first one of this Spark checkpoint.

        Returns:
            For every source the numbers of the plans; empty ranges in a batch that only moves the
            watermark.
        """
        before = self.offsets(batch_id - 1, sources) if batch_id > 0 else {}
        plans = {}
        for uid, end in self.offsets(batch_id, sources).items():
            start = before.get(uid)
            start = initial if start is None else start
            plans[uid] = range(start + 1, (initial if end is None else end) + 1)
        return plans

    def resume(self, sources: Sequence[str], initial: int = BEFORE_FIRST) -> dict[str, Resume]:
        """Return where Spark will go on at the next start.

        Spark runs the newest batch of its offset log again unless that very batch is in its commit
        log; older ones it never looks at.

        Args:
            sources: What `sources_of` says of the DataFrame of the query.
            initial: The plan before the first one of this Spark checkpoint.
        """
        logged = self.last_logged_batch()
        if logged < 0:
            return {uid: Resume(initial, initial) for uid in sources}
        done = self.is_committed(logged)
        return {
            uid: Resume(plan.stop - 1 if done else plan.start - 1, plan.stop - 1)
            for uid, plan in self.plans_of(logged, sources, initial).items()
        }

    def _path(self, name: str) -> Any:
        return self._new_path(self._root, name)

    def _read(self, name: str) -> str | None:
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._files.open(self._path(name))
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        try:
            return str(self._to_text(stream, "UTF-8"))
        finally:
            stream.close()

    def _newest(self, name: str) -> int:
        from py4j.protocol import Py4JJavaError

        try:
            statuses = self._files.listStatus(self._path(name))
        except Py4JJavaError as error:
            if _is_missing(error):
                return BEFORE_FIRST
            raise
        listing = str(self._show(self._to_paths(statuses)))
        return max(map(int, _BATCH_FILE.findall(listing)), default=BEFORE_FIRST)


def _is_missing(error: Any) -> bool:
    kind = error.java_exception.getClass().getSimpleName()
    return kind in ("FileNotFoundException", "NoSuchFileException")
