# SPDX-License-Identifier: Apache-2.0
"""Spark 4 finds the format `connector_filesystem` by the name of this module."""

__all__ = ["DefaultSource"]

try:
    from connectors_core.native import NativeFormat
except ImportError:
    pass  # an older core: an error here would hide the formats of all packages
else:

    class DefaultSource(NativeFormat):
        """The format `connector_filesystem`."""

        package = "connector_filesystem"
        source = "FileSource"
        sink = "FileSink"
