# SPDX-License-Identifier: Apache-2.0
"""Errors of file systems that need a missing native library."""

from __future__ import annotations

import sys

from connectors_core.errors import ConfigurationError, ConnectorError, RetryableError
from connectors_core.secrets import mask_text

__all__ = ["error_of_opening"]

_NEEDED = ("libjvm", "libhdfs")


def error_of_opening(error: OSError, url: str, *, option: str) -> ConnectorError:
    """Return the error to raise if a file system cannot be opened; driver and executor.

    Args:
        error: The error of fsspec or Arrow.
        url: The masked URL.
        option: Option with the URL.
    """
    found = mask_text(str(error).strip().splitlines()[0] if str(error).strip() else repr(error))
    missing = next((name for name in _NEEDED if name in found), None)
    if missing is None:
        return RetryableError(f"{url} cannot be opened", found=found, option=option)
    return ConfigurationError(
        f"{url} needs the native library {missing}, which this process ({sys.executable}) cannot "
        "find",
        expected="a Java runtime (JAVA_HOME) and Hadoop's libhdfs (HADOOP_HOME, or "
        "ARROW_LIBHDFS_DIR), with CLASSPATH set to the output of `hadoop classpath --glob`",
        found=found,
        option=option,
        hint="install Hadoop's client on the driver and on every executor, or access HDFS over "
        "HTTP: webhdfs://",
        code="NATIVE_LIBRARY",
    )
