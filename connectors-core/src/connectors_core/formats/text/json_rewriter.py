# SPDX-License-Identifier: Apache-2.0
r"""Rewrites JSON for Arrow's parser without a Python object per value.

Spark reads two things that Arrow does not: an object that is a map, and a non-text value in a text
column. `{"a": 1}` becomes `[{"key": "a", "value": 1}]` for a map, and `1.50` or `{"a":
1}` become `"1.50"` and `"{\"a\": 1}"` for a string. The parser checks everything else. This module
checks what the parser can no longer see: the content of such texts, and that keys and values of
maps alternate. Invalid JSON therefore stays invalid.

A few passes over the bytes find the brackets, commas and colons outside of strings, and their
depth. It then descends along the schema, all containers of one depth at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors_core.formats.text.texts import is_string
from connectors_core.schema.misfits import MisfitError

__all__ = [
    "has_floats",
    "has_maps",
    "has_moments",
    "has_texts",
    "last_fields",
    "rewritten_json",
]

_Ints = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]

_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = map(ord, "{}[]")
_COLON, _COMMA, _QUOTE, _BACKSLASH = map(ord, ':,"\\')
_NOTHING: Final = -1


def _table(characters: str) -> _Flags:
    table = np.zeros(256, np.bool_)
    table[list(characters.encode())] = True
    return table


_STRUCTURAL: Final = _table("{}[]:,")
_OPENING: Final = _table("{[")
_CLOSING: Final = _table("}]")
_SPACE: Final = _table(" \t\r\n")
# Texts that represent numbers. Without their quotes, the parser accepts them.
_NOT_FINITE: Final = (b'"NaN"', b'"Infinity"', b'"-Infinity"')
# The characters to escape in a text, besides quotes and backslashes. Only these may separate
# values.
_ESCAPES: Final = tuple(
    (ord(character), escape)
    for character, escape in (
        ('"', b'\\"'),
        ("\\", b"\\\\"),
        ("\t", b"\\t"),
        ("\r", b"\\r"),
        ("\n", b"\\n"),
    )
)


def has_maps(kinds: Iterable[pa.DataType]) -> bool:
    """Return whether types contain a map at any depth."""
    return any(_holds(kind, pa.types.is_map) for kind in kinds)


def has_floats(kinds: Iterable[pa.DataType]) -> bool:
    """Return whether types contain a float or a double at any depth."""
    return any(_holds(kind, pa.types.is_floating) for kind in kinds)


def has_texts(kinds: Iterable[pa.DataType]) -> bool:
    """Return whether types contain a text at any depth."""
    return any(_holds(kind, is_string) for kind in kinds)


def has_moments(kinds: Iterable[pa.DataType]) -> bool:
    """Return whether types contain a timestamp at any depth."""
    return any(_holds(kind, pa.types.is_timestamp) for kind in kinds)


def _holds(kind: pa.DataType, wanted: Any) -> bool:
    if wanted(kind):
        return True
    if not pa.types.is_nested(kind):
        return False
    return any(_holds(kind.field(at).type, wanted) for at in range(kind.num_fields))


def rewritten_json(data: bytes | pa.Buffer, schema: pa.Schema) -> pa.Buffer:
    """Rewrite JSON objects for Arrow's parser.

    Args:
        data: Consecutive objects.
        schema: The fields to read.

    Returns:
        The same objects. Maps are arrays of objects of `key` and `value`, every non-null value of a
        text field is a text, and NaN and infinities have no quotes.

    Raises:
        pa.ArrowInvalid: It is not JSON. The parser finds all other problems.
    """
    found = _Tokens(np.frombuffer(data, np.uint8))
    edits = _Edits(found)
    _follow(found, _nodes_of(schema), edits)
    return edits.apply()


def last_fields(data: bytes | pa.Buffer, schema: pa.Schema) -> pa.Buffer:
    """Remove all but the last value of a field that occurs twice in an object.

    The keys of maps stay as they are.

    Args:
        data: Consecutive objects.
        schema: The fields to read.

    Raises:
        pa.ArrowInvalid: It is not JSON.
    """
    found = _Tokens(np.frombuffer(data, np.uint8))
    edits = _RepeatedFields(found)
    _follow(found, _nodes_of(schema, all_fields=True), edits)
    return edits.apply()


# --- The schema ----------------------------------------------------------------------------------


@dataclass
class _Node:
    """A type to descend into, or a text or floating-point type.

    Attributes:
        opening: The opening bracket of its values; 0 for a text or number.
        fields: Names of the fields of a struct, with the numbers of their nodes.
        values: Number of the node of the values of a list or a map.
        is_map: Whether it is a map.
        is_number: Whether it is a floating point number.
    """

    opening: int = 0
    fields: tuple[tuple[bytes, int], ...] = ()
    values: int = _NOTHING
    is_map: bool = False
    is_number: bool = False


def _nodes_of(schema: pa.Schema, *, all_fields: bool = False) -> list[_Node]:
    """Return the nodes of a schema; the first one is the record.

    Args:
        schema: The schema.
        all_fields: Whether fields without a node are needed, and structs without such types.
    """
    nodes: list[_Node] = []
    types = pa.types
    wanted = [is_string, types.is_map, types.is_floating] + [types.is_struct] * all_fields

    def node_of(kind: pa.DataType) -> int:
        if not any(_holds(kind, each) for each in wanted):
            return _NOTHING
        number = len(nodes)
        node = _Node(is_number=types.is_floating(kind))
        nodes.append(node)
        if types.is_struct(kind):
            follow(node, kind)
        elif types.is_map(kind):
            node.opening, node.is_map = _OPEN_OBJECT, True
            node.values = node_of(kind.item_type)
        elif types.is_nested(kind):
            node.opening, node.values = _OPEN_ARRAY, node_of(kind.value_type)
        return number

    def follow(node: _Node, fields: Iterable[pa.Field]) -> None:
        node.opening = _OPEN_OBJECT
        numbers = [(field.name.encode(), node_of(field.type)) for field in fields]
        node.fields = tuple(each for each in numbers if all_fields or each[1] != _NOTHING)

    root = _Node()
    nodes.append(root)
    follow(root, schema)
    return nodes


# --- The tokens ----------------------------------------------------------------------------------


class _Tokens:
    """The brackets, commas, colons, and strings of a JSON text.

    Raises:
        pa.ArrowInvalid: A string or a bracket is not closed.
    """

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self.data = data
        quotes = data == _QUOTE
        backslashes = np.flatnonzero(data == _BACKSLASH)
        if len(backslashes):
            quotes[_behind_odd_runs(backslashes, len(data))] = False
        inside = np.cumsum(quotes, dtype=np.uint8) & 1
        if len(inside) and inside[-1]:
            _refuse()
        structural = _STRUCTURAL[data]
        structural &= inside == 0
        self.at = np.flatnonzero(structural)
        self.char = data[self.at]
        opening, closing = _OPENING[self.char], _CLOSING[self.char]
        depth = np.cumsum(opening.astype(np.int64) - closing)
        if len(depth) and (depth.min() < 0 or depth[-1]):
            _refuse()
        # A bracket belongs to the depth of its contents.
        self.depth = depth + closing
        self.backslashes = backslashes
        self._filled = np.append(np.flatnonzero(~_SPACE[data]), len(data))

    def trimmed(self, starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
        """Return ranges without surrounding space; empty ones end at their start."""
        first = np.searchsorted(self._filled, starts)
        last = np.searchsorted(self._filled, ends) - 1
        is_empty = last < first
        begin = self._filled[first]
        end = self._filled[np.maximum(last, 0)] + 1
        return np.where(is_empty, starts, begin), np.where(is_empty, starts, end)

    def equals(self, starts: _Ints, ends: _Ints, text: bytes) -> _Flags:
        """Return which ranges equal the given bytes."""
        same: _Flags = (ends - starts) == len(text)
        if text and same.any():
            at = starts[same, None] + np.arange(len(text))
            same[same] = (self.data[at] == np.frombuffer(text, np.uint8)).all(axis=1)
        return same


def _behind_odd_runs(backslashes: _Ints, size: int) -> _Ints:
    """Return the positions after odd runs of backslashes, which are escaped."""
    begins = np.empty(len(backslashes), np.bool_)
    begins[0] = True
    np.not_equal(np.diff(backslashes), 1, out=begins[1:])
    first = np.maximum.accumulate(np.where(begins, np.arange(len(backslashes)), 0))
    number = np.arange(len(backslashes)) - first
    escaped: _Ints = backslashes[number % 2 == 0] + 1
    return escaped[escaped < size]


# --- Rewriting -----------------------------------------------------------------------------------


def _follow(found: _Tokens, nodes: Sequence[_Node], edits: _Edits) -> None:
    """Descend into the objects along the schema, one depth after another."""
    depth = 1
    # The opening brackets of relevant containers, and the node of each.
    opened = found.at[(found.depth == depth) & (found.char == _OPEN_OBJECT)]
    node_of = np.zeros(len(opened), np.int64)
    while len(opened):
        of_depth = np.flatnonzero(found.depth == depth)
        at, char = found.at[of_depth], found.char[of_depth]
        opens = _OPENING[char]
        # The node of each container of this depth, and so of each of its tokens.
        containers = np.full(int(opens.sum()), _NOTHING, np.int64)
        containers[np.searchsorted(at[opens], opened)] = node_of
        node = containers[np.cumsum(opens) - 1]
        child = np.full(len(at), _NOTHING, np.int64)
        for number in np.unique(node_of).tolist():
            tokens = np.flatnonzero(node == number)
            if nodes[number].is_map:
                _check_map(found, at, char, tokens)
                edits.of_map(at, char, tokens)
            colons, field_of = _set_children(found, nodes[number], at, char, tokens, child)
            edits.of_fields(at, opens, colons, field_of, child)
        opened, node_of = _enter(found, nodes, at, child, edits)
        depth += 1


def _set_children(
    found: _Tokens, node: _Node, at: _Ints, char: npt.NDArray[np.uint8], tokens: _Ints, child: _Ints
) -> tuple[_Ints, _Ints]:
    """Set the nodes of the values after the tokens of containers of one node.

    Returns:
        The colons of known fields, and the number of the field of each.
    """
    nothing = np.zeros(0, np.int64)
    if node.opening == _OPEN_ARRAY:
        child[tokens[~_CLOSING[char[tokens]]]] = node.values
        return nothing, nothing
    colons = tokens[char[tokens] == _COLON]
    if node.is_map:
        child[colons] = node.values
        return nothing, nothing
    if not len(colons):
        return nothing, nothing
    # A key is the string between the token before the colon and the colon.
    begins, ends = found.trimmed(at[colons - 1] + 1, at[colons])
    begins, ends = begins + 1, ends - 1
    field_of = np.full(len(colons), _NOTHING, np.int64)
    for at_field, (name, _) in enumerate(node.fields):
        field_of[found.equals(begins, ends, name)] = at_field
    escaped = np.flatnonzero(_has_backslash(found, begins, ends))
    for key in escaped.tolist():
        try:
            name = json.loads(found.data[begins[key] - 1 : ends[key] + 1].tobytes())
        except ValueError:
            _refuse()
        for at_field, (field, _) in enumerate(node.fields):
            if field.decode() == name:
                field_of[key] = at_field
    is_known = field_of != _NOTHING
    colons, field_of = colons[is_known], field_of[is_known]
    child[colons] = np.array([number for _, number in node.fields], np.int64)[field_of]
    return colons, field_of


def _has_backslash(found: _Tokens, begins: _Ints, ends: _Ints) -> _Flags:
    places = found.backslashes
    return np.searchsorted(places, ends) > np.searchsorted(places, begins)


def _enter(
    found: _Tokens, nodes: Sequence[_Node], at: _Ints, child: _Ints, edits: _Edits
) -> tuple[_Ints, _Ints]:
    """Quote the values that must be texts, and enter the other values with a node."""
    of_interest = np.flatnonzero(child != _NOTHING)
    if not len(of_interest) or of_interest[-1] + 1 >= len(at):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    begins, ends = found.trimmed(at[of_interest] + 1, at[of_interest + 1])
    number = child[of_interest]
    first = np.where(ends > begins, found.data[np.minimum(begins, len(found.data) - 1)], 0)
    opening = np.array([node.opening for node in nodes], np.int64)[number]
    is_number = np.array([node.is_number for node in nodes])[number]
    is_text = (opening == 0) & ~is_number & (first != 0) & (first != _QUOTE)
    is_text[is_text] = ~found.equals(begins[is_text], ends[is_text], b"null")
    edits.quote(begins[is_text], ends[is_text])
    quoted = is_number & (first == _QUOTE)
    for text in _NOT_FINITE:
        same = found.equals(begins[quoted], ends[quoted], text)
        edits.unquote(begins[quoted][same], ends[quoted][same])
    # The parser would accept an array of entries as a map.
    is_map = np.array([node.is_map for node in nodes])[number]
    if (is_map & (first == _OPEN_ARRAY)).any():
        _refuse()
    entered = (opening != 0) & (first == opening)
    return begins[entered], number[entered]


def _check_map(found: _Tokens, at: _Ints, char: npt.NDArray[np.uint8], tokens: _Ints) -> None:
    """Check what the parser can no longer see: keys and values alternate, and keys are strings."""
    this, behind = char[tokens], char[np.minimum(tokens + 1, len(char) - 1)]
    starts = at[tokens] + 1
    begins, ends = found.trimmed(starts, at[np.minimum(tokens + 1, len(at) - 1)])
    is_open, is_close = this == _OPEN_OBJECT, this == _CLOSE_OBJECT
    before_key = is_open | (this == _COMMA)
    is_empty = is_open & (behind == _CLOSE_OBJECT) & (begins == ends)
    is_key = before_key & (behind == _COLON) & (begins < ends)
    is_key[is_key] = found.data[begins[is_key]] == _QUOTE
    is_value = (this == _COLON) & ((behind == _COMMA) | (behind == _CLOSE_OBJECT))
    if not (is_empty | is_key | is_value | is_close).all():
        _refuse()


class _Edits:
    """Replacements of single bytes, and insertions before and after bytes."""

    def __init__(self, found: _Tokens) -> None:
        self._found = found
        self._places: list[_Ints] = []
        self._texts: list[bytes] = []
        self._begins: list[_Ints] = []
        self._ends: list[_Ints] = []

    def of_map(self, at: _Ints, char: npt.NDArray[np.uint8], tokens: _Ints) -> None:
        """Write maps as arrays of their entries."""
        this = char[tokens]
        is_open = this == _OPEN_OBJECT
        behind = tokens + 1 - (tokens + 1 == len(char))
        before = tokens - (tokens > 0)
        opens_empty = is_open & (char[behind] == _CLOSE_OBJECT)
        closes_empty = (this == _CLOSE_OBJECT) & (char[before] == _OPEN_OBJECT)
        for chosen, text in (
            (opens_empty, b"["),
            (closes_empty, b"]"),
            (is_open & ~opens_empty, b'[{"key":'),
            (this == _COLON, b',"value":'),
            (this == _COMMA, b'},{"key":'),
            ((this == _CLOSE_OBJECT) & ~closes_empty, b"}]"),
        ):
            self._places.append(at[tokens[chosen]])
            self._texts.append(text)

    def of_fields(
        self, at: _Ints, opens: _Flags, colons: _Ints, field_of: _Ints, child: _Ints
    ) -> None:
        """Edit the fields of objects of one node; by default, none."""

    def quote(self, begins: _Ints, ends: _Ints) -> None:
        """Write values as texts.

        Raises:
            pa.ArrowInvalid: A value is not JSON.
        """
        if not len(begins):
            return
        _check_values(self._found.data, begins, ends)
        self._begins.append(begins)
        self._ends.append(ends)

    def unquote(self, begins: _Ints, ends: _Ints) -> None:
        """Replace the quotes around values with spaces."""
        for places in (begins, ends - 1):
            self._places.append(places)
            self._texts.append(b" ")

    def apply(self) -> pa.Buffer:
        """Return the edited text."""
        data = self._found.data
        size = len(data)
        sizes = np.ones(size, np.int32)
        begins = np.concatenate([*self._begins, np.zeros(0, np.int64)])
        ends = np.concatenate([*self._ends, np.zeros(0, np.int64)])
        if len(begins):
            marks = np.zeros(size + 1, np.int8)
            marks[begins] = 1
            marks[ends] -= 1
            quoted = np.flatnonzero(np.cumsum(marks, dtype=np.int8)[:size])
            for code, escape in _ESCAPES:
                self._places.append(quoted[data[quoted] == code])
                self._texts.append(escape)
        for places, text in zip(self._places, self._texts, strict=True):
            sizes[places] = len(text)
        # A quote before the first byte of a text, and one after its last.
        sizes[begins] += 1
        sizes[ends - 1] += 1
        to = np.cumsum(sizes, dtype=np.int64) - sizes
        written = np.empty(int(sizes.sum(dtype=np.int64)), np.uint8)
        written[to[begins]] = _QUOTE
        written[to[ends - 1] + sizes[ends - 1] - 1] = _QUOTE
        to[begins] += 1
        written[to] = data
        for places, text in zip(self._places, self._texts, strict=True):
            written[to[places][:, None] + np.arange(len(text))] = np.frombuffer(text, np.uint8)
        return pa.py_buffer(written)


class _RepeatedFields(_Edits):
    """Replaces fields that occur again in their object with spaces, and edits nothing else."""

    def of_map(self, at: _Ints, char: npt.NDArray[np.uint8], tokens: _Ints) -> None:
        pass

    def of_fields(
        self, at: _Ints, opens: _Flags, colons: _Ints, field_of: _Ints, child: _Ints
    ) -> None:
        if not len(colons):
            return
        container = np.cumsum(opens)[colons]
        field = container * (field_of.max() + 1) + field_of
        _, last = np.unique(field[::-1], return_index=True)
        is_repeated = np.ones(len(field), np.bool_)
        is_repeated[len(field) - 1 - last] = False
        repeated = colons[is_repeated]
        if not len(repeated):
            return
        child[repeated] = _NOTHING
        # From after the token before the key to the comma after the value.
        begins, ends = at[repeated - 1] + 1, at[repeated + 1]
        _check_values(self._found.data, begins, ends, in_object=True)
        spans = zip(begins, ends, strict=True)
        self._places.append(np.concatenate([np.arange(begin, end + 1) for begin, end in spans]))
        self._texts.append(b" ")

    def quote(self, begins: _Ints, ends: _Ints) -> None:
        pass

    def unquote(self, begins: _Ints, ends: _Ints) -> None:
        pass


def _check_values(
    data: npt.NDArray[np.uint8], begins: _Ints, ends: _Ints, *, in_object: bool = False
) -> None:
    """Check in one call that each range holds one JSON value, or one field with its value.

    Brackets and quotes are balanced within each range, so none can extend into the next.
    """
    values = [data[begin:end].tobytes() for begin, end in zip(begins, ends, strict=True)]
    if in_object:
        values = [b"{%s}" % value for value in values]
    try:
        json.loads(
            b"[" + b",".join(values) + b"]",
            parse_int=lambda _: None,
            parse_float=lambda _: None,
            parse_constant=_refuse,
        )
    except (ValueError, RecursionError):
        _refuse()


def _refuse(_: object = None) -> NoReturn:
    raise MisfitError("JSON parse error: not JSON")
