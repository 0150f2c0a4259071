# SPDX-License-Identifier: Apache-2.0
"""Broken readers that skip a split that cannot be read, and hide it or stop after it."""

from __future__ import annotations

import logging
from pathlib import Path

from toy_connector import LogReader, LogSource

from connectors_core.errors import FatalError
from connectors_core.metrics import SourceMetric
from connectors_core.records import BadRecord
from connectors_core.source import SplitTraits

_LOGGER = logging.getLogger(__name__)


class _Skips(LogReader):
    def skip(self, split):
        self.log(split)
        self.count()
        self.report(split)

    def log(self, split):
        _LOGGER.warning("%s is skipped", split.split_id)

    def count(self):
        self.context.metric_group.inc(SourceMetric.UNREADABLE_SPLITS)

    def report(self, split):
        record = BadRecord(reason="spoiled", source_uid="", split_id=split.split_id, position="")
        self.context.record_errors.drop(record)


class SkipsWithoutADeadLetter(_Skips):
    def report(self, split):
        pass


class SkipsWithoutAMetric(_Skips):
    def count(self):
        pass


class SkipsWithoutALine(_Skips):
    def log(self, split):
        pass


class SaysThatItFails(LogSource):
    def split_traits(self):
        bounded = super().split_traits().end
        return SplitTraits(end=bounded, ordered=bounded)


class FailsWhereItHasRead(LogReader):
    """Skips a spoiled split, but not one that it has read before."""

    def begun(self, split):
        read = Path(self.source.folder) / f".{split.split_id}"
        if self.source.skips and self.spoiled(split) and read.exists():
            raise FatalError("the file is spoiled")
        read.touch()
        return super().begun(split)
