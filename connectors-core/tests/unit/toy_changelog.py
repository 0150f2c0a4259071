# SPDX-License-Identifier: Apache-2.0
"""A correct table of changes in a folder, and broken ones with the case that must detect each."""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import FatalError
from connectors_core.schema import ROW_KIND_COLUMN, RowKind
from connectors_core.schema.row_kinds import is_unknown_row_kind
from connectors_core.source import DataGeneratorSource
from connectors_core.testing import (
    CHANGES,
    Capabilities,
    Capability,
    ChangelogExternalContext,
    ChangelogTestSuite,
    DirectorySink,
)
from connectors_core.testing.changelog_suite import table_after
from connectors_core.testing.directory_sink import DirectoryWriter


class ChangesSink(DirectorySink):
    """Keeps all changes, which are applied when the table is read."""

    def __init__(self, path, written):
        super().__init__(path)
        self.written = written

    def create_writer(self, context):
        return _Writer(self.path, context, self.written)


class _Writer(DirectoryWriter):
    def __init__(self, path, context, written):
        super().__init__(path, context)
        self._written = written

    def write(self, batch):
        super().write(self._written(batch))


class Changes(ChangelogExternalContext):
    """A folder with the changes of one case."""

    def __init__(self, folder):
        self._folder = folder
        self._sinks = []

    # What broken ones replace.

    @staticmethod
    def written(batch):
        """Return what a writer stores."""
        if ROW_KIND_COLUMN in batch.schema.names:
            unknown = batch.filter(is_unknown_row_kind(batch.column(ROW_KIND_COLUMN)))
            if unknown.num_rows:
                raise FatalError(f"{ROW_KIND_COLUMN} is not a kind of change")
        return batch

    def applied(self, changes):
        """Return the rows that changes leave."""
        return list(table_after(changes).values())

    @staticmethod
    def emitted(changes):
        """Return what the source emits."""
        return changes

    # What the suite asks for.

    def create_sink(self):
        number = len(self._sinks)
        self._sinks.append(ChangesSink(self._folder / str(number), self.written))
        return self._sinks[-1]

    def read_back(self):
        rows = [row for sink in self._sinks for row in sink.read().to_pylist()]
        changes = [
            (row.get(ROW_KIND_COLUMN, "+I"), row["id"], row["text"], row["version"]) for row in rows
        ]
        found = [dict(zip(CHANGES.names, row, strict=False)) for row in self.applied(changes)]
        return pa.Table.from_pylist(found)

    def create_source(self, changes):
        rows = self.emitted(changes)
        return DataGeneratorSource(
            functools.partial(_taken, rows), rows.num_rows, rows.schema, batch_rows=5
        )


def _taken(rows, numbers):
    (batch,) = rows.take(numbers).combine_chunks().to_batches()
    return batch


def _without(batch, *kinds):
    if ROW_KIND_COLUMN not in batch.schema.names:
        return batch
    values = pa.array([each.value for each in kinds])
    return batch.filter(pc.invert(pc.is_in(batch.column(ROW_KIND_COLUMN), value_set=values)))


class ChangesSuite(ChangelogTestSuite):
    written_for = "1.5"
    capabilities = Capabilities(
        can=frozenset({Capability.CHANGELOG_SINK, Capability.CHANGELOG_SOURCE})
    )

    def external_context(self, folder):
        return Changes(folder)


# --- Broken sinks --------------------------------------------------------------------------------


class IgnoresDeletions(Changes):
    seen_by = "test_changes_become_their_table"

    @staticmethod
    def written(batch):
        return _without(Changes.written(batch), RowKind.DELETE)


class WritesTheKind(Changes):
    seen_by = "test_changes_become_their_table"

    def read_back(self):
        found = super().read_back()
        return found.append_column(ROW_KIND_COLUMN, pa.array(["+I"] * found.num_rows))


class KeepsOldVersions(Changes):
    seen_by = "test_changes_become_their_table"

    def applied(self, changes):
        rows = []
        for kind, *row in changes:
            if kind in ("+I", "+U"):
                rows.append(row)
            elif kind == "-D":
                rows = [each for each in rows if each[0] != row[0]]
        return rows


class ForgetsDeletedRowsForGood(Changes):
    seen_by = "test_the_last_change_of_a_row_counts"

    def applied(self, changes):
        gone = {key for kind, key, *_ in changes if kind == "-D"}
        return [row for row in super().applied(changes) if row[0] not in gone or len(changes) > 20]


class LeavesOutPreviousVersions(Changes):
    seen_by = "test_a_previous_version_alone_is_a_deletion"

    def applied(self, changes):
        after = [each for each in changes if each[0] != "-U"]
        keys = {key for _, key, *_ in changes}
        return super().applied(changes if 5 in keys else after)


class UpdatesInPlace(Changes):
    seen_by = "test_an_update_of_the_key_moves_the_row"

    def applied(self, changes):
        moved = []
        for number, change in enumerate(changes):
            following = changes[number + 1] if number + 1 < len(changes) else None
            paired = following is not None and following[0] == "+U"
            if change[0] != "-U" or not paired:
                moved.append(change)
        return super().applied(moved)


class FailsOnAbsentRows(Changes):
    seen_by = "test_the_deletion_of_an_absent_row_changes_nothing"

    def applied(self, changes):
        seen = set()
        for kind, key, *_ in changes:
            if kind == "-D" and key not in seen:
                raise KeyError(key)
            seen.add(key)
        return super().applied(changes)


class NeedsAKind(Changes):
    seen_by = "test_rows_without_a_kind_replace_each_other"

    @staticmethod
    def written(batch):
        assert ROW_KIND_COLUMN in batch.schema.names
        return Changes.written(batch)


class AcceptsAnyKind(Changes):
    seen_by = "test_an_unknown_kind_is_refused"

    @staticmethod
    def written(batch):
        return batch


class RefusesKindsWithoutTheColumn(Changes):
    seen_by = "test_an_unknown_kind_is_refused"

    @staticmethod
    def written(batch):
        try:
            return Changes.written(batch)
        except FatalError:
            raise ValueError("a record is wrong") from None


# --- Broken sources ------------------------------------------------------------------------------


class EmitsNoDeletions(Changes):
    seen_by = "test_changes_are_read_as_they_were_written"

    @staticmethod
    def emitted(changes):
        return _without(changes, RowKind.DELETE)


class EmitsNoFormerKeys(Changes):
    seen_by = "test_a_row_with_another_key_leaves_its_former_one"

    @staticmethod
    def emitted(changes):
        return _without(changes, RowKind.UPDATE_BEFORE)


class EmitsPreviousVersionsLast(Changes):
    seen_by = "test_changes_are_read_as_they_were_written"

    @staticmethod
    def emitted(changes):
        rows = changes.to_pylist()
        return pa.Table.from_pylist(
            sorted(rows, key=lambda row: row[ROW_KIND_COLUMN] == "-U"), CHANGES
        )


class EmitsEveryRowAsInserted(Changes):
    seen_by = "test_changes_are_read_as_they_were_written"

    @staticmethod
    def emitted(changes):
        kinds = ["+I" if kind == "+U" else kind for kind in changes[ROW_KIND_COLUMN].to_pylist()]
        return changes.set_column(3, CHANGES.field(ROW_KIND_COLUMN), pa.array(kinds))


class LosesTheNullsOfPreviousVersions(Changes):
    seen_by = "test_changes_are_read_as_they_were_written"

    @staticmethod
    def emitted(changes):
        texts = pc.fill_null(changes["text"], "")
        return changes.set_column(1, CHANGES.field("text"), texts)


BROKEN = {
    each.__name__: each
    for each in list(globals().values())
    if isinstance(each, type) and hasattr(each, "seen_by")
}


def broken_suite(name):
    """Create a suite for broken changes."""

    def external_context(self, folder):
        return BROKEN[name](folder)

    return type(f"Test{name}", (ChangesSuite,), {"external_context": external_context})
