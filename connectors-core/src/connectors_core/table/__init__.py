# SPDX-License-Identifier: Apache-2.0
"""Tables that a connector offers to queries by name and columns, after Flink's FLIP-95."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors_core._lazy import lazily

if TYPE_CHECKING:
    from connectors_core.lookup.lookup_table_source import (
        LookupContext,
        LookupRuntimeProvider,
        LookupTableSource,
    )
    from connectors_core.lookup.vector_search import (
        VectorSearchContext,
        VectorSearchRuntimeProvider,
        VectorSearchTableSource,
    )
    from connectors_core.table.abilities import TableAbility
    from connectors_core.table.catalog_table import CatalogTable, CatalogView
    from connectors_core.table.changelog_mode import ChangelogMode
    from connectors_core.table.configured_tables import (
        ConfiguredTableFactory,
        given_options,
        metadata_option,
        refuse_metadata,
        schema_option,
    )
    from connectors_core.table.factory import (
        DynamicTableContext,
        DynamicTableFactory,
        DynamicTableSink,
        ScanTableSource,
        register_factory,
    )
    from connectors_core.table.sql.errors import SqlError
    from connectors_core.table.table_schema import (
        ComputedColumn,
        MetadataColumn,
        PhysicalColumn,
        TableSchema,
        WatermarkSpec,
    )
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "connectors_core.lookup.lookup_table_source": (
                "LookupContext",
                "LookupRuntimeProvider",
                "LookupTableSource",
            ),
            "connectors_core.lookup.vector_search": (
                "VectorSearchContext",
                "VectorSearchRuntimeProvider",
                "VectorSearchTableSource",
            ),
            "connectors_core.table.abilities": ("TableAbility",),
            "connectors_core.table.catalog_table": (
                "CatalogTable",
                "CatalogView",
            ),
            "connectors_core.table.changelog_mode": ("ChangelogMode",),
            "connectors_core.table.configured_tables": (
                "ConfiguredTableFactory",
                "given_options",
                "metadata_option",
                "refuse_metadata",
                "schema_option",
            ),
            "connectors_core.table.factory": (
                "DynamicTableContext",
                "DynamicTableFactory",
                "DynamicTableSink",
                "ScanTableSource",
                "register_factory",
            ),
            "connectors_core.table.sql.errors": ("SqlError",),
            "connectors_core.table.table_schema": (
                "ComputedColumn",
                "MetadataColumn",
                "PhysicalColumn",
                "TableSchema",
                "WatermarkSpec",
            ),
        },
    )

__all__ = [
    "CatalogTable",
    "CatalogView",
    "ChangelogMode",
    "ComputedColumn",
    "ConfiguredTableFactory",
    "DynamicTableContext",
    "DynamicTableFactory",
    "DynamicTableSink",
    "LookupContext",
    "LookupRuntimeProvider",
    "LookupTableSource",
    "MetadataColumn",
    "PhysicalColumn",
    "ScanTableSource",
    "SqlError",
    "TableAbility",
    "TableSchema",
    "VectorSearchContext",
    "VectorSearchRuntimeProvider",
    "VectorSearchTableSource",
    "WatermarkSpec",
    "given_options",
    "metadata_option",
    "refuse_metadata",
    "register_factory",
    "schema_option",
]
