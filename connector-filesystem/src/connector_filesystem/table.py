# SPDX-License-Identifier: Apache-2.0
"""A lookup table of files, cached as a whole."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from connector_filesystem.source import FileSource
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.lookup import (
    FULL_CACHE_OPTIONS,
    LOOKUP_CACHE,
    CacheReloadTrigger,
    FullCachingLookupProvider,
    LookupCacheType,
    reload_trigger,
)
from connectors_core.options import Configured, OptionSet, Setting, option_like, part
from connectors_core.table import LookupContext, LookupRuntimeProvider, LookupTableSource

_SINCE: Final = "3.0.0"
OPTIONS_OF_TABLE: Final = OptionSet(
    option_like(
        LOOKUP_CACHE,
        default=LookupCacheType.FULL,
        choices=(LookupCacheType.FULL,),
        since=_SINCE,
    ),
    *(each.introduced(_SINCE, again=True) for each in FULL_CACHE_OPTIONS),
)


class FileTable(
    Configured,
    LookupTableSource,
    SupportsConnectionCheck,
    LineageVertexProvider,
    scope="file table",
):
    """The rows of files for `Pipeline.lookup_join`.

    Files have no keys, so they are read as a whole.
    """

    source: Setting[FileSource] = part(
        FileSource,
        kw_only=False,
        doc="Reads the files. It must not have a monitor interval, because a table is read to its "
        "end.",
    )
    reload_trigger: Setting[CacheReloadTrigger | None] = part(
        CacheReloadTrigger,
        *OPTIONS_OF_TABLE,
        build=reload_trigger,
        default=None,
        doc="Decides when to read the files again. By default, each start reads them once.",
    )

    def check_connection(self, timeout: float) -> None:
        """Check that the filesystem responds. See `SupportsConnectionCheck`. Driver."""
        self.source.check_connection(timeout)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Those of its source."""
        return self.source.lineage_datasets()

    def schema(self) -> pa.Schema:
        """The columns of the files. Inspects the first files if the schema is not declared."""
        return self.source.schema()

    def get_lookup_runtime_provider(self, context: LookupContext) -> LookupRuntimeProvider:
        """Return all rows.

        The pipeline reads them when it starts and whenever the trigger fires.
        """
        return FullCachingLookupProvider(self.source, self.reload_trigger)


FILE_TABLE_OPTIONS: Final = FileTable.OPTIONS
"""The options of `FileTable.from_options`."""
