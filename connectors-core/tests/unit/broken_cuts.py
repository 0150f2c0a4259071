# SPDX-License-Identifier: Apache-2.0
"""Broken readers that hide that a split has lost its end, each in runs of one kind."""

from __future__ import annotations

from dataclasses import replace

from toy_connector import LogReader

from connectors_core.source import Boundedness


class WaitsForLostRows(LogReader):
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def cut(self, split, size):
        if self.source.boundedness() is not self.boundedness:
            return super().cut(split, size)
        return self.instead(split, size)

    def instead(self, split, size):
        return replace(split, end=split.position + 1)


class EndsACutSplit(WaitsForLostRows):
    def instead(self, split, size):
        return replace(split, end=split.position)


class ReadsACutSplitAgain(WaitsForLostRows):
    def instead(self, split, size):
        return replace(split, position=0, end=size)


class WaitsForLostRowsOfABoundedSplit(WaitsForLostRows):
    boundedness = Boundedness.BOUNDED


class EndsACutBoundedSplit(EndsACutSplit):
    boundedness = Boundedness.BOUNDED


class ReadsACutBoundedSplitAgain(ReadsACutSplitAgain):
    boundedness = Boundedness.BOUNDED
