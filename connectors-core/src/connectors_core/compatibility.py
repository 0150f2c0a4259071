# SPDX-License-Identifier: Apache-2.0
"""Whether a connector is built for the Spark that is installed, said at its import.

Only the metadata of installed packages is looked at: pyspark is not imported, and where there is no
metadata (a checkout, an archive on a worker, a Spark that a platform brings) nothing is checked.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from connectors_core.annotations import public
from connectors_core.errors import SparkMismatchError

__all__ = ["check_spark"]

# 3.1.2.3.5 is version 3.1.2 for Spark 3.5; a checkout has the version alone.
_BUILD: Final = re.compile(r"(\d+\.\d+\.\d+)\.(\d+\.\d+)")
_LINE: Final = re.compile(r"\d+\.\d+")


@public
def check_spark(connector: str) -> None:
    """Refuse a connector that is built for another Spark than the one that is installed.

    A connector calls it in its `__init__`.

    Args:
        connector: The name of its distribution, as in ``connector-kafka``.

    Raises:
        SparkMismatchError: It is built for another line of Spark; the hint has the command that
            mends it.
    """
    try:
        build, pyspark = version(connector), version("pyspark")
    except PackageNotFoundError:
        return
    built, installed = _BUILD.fullmatch(build), _LINE.match(pyspark)
    if built is not None and installed is not None and built[2] != installed[0]:
        raise SparkMismatchError(connector, built[1], built=built[2], pyspark=pyspark)
