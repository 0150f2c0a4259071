# SPDX-License-Identifier: Apache-2.0
"""The names for completion, which an engine returns. They are kept until the next statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from connectors_core.catalog.catalog_manager import DEFAULT_CATALOG
from connectors_core.catalog.factory import TYPE, catalog_factory, catalog_types
from connectors_core.cli.sql.completion import OptionHelp
from connectors_core.cli.sql.engine import Engine
from connectors_core.cli.sql.statement_thread import StatementThread
from connectors_core.errors import ConnectorError
from connectors_core.options import Option
from connectors_core.table.catalog_table import CONNECTOR
from connectors_core.table.factory import connectors, factory_of
from connectors_core.table.sql import SqlError, parse_statement
from connectors_core.table.sql.statements import CreateTable, CreateView, Statement
from connectors_core.table.watermark_options import WatermarkOptions

__all__ = ["EngineNames", "help_of"]

_PATIENCE_SECONDS: Final = 5.0
_ANY: Final = ".*"
_FULL: Final = 3  # catalog, database, and table


class EngineNames:
    """Asks the engine for names. A name that takes too long is not completed.

    Args:
        thread: The thread of the engine.
        session_options: The options of SET.
    """

    def __init__(self, thread: StatementThread, session_options: Sequence[OptionHelp]) -> None:
        self._thread = thread
        self._session_options = session_options
        self._known: dict[str, Sequence[str]] = {}

    def forget(self) -> None:
        """Ask again, because a statement may have changed the names."""
        self._known = {}

    def catalogs(self) -> Sequence[str]:
        """See `Names`."""
        return self._column("SHOW CATALOGS")

    def databases(self, catalog: str | None = None) -> Sequence[str]:
        """See `Names`."""
        inside = "" if catalog is None else f" IN {_path([catalog])}"
        return self._column(f"SHOW DATABASES{inside}")

    def tables(self, database: Sequence[str] = ()) -> Sequence[str]:
        """See `Names`."""
        return self._column("SHOW TABLES" + (f" IN {_path(database)}" if database else ""))

    def columns(self, table: Sequence[str]) -> Sequence[str]:
        """See `Names`. Only tables of the default catalog have some here.

        To know other columns, a catalog or the query of a view may have to read records.
        """
        if not self._is_defined_here(table) or isinstance(self._definition(table), CreateView):
            return ()
        found = self._column(f"DESCRIBE {_path(table)}")
        return [name for name in found if name and not name.startswith("#")]  # headings of Spark

    def current_database(self) -> str:
        """Return the current catalog and database."""
        found = [*self._column("SHOW CURRENT CATALOG"), *self._column("SHOW CURRENT DATABASE")]
        return ".".join(found)

    def jobs(self) -> Sequence[str]:
        """See `Names`."""
        return list(self._thread.engine.jobs())

    def session_options(self) -> Sequence[OptionHelp]:
        """See `Names`."""
        return self._session_options

    def table_options(self, connector: str | None) -> Sequence[OptionHelp]:
        """See `Names`."""
        key = OptionHelp(key=CONNECTOR, values=connectors(), doc="The connector of the table.")
        if connector not in connectors():
            return [key]
        own = help_of(factory_of(connector).options())
        return [key, *own, *help_of(WatermarkOptions.OPTIONS)]

    def catalog_options(self, type_: str | None) -> Sequence[OptionHelp]:
        """See `Names`."""
        key = OptionHelp(key=TYPE, values=catalog_types(), doc="The type of the catalog.")
        if type_ not in catalog_types():
            return [key]
        return [key, *help_of(catalog_factory(type_, {TYPE: type_}).options())]

    def connector_of(self, table: Sequence[str]) -> str | None:
        """See `Names`. Only tables of the default catalog have one here."""
        created = self._definition(table) if self._is_defined_here(table) else None
        return created.table.options.get(CONNECTOR) if isinstance(created, CreateTable) else None

    def _definition(self, table: Sequence[str]) -> Statement | None:
        """Return the statement that creates a table or view."""
        found = self._column(f"SHOW CREATE TABLE {_path(table)}")
        with suppress(SqlError):  # Spark has other definitions
            return parse_statement(found[0]) if found else None
        return None

    def _is_defined_here(self, table: Sequence[str]) -> bool:
        """Return whether a table is in the default catalog. Others may infer and store it."""
        catalog = table[:1] if len(table) == _FULL else self._column("SHOW CURRENT CATALOG")
        return list(catalog) == [DEFAULT_CATALOG]

    def _column(self, statement: str) -> Sequence[str]:
        """Return the first column of a result; nothing if the statement fails."""
        if statement not in self._known:
            asking = self._thread.submit(_first_column(statement))
            try:
                self._known[statement] = asking.result(_PATIENCE_SECONDS)
            except (ConnectorError, TimeoutError):
                asking.cancel()  # if it has not begun
                self._known[statement] = ()
        return self._known[statement]


def help_of(options: Iterable[Option[Any]]) -> list[OptionHelp]:
    """Return what completion needs of declared options."""
    return [
        OptionHelp(
            key=each.key.removesuffix("*") if each.key.endswith(_ANY) else each.key,
            values=("true", "false") if each.type is bool else each.allowed,
            doc=each.doc.partition(". ")[0].rstrip("."),
        )
        for each in options
    ]


def _first_column(statement: str) -> Callable[[Engine], list[str]]:
    def ask(engine: Engine) -> list[str]:
        return [row[0] or "" for row in engine.execute(statement).rows()]

    return ask


def _path(parts: Iterable[str]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
