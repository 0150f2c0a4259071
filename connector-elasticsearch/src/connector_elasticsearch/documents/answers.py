# SPDX-License-Identifier: Apache-2.0
"""Checks that a search response is complete and covers all shards.

A filtered response without hits is `{}`, and so is a response of an unrelated service. Every search
requests the shards along with its hits, so that a complete response can be recognized.
"""

from __future__ import annotations

import re
from typing import Final

from connector_elasticsearch.client import decoded, meaningless, told

__all__ = ["WHOLE", "check_whole"]

WHOLE: Final = ("timed_out", "_shards.total", "_shards.successful")
"""The fields that every search must request in addition."""

# The order in which the server writes it. Another order is valid, but slower to check.
_HEAD: Final = re.compile(
    rb'\{(?:"pit_id":"[^"]*",)?(?:"took":\d+,)?"timed_out":false,'
    rb'"_shards":\{"total":(\d+),"successful":\1(?:,"skipped":\d+,"failed":0)?\}[,}]'
)


def check_whole(answer: bytes, doing: str) -> None:
    """Refuse a response that does not cover all shards.

    Args:
        answer: The server's response.
        doing: The operation, for errors.

    Raises:
        ElasticsearchRetryableError: The response is incomplete, as far as can be seen without
            reading its hits.
    """
    if _HEAD.match(answer) and answer.endswith(b"}"):
        return
    found = decoded(answer, doing)
    total = told(found, "_shards", "total", kind=int, doing=doing)
    successful = told(found, "_shards", "successful", kind=int, doing=doing)
    if told(found, "timed_out", kind=bool, doing=doing) or successful != total:
        raise meaningless(doing, found=f"{successful} of {total} shards")
