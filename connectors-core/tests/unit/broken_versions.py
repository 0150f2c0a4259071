# SPDX-License-Identifier: Apache-2.0
"""Broken sources of batch runs that take other input for the same, or the same for another."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path

from toy_connector import LogEnumerator, LogSource

from connectors_core.errors import FatalError


class NamesNewVersions(LogEnumerator):
    def version(self, name):
        return uuid.uuid4().hex


class NamesNoVersions(LogEnumerator):
    """Knows the sizes of files only."""

    def version(self, name):
        return ""


class HidesItsVersions(LogSource):
    def input_version(self, splits):
        return None


class RemembersItsFirstInput(LogEnumerator):
    """Until an epoch of a stream is committed. A batch run never says so."""

    def discover(self):
        found = super().discover()
        return self.used(self.first("names", found), found) if self.bounded else found

    def first(self, name, value):
        """Return the first value under this name."""
        file = Path(self.source.folder) / f".{name}.json"
        if not file.exists():
            file.write_text(json.dumps(value))
        return json.loads(file.read_text())

    def notify_checkpoint_complete(self, checkpoint_id):
        for file in Path(self.source.folder).glob(".*.json"):
            file.unlink()


class ReadsItsFirstInputAgain(RemembersItsFirstInput):
    def used(self, first, found):
        return first


class RefusesNewInput(RemembersItsFirstInput):
    def used(self, first, found):
        if first != found:
            raise FatalError("the input has changed", expected=str(first), found=str(found))
        return found


class KeepsItsEnds(RemembersItsFirstInput):
    def used(self, first, found):
        return found

    def split_of(self, name):
        split = super().split_of(name)
        if not self.bounded:
            return split
        end, version = self.first(name, [split.end, split.version])
        return split if split.end == end else replace(split, end=end, version=version)
