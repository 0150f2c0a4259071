# SPDX-License-Identifier: Apache-2.0
"""The JSON of answers whose documents are read one by one.

Elasticsearch stores what no other system would: halves of surrogate pairs, numbers of any length,
objects in objects a thousand deep. Whatever stands in one document, the others must be read, so
this parser takes all of it and keeps numbers as they are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from connector_elasticsearch.client import meaningless, told

__all__ = ["Number", "json_text", "loaded", "plain", "raw_json"]

_DOING: Final = "reading documents"
# Python's parser calls itself; what is deeper than this has no column.
_MOST_DEPTH: Final = 400
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_CUT: Final = "NaN"  # a value that no answer holds


@dataclass(frozen=True, slots=True)
class Number:
    """A number of JSON.

    Attributes:
        text: As it is written.
    """

    text: str


class _TooDeep:
    """Stands for what was cut off."""


_TOO_DEEP: Final = _TooDeep()


def loaded(body: bytes) -> dict[str, Any]:
    """An object of JSON; its numbers are `Number`.

    Raises:
        ElasticsearchRetryableError: It is something else.
    """
    try:
        text = body.decode()
        try:
            answer = _parsed(text)
        except RecursionError:
            answer = _parsed(_cut(text))
    except ValueError as error:
        raise meaningless(_DOING, found=type(error).__name__) from error
    return told(answer, kind=dict, doing=_DOING)


def json_text(value: Any) -> str:
    """A value as JSON, its numbers as they were written.

    Raises:
        ValueError: It cannot be written; says why.
    """
    try:
        return orjson.dumps(value, _fragment, orjson.OPT_PASSTHROUGH_DATACLASS).decode()
    except orjson.JSONEncodeError as error:
        raise ValueError("it is nested too deep, or contains half of a surrogate pair") from error


def plain(value: Any) -> Any:
    """A number or text as Python has it."""
    if not isinstance(value, Number):
        return value
    return int(value.text) if value.text.lstrip("-").isdigit() else float(value.text)


def raw_json(value: Any) -> bytes:
    """A value as JSON, for people: never fails."""
    try:
        return json_text(value).encode()
    except ValueError:
        return json.dumps(value, default=_for_people).encode()


def _parsed(text: str) -> Any:
    return json.loads(
        text, parse_int=Number, parse_float=Number, parse_constant=lambda _: _TOO_DEEP
    )


def _cut(text: str) -> str:
    """JSON without what is nested too deep."""
    return "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    depth = start = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == _MOST_DEPTH:
                yield text[start : token.start()]
                yield _CUT
        elif token[0] in "]}":
            if depth == _MOST_DEPTH:
                start = token.end()
            depth -= 1
    yield text[start:]


def _fragment(value: Any) -> Any:
    if isinstance(value, Number):
        return orjson.Fragment(value.text)
    raise TypeError


def _for_people(value: Any) -> Any:
    return plain(value) if isinstance(value, Number) else None
