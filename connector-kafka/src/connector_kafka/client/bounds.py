# SPDX-License-Identifier: Apache-2.0
"""Limits what kafka-python decompresses, because its own codecs do not limit the output."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kafka.record import default_records, legacy_records

from connector_kafka.records.compression import Compression, decompress

__all__ = ["bounded_decompression"]

_CODECS: Final = {
    "gzip_decode": Compression.GZIP,
    "snappy_decode": Compression.SNAPPY,
    "lz4_decode": Compression.LZ4,
    "zstd_decode": Compression.ZSTD,
}
_here = threading.local()
_lock: Final = threading.Lock()


@contextmanager
def bounded_decompression(limit: int) -> Iterator[None]:
    """Limit the batches that kafka-python parses on this thread. Other threads are not affected.

    Args:
        limit: Maximum decompressed size of a batch. A larger one raises a `TooLargeError`.
    """
    with _lock:
        for module in (default_records, legacy_records):
            for name, codec in _CODECS.items():
                decode = getattr(module, name, None)
                if decode is not None and not hasattr(decode, "__wrapped__"):
                    setattr(module, name, _bounded(decode, codec))
    _here.limit = limit
    try:
        yield
    finally:
        _here.limit = None


def _bounded(decode: Callable[[Any], bytes], codec: Compression) -> Callable[[Any], bytes]:
    @functools.wraps(decode)
    def bounded(payload: Any) -> bytes:
        limit = getattr(_here, "limit", None)
        return decode(payload) if limit is None else bytes(decompress(payload, codec, limit=limit))

    return bounded
