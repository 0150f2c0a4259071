# SPDX-License-Identifier: Apache-2.0
"""State locations below Spark's checkpoint locations."""

from __future__ import annotations


def fsspec_url(checkpoint: str) -> str:
    """Return a checkpoint location of Spark as a URL for fsspec."""
    for hadoop, fsspec in (("s3a://", "s3://"), ("s3n://", "s3://"), ("file://", "")):
        if checkpoint.startswith(hadoop):
            return fsspec + checkpoint.removeprefix(hadoop)
    return checkpoint.removeprefix("file:")
