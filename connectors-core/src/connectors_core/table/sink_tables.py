# SPDX-License-Identifier: Apache-2.0
"""Tables for trials that are only written: `'connector' = 'print'` and `'blackhole'`."""

from __future__ import annotations

from connectors_core.options import Configured, Setting, option
from connectors_core.sink.discarding_sink import DiscardingSink
from connectors_core.sink.print_sink import PrintSink
from connectors_core.table.changelog_mode import ChangelogMode
from connectors_core.table.configured_tables import ConfiguredTableFactory, refuse_metadata
from connectors_core.table.factory import DynamicTableContext, DynamicTableSink

__all__ = ["BlackHoleTableFactory", "PrintTableFactory"]


class PrintOptions(Configured, scope="print table", since="1.1.0"):
    """The options of a table whose rows are printed."""

    identifier: Setting[str] = option(
        "print-identifier", str, default="", doc="Text at the beginning of each line."
    )
    standard_error: Setting[bool] = option(
        "standard-error",
        bool,
        default=False,
        doc="Whether the rows go to standard error instead of standard output.",
    )


class PrintTableFactory(ConfiguredTableFactory):
    """Tables whose rows appear in the logs of the executors."""

    identifier = "print"
    parts = (PrintOptions,)

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """See `DynamicTableFactory`."""
        refuse_metadata(context, context.table.schema.written_metadata)
        options = PrintOptions.from_options(context.options)
        sink = PrintSink(options.identifier, standard_error=options.standard_error)
        return DynamicTableSink(sink=sink, changelog_mode=ChangelogMode.upsert())


class BlackHoleTableFactory(ConfiguredTableFactory):
    """Tables that discard their rows."""

    identifier = "blackhole"
    parts = ()

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """See `DynamicTableFactory`."""
        refuse_metadata(context, context.table.schema.written_metadata)
        return DynamicTableSink(sink=DiscardingSink(), changelog_mode=ChangelogMode.upsert())
