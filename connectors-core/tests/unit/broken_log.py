# SPDX-License-Identifier: Apache-2.0
"""Broken readers and enumerators that the source suite and the unit suites must detect."""

from __future__ import annotations

from toy_connector import LogEnumerator, LogReader, LogState


class RefusesASecondClose:
    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class ClosesItsClient:
    def start(self):
        self.client = object()
        super().start()

    def close(self):
        self.client = self.client


class SwallowsPoison(LogReader):
    def bad(self, split, position, line, error):
        pass


class RaisesPoison(LogReader):
    def bad(self, split, position, line, error):
        raise RuntimeError("a line cannot be read") from error


class PlacesABadRecordInItsBatch(LogReader):
    def bad(self, split, position, line, error):
        super().bad(split, position - split.position, line, error)


class ForgetsWhatWaits(LogEnumerator):
    def snapshot_state(self, checkpoint_id):
        return LogState((), tuple(sorted(self.known)))


class NeverSaysNoMore(LogEnumerator):
    def assign(self):
        for subtask in sorted(self.asking):
            if self.waiting:
                self.context.assign_split(self.waiting.pop(0), subtask)
                self.asking.discard(subtask)


class DropsWhatComesBack(LogEnumerator):
    def add_splits_back(self, splits, subtask_id):
        pass


class DoesNotFreeze(LogEnumerator):
    def freeze_end(self):
        pass


class FindsMoreBehindTheEnd(LogEnumerator):
    def start(self):
        if self.bounded:
            self.found(self.discover(), None)
        else:
            super().start()
