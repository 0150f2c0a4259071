# SPDX-License-Identifier: Apache-2.0
"""Whether the answer to a search is one, and of all that was searched.

An answer without hits looks like `{}` once it is filtered, and so does that of something else on
the way. Every search asks for the shards beside its hits, so that a whole answer says that it is.
"""

from __future__ import annotations

import re
from typing import Final

from connector_elasticsearch.client import decoded, meaningless, told

__all__ = ["WHOLE", "check_whole"]

WHOLE: Final = ("timed_out", "_shards.total", "_shards.successful")
"""What a search must ask for, beside what it needs."""

# How the server writes it; another order is as good, and takes longer to look at.
_HEAD: Final = re.compile(
    rb'\{(?:"pit_id":"[^"]*",)?(?:"took":\d+,)?"timed_out":false,'
    rb'"_shards":\{"total":(\d+),"successful":\1(?:,"skipped":\d+,"failed":0)?\}[,}]'
)


def check_whole(answer: bytes, doing: str) -> None:
    """Refuse what is not the answer of all shards.

    Args:
        answer: What the server sent.
        doing: What was asked, for errors.

    Raises:
        ElasticsearchRetryableError: It is not, as far as can be seen without reading its hits.
    """
    if _HEAD.match(answer) and answer.endswith(b"}"):
        return
    found = decoded(answer, doing)
    total = told(found, "_shards", "total", kind=int, doing=doing)
    successful = told(found, "_shards", "successful", kind=int, doing=doing)
    if told(found, "timed_out", kind=bool, doing=doing) or successful != total:
        raise meaningless(doing, found=f"{successful} of {total} shards")
