# SPDX-License-Identifier: Apache-2.0
"""Queries in which no two operators with state share an exchange. Driver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

__all__ = ["unshared_exchanges"]

_REUSE: Final = "spark.sql.exchange.reuse"
_LOCK: Final = threading.Lock()


@contextmanager
def unshared_exchanges(spark: SparkSession) -> Iterator[None]:
    """Start queries meanwhile that do not reuse an exchange. A query keeps the session's options.

    Spark finds no watermark below a reused exchange, in 3.5 and in 4.3. The join or aggregate above
    it then keeps its rows forever.
    """
    with _LOCK:
        before = spark.conf.get(_REUSE, None)
        spark.conf.set(_REUSE, "false")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_REUSE)
            else:
                spark.conf.set(_REUSE, before)
