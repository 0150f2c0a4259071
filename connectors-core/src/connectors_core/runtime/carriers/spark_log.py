# SPDX-License-Identifier: Apache-2.0
"""Reads the logs that Spark keeps in the checkpoint of a streaming query.

They are read through the JVM's Hadoop FileSystem, so every URL works that Spark takes as a
checkpoint. Listings are turned into one string in the JVM: a call through py4j per file would take
longer than the micro-batch.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from connectors_core.errors import StateCorruptedError
from connectors_core.runtime.carriers.base import BEFORE_FIRST, Resume

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_FILE: Final = re.compile(r"/(\d+)(?=[,)])")
_NO_OFFSET: Final = "-"
_VERSIONS: Final = ("v1", "v2")


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
        self._files = self._root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        self._last_read: tuple[int, list[int | None]] | None = None

    def query_id(self) -> str | None:
        """Return Spark's id of the query, or None before its first start."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def last_logged_batch(self) -> int:
        """Return the newest batch whose offsets are fixed, or -1."""
        return self._newest("offsets")

    def last_committed_batch(self) -> int:
        """Return the newest batch that Spark has finished, or -1."""
        return self._newest("commits")

    def offsets(self, batch_id: int) -> list[int | None]:
        """Return the plan numbers up to which a batch reads.

        Args:
            batch_id: A batch in Spark's offset log.

        Returns:
            For every line of the log, in the order of `sources_of`, the plan number, or None
            where no plan had been made known to Spark.

        Raises:
            StateCorruptedError: The log has no such batch, or it is not one of ours.
        """
        if self._last_read is not None and self._last_read[0] == batch_id:
            return list(self._last_read[1])
        name = f"offsets/{batch_id}"
        text = self._read(name)
        if text is None:
            raise self._corrupted(name, "the offsets of the batch", "no such file")
        version, _metadata, *lines = text.split("\n")
        if version not in _VERSIONS:
            raise self._corrupted(name, " or ".join(_VERSIONS), version)
        if version == "v2":
            lines = self._in_order(name, lines)
        found = [self._plan(name, line) for line in lines]
        self._last_read = batch_id, found
        return list(found)

    def plans_of(self, batch_id: int, initial: int = BEFORE_FIRST) -> list[range]:
        """Return the plans that a batch reads.

        Args:
            batch_id: A batch in Spark's offset log.
            initial: The plan before the first one of this Spark checkpoint.

        Returns:
            For every line of the log the numbers of the plans; empty ranges in a batch that only
            moves the watermark.
        """
        before: list[int | None] = []
        if batch_id > 0:
            before = self.offsets(batch_id - 1)
        after = self.offsets(batch_id)
        starts = [initial if plan is None else plan for plan in before or [None] * len(after)]
        ends = [initial if plan is None else plan for plan in after]
        return [range(start + 1, end + 1) for start, end in zip(starts, ends, strict=True)]

    def resume(self, initial: int = BEFORE_FIRST) -> list[Resume]:
        """Return where Spark will go on at the next start.

        Spark runs the newest batch of its offset log again unless that very batch is in its commit
        log; older ones it never looks at.

        Args:
            initial: The plan before the first one of this Spark checkpoint.

        Returns:
            One element for every line of the log; empty before the first batch.
        """
        logged = self.last_logged_batch()
        if logged < 0:
            return []
        plans = self.plans_of(logged, initial)
        if self.last_committed_batch() >= logged:
            return [Resume(plan.stop - 1, plan.stop - 1) for plan in plans]
        return [Resume(plan.start - 1, plan.stop - 1) for plan in plans]

    def _plan(self, name: str, line: str) -> int | None:
        if line == _NO_OFFSET:
            return None
        try:
            offset = json.loads(line)
            return int(offset["plan"] if isinstance(offset, dict) else offset)
        except (ValueError, KeyError, TypeError) as error:
            raise self._corrupted(name, "a plan number in each line", line) from error

    def _in_order(self, name: str, lines: list[str]) -> list[str]:
        """Bring the lines `<number of the source>:<offset>` of a v2 log into the order of sources."""
        numbered: dict[int, str] = {}
        for line in lines:
            number, colon, offset = line.partition(":")
            if not colon or not number.isdigit():
                raise self._corrupted(name, "<number>:<offset> in each line", line)
            numbered[int(number)] = offset
        return [numbered[number] for number in sorted(numbered)]

    def _corrupted(self, name: str, expected: str, found: str) -> StateCorruptedError:
        return StateCorruptedError(
            f"cannot use {self._checkpoint}/{name}",
            expected=expected,
            found=found,
            hint="the checkpoint must belong to this pipeline and be complete",
        )

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
