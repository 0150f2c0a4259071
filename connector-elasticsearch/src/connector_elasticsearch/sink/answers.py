# SPDX-License-Identifier: Apache-2.0
"""Reads the result of each operation from the response to a bulk request.

A response counts only if it has a result for every operation. Otherwise it is truncated, belongs to
another request, or comes from another service, and the sink sends everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connector_elasticsearch.client import decoded, meaningless, told
from connector_elasticsearch.sink.outcomes import Outcome, outcome_of

__all__ = ["NotWritten", "is_all_written", "not_written"]

# The pattern of a response in which every document is written, to avoid creating thousands of
# objects.
_NO_ERRORS: Final = b'{"errors":false,"items":[{'
_END: Final = b"}}]}"
_WRITTEN: Final = (b'{"status":200}', b'{"status":201}')


@dataclass(frozen=True)
class NotWritten:
    """An operation whose outcome needs attention.

    Attributes:
        number: The number of the operation in its request.
        outcome: The outcome.
        error: The server's error, or None.
    """

    number: int
    outcome: Outcome
    error: Mapping[str, Any] | None


def is_all_written(answer: bytes, operations: int) -> bool:
    """Whether a response reports success for this number of operations.

    If the response is formatted differently, this is false, and `not_written` finds nothing.
    """
    return (
        answer.startswith(_NO_ERRORS)
        and answer.endswith(_END)
        and sum(map(answer.count, _WRITTEN)) == operations
    )


def not_written(
    answer: bytes, operations: int, operation_at: Callable[[int], bytes], doing: str
) -> list[NotWritten]:
    """Return the operations whose outcome needs attention, in order.

    Args:
        answer: The server's response.
        operations: The number of operations sent.
        operation_at: Returns an operation by its number. Called only for those that did not
            succeed.
        doing: The operation, for errors.

    Raises:
        ElasticsearchRetryableError: The response lacks the outcome of an operation.
    """
    items = told(decoded(answer, doing), "items", kind=list, doing=doing)
    if len(items) != operations:
        raise meaningless(doing, found=f"{len(items)} results for {operations} operations")
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
    """The first name in the first line, as in `{"index":{...`."""
    return operation[2 : operation.index(b'"', 2)].decode()
