# SPDX-License-Identifier: Apache-2.0
"""Broken readers of values that do not fit their types, which the source suite must detect."""

from __future__ import annotations

from toy_connector import LogReader

from connectors_core.errors import FatalError
from connectors_core.records import BadRecord
from connectors_core.testing.data_types import MISFIT_TEXT


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
        if not isinstance(found, list) or MISFIT_TEXT not in found:
            return super().misfit(row, field)
        return row | {field.name: [each for each in found if each != MISFIT_TEXT]}


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


class NamesTheValueOfAMisfit(LogReader):
    def misfit(self, row, field):
        raise ValueError(f"the value {row[field.name]!r} of {field.name} is no {field.type}")


class NamesTheRecordOfAMisfit(LogReader):
    def bad(self, split, position, line, error):
        super().bad(split, position, line, ValueError(f"{error}: {line.decode()}"))


class ShowsTheMisfitInTheCause(LogReader):
    """Passes on an error of its client, which quotes the value."""

    def bad(self, split, position, line, error):
        cause = FatalError(f"the client cannot read {line.decode()}")
        cause.__cause__ = error
        self.context.record_errors.handle(
            BadRecord(
                reason=str(error),
                source_uid="",
                split_id=split.split_id,
                position=f"byte {position}",
                raw=line,
            ),
            cause=cause,
        )
