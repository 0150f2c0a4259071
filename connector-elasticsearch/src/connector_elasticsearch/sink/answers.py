# SPDX-License-Identifier: Apache-2.0
"""What the answer to a bulk request says of each operation.

An answer counts for what it says of every operation, or not at all: one that is cut off, of another
request or of something else that answers on the way says nothing, and all is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connector_elasticsearch.client import decoded, meaningless, told
from connector_elasticsearch.sink.outcomes import Outcome, outcome_of

__all__ = ["NotWritten", "is_all_written", "not_written"]

# How an answer looks where every document is written: thousands of objects are not made then.
_NO_ERRORS: Final = b'{"errors":false,"items":[{'
_END: Final = b"}}]}"
_WRITTEN: Final = (b'{"status":200}', b'{"status":201}')


@dataclass(frozen=True)
class NotWritten:
    """What became of an operation that was not simply carried out.

    Attributes:
        number: Of the operation in its request.
        outcome: What became of it.
        error: What the server says about it; None where there is nothing to say.
    """

    number: int
    outcome: Outcome
    error: Mapping[str, Any] | None


def is_all_written(answer: bytes, operations: int) -> bool:
    """Whether an answer says of so many operations that they are carried out.

    It may say so in another way too; then `not_written` finds nothing.
    """
    return (
        answer.startswith(_NO_ERRORS)
        and answer.endswith(_END)
        and sum(map(answer.count, _WRITTEN)) == operations
    )


def not_written(
    answer: bytes, operations: int, operation_at: Callable[[int], bytes], doing: str
) -> list[NotWritten]:
    """The operations that were not simply carried out, in order.

    Args:
        answer: What the server sent.
        operations: How many it was sent.
        operation_at: Gives one by its number; asked for those alone that were not carried out.
        doing: What was asked, for errors.

    Raises:
        ElasticsearchRetryableError: The answer does not say what became of each.
    """
    items = told(decoded(answer, doing), "items", kind=list, doing=doing)
    if len(items) != operations:
        raise meaningless(doing, found=f"{len(items)} results of {operations} operations")
    return list(_not_written(items, operation_at, doing))


def _not_written(
    items: Sequence[Any], operation_at: Callable[[int], bytes], doing: str
) -> Iterator[NotWritten]:
    for number, item in enumerate(items):
        if not isinstance(item, dict) or len(item) != 1:
            raise meaningless(doing, found="an unexpected result")
        ((action, result),) = item.items()
        status = told(result, "status", kind=int, doing=doing)
        error = result.get("error")
        is_done = 200 <= status < 300
        if is_done and error is None:
            continue
        if action != _action_of(operation_at(number)):
            raise meaningless(doing, found="results of other operations")
        name = None if error is None else told(error, "type", kind=str, doing=doing)
        outcome = outcome_of(action, status, name)
        if is_done or status < 400 or not (error or outcome is Outcome.WRITTEN):
            raise meaningless(doing, found=f"a result of {status} without details")
        if outcome is not Outcome.WRITTEN:
            yield NotWritten(number, outcome, error)


def _action_of(operation: bytes) -> str:
    """The first name in the first line: `{"index":{...`."""
    return operation[2 : operation.index(b'"', 2)].decode()
