# SPDX-License-Identifier: Apache-2.0
"""Reads Spark's logs in the checkpoint of a streaming query."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from connectors_core.engine.coordinator.identity import uids_of
from connectors_core.engine.coordinator.spark_offsets import corrupted_log, logged_offsets
from connectors_core.spark.carriers.base import BEFORE_FIRST, Resume
from connectors_core.spark.internals.hadoop_folder import HadoopFolder

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
        self._checkpoint = checkpoint
        self._folder = HadoopFolder(spark, checkpoint)
        self._last_read: tuple[int, str] | None = None

    def query_id(self) -> str | None:
        """Return Spark's id of the query, or None before its first start."""
        text = self._folder.read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def write_query_id(self, query_id: str) -> None:
        """Write the id of the query before its first start, as Spark would, if it has none.

        The pipeline can then record the id before Spark starts.
        """
        if self.query_id() is not None:
            return
        temporary = f".metadata.{query_id}.tmp"
        self._folder.write(temporary, json.dumps({"id": query_id}).encode())
        self._folder.rename(temporary, "metadata")

    def has_state(self) -> bool:
        """Return whether the query keeps state: joins, aggregations, deduplication."""
        return self._folder.exists("state")

    def last_logged_batch(self) -> int:
        """Return the newest micro-batch with logged offsets, or -1."""
        return self._newest("offsets")

    def last_committed_batch(self) -> int:
        """Return the newest micro-batch that Spark has finished, or -1."""
        return self._newest("commits")

    def is_committed(self, batch_id: int) -> bool:
        """Return whether Spark has finished a micro-batch; faster than a listing.

        Args:
            batch_id: The batch.
        """
        return self._folder.exists(f"commits/{batch_id}")

    def offsets(self, batch_id: int, sources: Sequence[str]) -> dict[str, int | None]:
        """Return the last plan that a micro-batch reads, by source.

        Args:
            batch_id: A batch in Spark's offset log.
            sources: The streams of the query, as in `QueryIdentity`.

        Returns:
            The plan number of each source, or None if Spark did not know a plan yet.

        Raises:
            StateCorruptedError: The log has no such batch, or the batch has other sources.
        """
        name = f"offsets/{batch_id}"
        if self._last_read is None or self._last_read[0] != batch_id:
            text = self._folder.read(name)
            if text is None:
                raise corrupted_log(
                    f"{self._checkpoint}/{name}", "a micro-batch's offsets", "no such file"
                )
            self._last_read = batch_id, text
        return logged_offsets(self._last_read[1], sources, f"{self._checkpoint}/{name}")

    def plans_of(
        self, batch_id: int, sources: Sequence[str], initial: int = BEFORE_FIRST
    ) -> dict[str, range]:
        """Return the plans that a micro-batch reads.

        Each call per micro-batch reads one small file, since it keeps the offsets of the previous
        batch.

        Args:
            batch_id: A batch in Spark's offset log.
            sources: The streams of the query, as in `QueryIdentity`.
            initial: The plan before the first plan of this Spark checkpoint.

        Returns:
            The plan numbers of each source; an empty range in a micro-batch that only moves the
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
        """Return the position from which Spark will resume at the next start.

        Spark runs the newest micro-batch of its offset log again unless its commit log contains it.
        Spark never reads older micro-batches.

        Args:
            sources: The streams of the query, as in `QueryIdentity`.
            initial: The plan before the first plan of this Spark checkpoint.
        """
        logged = self.last_logged_batch()
        if logged < 0:
            return dict.fromkeys(uids_of(sources), Resume(initial, initial))
        done = self.is_committed(logged)
        return {
            uid: Resume(plan.stop - 1 if done else plan.start - 1, plan.stop - 1)
            for uid, plan in self.plans_of(logged, sources, initial).items()
        }

    def _newest(self, name: str) -> int:
        batches = map(int, _BATCH_FILE.findall(self._folder.listing(name)))
        return max(batches, default=BEFORE_FIRST)
