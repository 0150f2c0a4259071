# SPDX-License-Identifier: Apache-2.0
"""Files as a table that rows are looked up in: cached as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from connector_filesystem.source import FILE_SOURCE_OPTIONS, FileSource
from connectors_core.annotations import public
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.lookup import (
    FULL_CACHE_OPTIONS,
    LOOKUP_CACHE,
    CacheReloadTrigger,
    FullCachingLookupProvider,
    LookupCacheType,
    reload_trigger,
)
from connectors_core.options import OptionSet
from connectors_core.table import LookupContext, LookupRuntimeProvider, LookupTableSource

OPTIONS_OF_TABLE: Final = OptionSet(
    dataclasses.replace(
        LOOKUP_CACHE, default=LookupCacheType.FULL, choices=(LookupCacheType.FULL,)
    ),
    *FULL_CACHE_OPTIONS,
)
FILE_TABLE_OPTIONS: Final = FILE_SOURCE_OPTIONS.extended(*OPTIONS_OF_TABLE, scope="file table")


@public
class FileTable(LookupTableSource, SupportsConnectionCheck):
    """Rows of files for `Pipeline.lookup_join`; files have no keys, so they are read as a whole.

    Args:
        source: Reads the files; without a monitor interval, as a table is read to its end.
        reload_trigger: Says when they are read again; None for once in each start.
    """

    def __init__(
        self, source: FileSource, *, reload_trigger: CacheReloadTrigger | None = None
    ) -> None:
        self._source = source
        self._reload_trigger = reload_trigger

    @classmethod
    def from_options(cls, mapping: Mapping[str, Any]) -> FileTable:
        """Make a table from options by key, as Spark and SQL give them.

        Args:
            mapping: Values by key of `FILE_TABLE_OPTIONS`, strings or Python values.

        Raises:
            OptionError: A key is not known, is missing or has a value that cannot be used.
        """
        options = FILE_TABLE_OPTIONS.parse(mapping)
        of_source = {key: value for key, value in mapping.items() if key in FILE_SOURCE_OPTIONS}
        return cls(FileSource.from_options(of_source), reload_trigger=reload_trigger(options))

    def check_connection(self, timeout: float) -> None:
        """See whether the filesystem answers; see `SupportsConnectionCheck`. Driver."""
        self._source.check_connection(timeout)

    def schema(self) -> pa.Schema:
        """Columns of the files; looks at the first ones where they are not declared."""
        return self._source.schema()

    def get_lookup_runtime_provider(self, context: LookupContext) -> LookupRuntimeProvider:
        """All rows, read when the pipeline starts and when the trigger says so."""
        return FullCachingLookupProvider(self._source, self._reload_trigger)
