# SPDX-License-Identifier: Apache-2.0
"""Broken readers of values that do not fit their types, which the source suite must detect."""

from __future__ import annotations

from toy_connector import LogReader


class ReadsMisfitsAsNull(LogReader):
    def misfit(self, row, field):
        return row | {field.name: None}


class ReadsMisfitsInStructsAsNull(LogReader):
    """Has a null for a text in a struct, as if the server had left out the value."""

    def misfit(self, row, field):
        found = row[field.name]
        if not isinstance(found, dict):
            return super().misfit(row, field)
        return row | {field.name: dict.fromkeys(found)}


class DropsMisfitsInLists(LogReader):
    def misfit(self, row, field):
        found = row[field.name]
        if not isinstance(found, list) or "no" not in found:
            return super().misfit(row, field)
        return row | {field.name: [each for each in found if each != "no"]}


class CutsFractions(LogReader):
    def misfit(self, row, field):
        if not isinstance(row[field.name], float):
            return super().misfit(row, field)
        return row | {field.name: int(row[field.name])}


class SkipsMisfits(LogReader):
    """Leaves out the record without a report."""

    def bad(self, split, position, line, error):
        if "is no" not in str(error):
            super().bad(split, position, line, error)


class TellsNoColumnOfAMisfit(LogReader):
    def misfit(self, row, field):
        raise ValueError("a value does not fit its column")
