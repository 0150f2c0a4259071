# SPDX-License-Identifier: Apache-2.0
"""Parses the JSON of responses whose documents are decoded one by one.

Elasticsearch stores values that few other systems accept: halves of surrogate pairs, numbers of any
length, and objects nested a thousand levels deep. One document must not prevent the others from
being read, so this parser accepts all of it and keeps numbers as they are written.
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
# Python's parser is recursive. Anything nested deeper than this has no column.
_MOST_DEPTH: Final = 400
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_CUT: Final = "NaN"  # no response contains this value


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number.

    Attributes:
        text: The number as written.
    """

    text: str


class _TooDeep:
    """A placeholder for the parts that were cut off."""


_TOO_DEEP: Final = _TooDeep()


def loaded(body: bytes) -> dict[str, Any]:
    """Parse a JSON object. Its numbers become `Number`.

    Raises:
        ElasticsearchRetryableError: The text is not a JSON object.
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
    """Write a value as JSON, with its original spelling of numbers.

    Raises:
        ValueError: The value cannot be written. The error contains the reason.
    """
    try:
        return orjson.dumps(value, _fragment, orjson.OPT_PASSTHROUGH_DATACLASS).decode()
    except orjson.JSONEncodeError as error:
        raise ValueError("it is nested too deep, or contains half of a surrogate pair") from error


def plain(value: Any) -> Any:
    """Return a number or text as a Python value."""
    if not isinstance(value, Number):
        return value
    return int(value.text) if value.text.lstrip("-").isdigit() else float(value.text)


def raw_json(value: Any) -> bytes:
    """Write a value as JSON for people. This never fails."""
    try:
        return json_text(value).encode()
    except ValueError:
        return json.dumps(value, default=_for_people).encode()


def _parsed(text: str) -> Any:
    return json.loads(
        text, parse_int=Number, parse_float=Number, parse_constant=lambda _: _TOO_DEEP
    )


def _cut(text: str) -> str:
    """Return JSON without the parts that are nested too deep."""
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
