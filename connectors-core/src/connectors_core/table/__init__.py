# SPDX-License-Identifier: Apache-2.0
"""Tables that a connector offers to queries by name and columns, after Flink's FLIP-95."""

from connectors_core.table.lookup_table_source import (
    LookupContext,
    LookupRuntimeProvider,
    LookupTableSource,
)

__all__ = ["LookupContext", "LookupRuntimeProvider", "LookupTableSource"]
