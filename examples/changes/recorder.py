# SPDX-License-Identifier: Apache-2.0
"""Records the changes of a table in SQLite, as Debezium does for larger databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_LOG = "recorded_changes"
_CHANGES = {
    "INSERT": ("c", "NULL", "NEW"),
    "UPDATE": ("u", "OLD", "NEW"),
    "DELETE": ("d", "OLD", "NULL"),
}


@dataclass(frozen=True)
class Change:
    """A recorded change.

    Attributes:
        number: Its number, in the order of commits.
        key: The key of the row, as JSON.
        value: The change in Debezium's JSON.
    """

    number: int
    key: bytes
    value: bytes


@dataclass(frozen=True)
class ChangeRecorder:
    """Records the changes of one table, in the same transactions that make them.

    Attributes:
        database: The file of the database.
        table: The table.
        key: The column of its key, whose values never change.
    """

    database: Path
    table: str
    key: str

    def install(self) -> None:
        """Create the log and the triggers that fill it."""
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute(
                f"CREATE TABLE {_LOG} (number INTEGER PRIMARY KEY, key TEXT, value TEXT)"
            )
            columns = connection.execute("SELECT name FROM pragma_table_info(?)", [self.table])
            names = [name for (name,) in columns]
            for event, (operation, before, after) in _CHANGES.items():
                row = "OLD" if after == "NULL" else "NEW"
                connection.execute(
                    f"CREATE TRIGGER recorded_{event} AFTER {event} ON {_quoted(self.table)} BEGIN "
                    f"INSERT INTO {_LOG} (key, value) VALUES ({_image(row, [self.key])}, "
                    f"json_object('op', '{operation}', 'before', {_image(before, names)}, "
                    f"'after', {_image(after, names)})); END"
                )

    def changes(self, after: int = 0) -> Iterator[Change]:
        """Yield the changes after a number, in order."""
        with closing(sqlite3.connect(self.database)) as connection:
            rows = connection.execute(
                f"SELECT number, key, value FROM {_LOG} WHERE number > ? ORDER BY number", [after]
            )
            for number, key, value in rows:
                yield Change(number, key.encode(), value.encode())


def _image(row: str, names: list[str]) -> str:
    """Return the SQL of a row as JSON; `NULL` stands for no row."""
    if row == "NULL":
        return "NULL"
    parts = (f"'{name.replace(chr(39), chr(39) * 2)}', {row}.{_quoted(name)}" for name in names)
    return f"json_object({', '.join(parts)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
