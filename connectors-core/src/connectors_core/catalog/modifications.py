# SPDX-License-Identifier: Apache-2.0
"""Events of changed catalogs (Flink's FLIP-294)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from connectors_core.table.catalog_table import CatalogTable, CatalogView

__all__ = [
    "CatalogModificationEvent",
    "CatalogModificationListener",
    "Modification",
    "ModificationPhase",
    "modification",
]

_LOGGER: Final = logging.getLogger(__name__)


class Modification(StrEnum):
    """What a statement changes."""

    CREATE_DATABASE = "create database"
    """A new database."""
    DROP_DATABASE = "drop database"
    """A database is removed."""
    CREATE_TABLE = "create table"
    """A new table or view, or a replaced view."""
    ALTER_TABLE = "alter table"
    """A table has other options, or another name."""
    DROP_TABLE = "drop table"
    """A table or view is removed."""


class ModificationPhase(StrEnum):
    """When an event happens."""

    BEFORE = "before"
    """The statement is valid, and the catalog is not changed yet."""
    AFTER = "after"
    """The catalog is changed."""
    FAILED = "failed"
    """The catalog has refused the change."""


@dataclass(frozen=True, kw_only=True)
class CatalogModificationEvent:
    """A change of a catalog.

    Attributes:
        modification: What changes.
        phase: When.
        catalog: The catalog.
        database: The database.
        name: The table or view, or None if the database changes.
        table: Its new definition, or None if it is removed.
        new_name: Its new name, if it is renamed.
    """

    modification: Modification
    phase: ModificationPhase = ModificationPhase.BEFORE
    catalog: str
    database: str
    name: str | None = None
    table: CatalogTable | CatalogView | None = None
    new_name: str | None = None


class CatalogModificationListener(ABC):
    """Learns of changes. An error of a listener is logged, and the statement goes through."""

    @abstractmethod
    def on_event(self, event: CatalogModificationEvent) -> None:
        """Receive an event, on the thread of the statement; return quickly."""


@contextmanager
def modification(
    listeners: Sequence[CatalogModificationListener], event: CatalogModificationEvent
) -> Iterator[None]:
    """Tell listeners of a change before and after it."""
    _tell(listeners, event)
    try:
        yield
    except BaseException:
        _tell(listeners, replace(event, phase=ModificationPhase.FAILED))
        raise
    _tell(listeners, replace(event, phase=ModificationPhase.AFTER))


def _tell(
    listeners: Sequence[CatalogModificationListener], event: CatalogModificationEvent
) -> None:
    for each in listeners:
        try:
            each.on_event(event)
        except Exception:
            name = type(each).__name__
            _LOGGER.warning("the listener %s has failed", name, exc_info=True)
