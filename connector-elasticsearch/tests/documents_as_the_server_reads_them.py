# SPDX-License-Identifier: Apache-2.0
"""Compares how the source and the server's `fields` option read random documents.

The `fields` option returns a flat list of values for each path, without nulls. The comparison
flattens the rows of the source in the same way.
"""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from connector_elasticsearch import ElasticsearchConnection, ElasticsearchSource
from connector_elasticsearch.source.pages import PageDecoder, Piece
from connector_elasticsearch.source.searcher import Searcher
from connector_elasticsearch.source.split import SliceSplit
from connector_elasticsearch.testing import ElasticsearchServer

# Timestamps have nanoseconds and years of any length. Python supports only four-digit years.
_DAYS_OF_400_YEARS = 146_097
_MOMENTS = "uuuu-MM-dd'T'HH:mm:ss.SSSSSSSSS'Z'"


@dataclass(frozen=True)
class Kind:
    """A field type with its mapping and possible values.

    Attributes:
        mapping: The mapping of the field.
        values: The values that a document can have, as JSON text.
    """

    mapping: Mapping[str, Any]
    values: st.SearchStrategy[str]


def _json(values: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return values.map(json.dumps)


def _whole(bits: int) -> st.SearchStrategy[str]:
    inside = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    at_ends = st.sampled_from([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0])
    numbers = (inside | at_ends).map(str)
    # The server returns larger numbers as floats with different digits, which it cannot read.
    most = 2 ** min(bits - 1, 53) - 1
    floats = st.integers(-most, most).map("{}.0".format)
    return numbers | numbers.map(json.dumps) | floats | st.just('""') | _FRACTIONS


_FRACTIONS = st.sampled_from(["5.9", "-5.9", '"7.5"', "1e2", '"1e2"', "0.0", "-0.0", '" 7"'])
_FLAGS = st.sampled_from(["true", "false", '"true"', '"false"', '""'])
_FLOATS = (
    st.floats(-6e4, 6e4, allow_nan=False).map(repr)
    | st.integers(-60000, 60000).map(str)
    | st.sampled_from(['"1.5"', '"-0"', '""', "1E4", '"1e-3"', "0.1", "16777217", "1e-45"])
)
_TEXTS = (
    _json(st.text(max_size=8))
    | st.sampled_from(
        ['"\\ud800"', '"a\\udfffb"', '"\\ud83d\\ude00"', '"\\u0000"', "true", "1.0", "1e3", "1e23"]
    )
    | st.integers(-(10**30), 10**30).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
)
_DATES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).flatmap(
    lambda at: st.sampled_from(
        [
            f'"{at.strftime("%Y").zfill(4)}"',
            f'"{at.isoformat()[:7]}"',
            f'"{at.date().isoformat()}"',
            f'"{at.isoformat()[:13]}"',
            f'"{at.isoformat()[:16]}Z"',
            f'"{at.isoformat()[:19]}.5+02:00"',
            f'"{at.isoformat()[:19]}.123456789Z"',
            str((at - datetime(1970, 1, 1)) // timedelta(milliseconds=1)),
            f'"{(at - datetime(1970, 1, 1)) // timedelta(milliseconds=1)}"',
        ]
    )
) | st.sampled_from(
    ["2013", '"2013"', "20130", "-1", '"-1"', "0", "999", '"0999"', "1356998400000.5",
     '"-0001-01-01"', "253402300800000", '"2013-01-01T10:00:00Z"', '"0000-01-01"']
)  # fmt: skip
_NANOS = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)).map(
    lambda at: f'"{at.isoformat()[:19]}.123456789Z"'
) | st.sampled_from(["2013", "1356998400000", '"2013-01"'])
_DAYS = st.dates(datetime(1000, 1, 1).date()).map(lambda day: f'"{day.strftime("%d.%m.%Y")}"')
_COMPACT = st.dates(datetime(1000, 1, 1).date()).map(lambda day: f'"{day.strftime("%d%m%Y")}"')
_SECONDS = st.integers(-(10**9), 10**10).map(str)
_MALFORMED = st.sampled_from(['"tomorrow"', "[]", "{}"])
_BYTES = st.binary(max_size=6).map(lambda value: json.dumps(base64.b64encode(value).decode()))
_ADDRESSES = _json(st.ip_addresses().map(str)) | st.sampled_from(
    ['"0:0:0:0:0:0:0:1"', '"::ffff:1.2.3.4"']
)

KINDS: Mapping[str, Kind] = {
    "byte": Kind({"type": "byte"}, _whole(8)),
    "short": Kind({"type": "short"}, _whole(16)),
    "integer": Kind({"type": "integer"}, _whole(32)),
    "long": Kind({"type": "long"}, _whole(64)),
    "float": Kind({"type": "float"}, _FLOATS),
    "half_float": Kind({"type": "half_float"}, _FLOATS),
    "double": Kind({"type": "double"}, _FLOATS),
    "boolean": Kind({"type": "boolean"}, _FLAGS),
    "keyword": Kind({"type": "keyword"}, _TEXTS),
    "text": Kind({"type": "text"}, _TEXTS),
    "binary": Kind({"type": "binary"}, _BYTES),
    "ip": Kind({"type": "ip"}, _ADDRESSES),
    "date": Kind({"type": "date"}, _DATES),
    "date_iso": Kind({"type": "date", "format": "strict_date_optional_time"}, _DATES),
    "date_millis": Kind({"type": "date", "format": "epoch_millis"}, _SECONDS | _DATES),
    "date_seconds": Kind({"type": "date", "format": "epoch_second"}, _SECONDS),
    "date_days": Kind({"type": "date", "format": "dd.MM.uuuu"}, _DAYS),
    "date_compact": Kind({"type": "date", "format": "ddMMuuuu"}, _COMPACT),
    "date_lenient": Kind({"type": "date", "format": "date_optional_time||epoch_millis"}, _DATES),
    "date_malformed": Kind(
        {"type": "date", "format": "dd.MM.uuuu", "ignore_malformed": True}, _DAYS | _MALFORMED
    ),
    "date_nanos": Kind({"type": "date_nanos"}, _NANOS),
    "date_nanos_days": Kind({"type": "date_nanos", "format": "dd.MM.uuuu"}, _DAYS),
    "long_malformed": Kind({"type": "long", "ignore_malformed": True}, _whole(64) | _MALFORMED),
}  # fmt: skip


@dataclass(frozen=True)
class Index:
    """An index with its documents.

    Attributes:
        properties: The properties of its mapping.
        array_fields: The paths with several values.
        documents: The documents, as JSON text.
    """

    properties: Mapping[str, Any]
    array_fields: Sequence[str]
    documents: Sequence[str]


@st.composite
def indices(draw: st.DrawFn, *, documents: int) -> Index:
    """Draw an index with a few field types, at the top level, in objects, and in nested objects."""
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5, unique=True))
    leaves = {name: KINDS[name] for name in names}
    arrays = [name for name in names if draw(st.booleans())]
    inside = {name: dict(kind.mapping) for name, kind in leaves.items()}
    properties = {
        **inside,
        "object": {"properties": inside},
        "objects": {"properties": {**inside, "deep": {"properties": inside}}},
        "nested": {"type": "nested", "properties": inside},
    }
    above = ("", "object.", "objects.", "objects.deep.", "nested.")
    array_fields = ["objects", *(f"{each}{name}" for each in above for name in arrays)]
    leaf = {name: _values(kind, several=name in arrays) for name, kind in leaves.items()}
    fields = _object(leaf)
    deep = _object(leaf, deep=fields)
    several = _list(deep) | deep
    document = _object(
        leaf,
        object=fields | fields.map("[{}]".format) | st.sampled_from(["null", "[]", "[null]"]),
        objects=several,
        nested=_list(fields) | fields,
        **{f"object.{name}": values for name, values in leaf.items()},
    )
    found = draw(st.lists(document, min_size=documents, max_size=documents))
    return Index(properties, array_fields, found)


def _values(kind: Kind, *, several: bool) -> st.SearchStrategy[str]:
    one = kind.values
    wrapped = one | one | one | st.just("null") | one.map("[{}]".format) | st.just("[]")
    if not several:
        return wrapped
    return wrapped | _list(one | st.just("null")) | _list(_list(one))


def _list(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda each: f"[{','.join(each)}]")


def _object(
    leaves: Mapping[str, st.SearchStrategy[str]], **more: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    """Return objects with some of the fields, but never the same field in two notations."""

    def written(found: Mapping[str, str]) -> str:
        members = [
            f"{json.dumps(name)}:{value}"
            for name, value in found.items()
            if not (name.startswith("object.") and "object" in found)
        ]
        return f"{{{','.join(members)}}}"

    return st.fixed_dictionaries({}, optional={**leaves, **more}).map(written)


def differences(server: ElasticsearchServer, name: str, index: Index) -> list[str]:
    """Create an index, and return the differences between the source and the server.

    The check ignores documents that the server rejects. The source may reject a document only if
    no row can represent it; see `_has_no_place`.
    """
    server.request(
        "PUT",
        f"/{name}",
        {
            "settings": {"number_of_replicas": 0, "number_of_shards": 1},
            "mappings": {"dynamic": False, "properties": index.properties},
        },
    )
    lines = [
        f'{{"index":{{"_id":"{at}"}}}}\n{document}\n' for at, document in enumerate(index.documents)
    ]
    server.request("POST", f"/{name}/_bulk?refresh=true", "".join(lines).encode())
    theirs = _fields(server, name)
    ours = dict(_rows(server, name, index.array_fields))
    server.request("DELETE", f"/{name}")
    assert set(ours) == set(theirs), "documents are missing"
    found = []
    for document, row in ours.items():
        text = index.documents[int(document)]
        if isinstance(row, str):
            if not _has_no_place(row, theirs[document]):
                found.append(f"{text}: not read: {row}: {theirs[document]}")
            continue
        values = dict(_flattened(row, index.properties, ""))
        for path, kind in _leaves(index.properties, ""):
            mine = [each for each in values.get(path, []) if each is not None]
            wanted = theirs[document].get(path, [])
            if not _same(mine, wanted, kind, in_order=not _has_lists_in_lists(text)):
                found.append(f"{text}: {path}: {mine} is {wanted} to the server")
    return found


def _fields(server: ElasticsearchServer, name: str) -> dict[str, dict[str, list[Any]]]:
    asked = [
        {"field": "*"},
        {"field": "*date*", "format": _MOMENTS},
        *({"field": f"{each}.*date*", "format": _MOMENTS} for each in ("object", "objects")),
    ]
    body = {"size": 10_000, "_source": False, "fields": asked[:1]}
    plain = server.request("POST", f"/{name}/_search", body)
    dates = server.request("POST", f"/{name}/_search", {**body, "fields": asked[1:]})
    found: dict[str, dict[str, list[Any]]] = {}
    for answer in (plain, dates):
        for hit in answer["hits"]["hits"]:
            found.setdefault(hit["_id"], {}).update(_flat_fields(hit.get("fields", {}), ""))
            found[hit["_id"]]["_ignored"] = hit.get("_ignored", [])
    return found


def _flat_fields(fields: Mapping[str, list[Any]], above: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, values in fields.items():
        if name == "nested":
            for each in values:
                for path, inner in _flat_fields(each, "nested.").items():
                    found.setdefault(path, []).extend(inner)
        else:
            found[f"{above}{name}"] = values
    return found


def _rows(
    server: ElasticsearchServer, name: str, array_fields: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield document IDs with their rows, or with the reason why the document is a bad record."""
    source = ElasticsearchSource(
        ElasticsearchConnection(server.url),
        name,
        array_fields=array_fields,
        metadata_columns=["_id"],
    )
    settings = source._settings()
    decoder = PageDecoder(settings.decoder())
    with closing(Searcher(settings)) as searcher:
        opened = searcher.open()
        split = SliceSplit(
            split_id="a", point_in_time=opened.id, slice=0, slices=1, documents=opened.documents
        )
        pieces: Sequence[Piece] = searcher.page(split, decoder.decode).pieces
        searcher.close_point_in_time(opened.id)
    for piece in pieces:
        if piece.damaged is not None:
            yield piece.damaged.document.partition("/")[2], piece.damaged.reason
        else:
            assert piece.batch is not None
            piece.batch.validate(full=True)
            for row in _values_of(piece.batch):
                yield row.pop("_id"), row


def _values_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows with timestamps in microseconds, as Python supports only four-digit years."""
    return pa.Table.from_batches([batch]).cast(_as_numbers(batch.schema)).to_pylist()


def _as_numbers(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_as_number(field.type)) for field in schema])


def _as_number(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_number(field.type)) for field in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(_as_number(kind.value_type))
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _leaves(properties: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name, field in properties.items():
        if "properties" in field:
            yield from _leaves(field["properties"], f"{above}{name}.")
        else:
            yield f"{above}{name}", field["type"]


def _flattened(
    row: Any, properties: Mapping[str, Any], above: str
) -> Iterator[tuple[str, list[Any]]]:
    for name, field in properties.items():
        values = [each for each in _as_list(row.get(name)) if each is not None]
        if "properties" not in field:
            yield f"{above}{name}", values
            continue
        merged: dict[str, list[Any]] = {}
        for each in values:
            for path, inner in _flattened(each, field["properties"], f"{above}{name}."):
                merged.setdefault(path, []).extend(inner)
        yield from merged.items()


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _has_lists_in_lists(document: str) -> bool:
    """Return whether the document can contain nested lists, whose values the server lists last."""
    return "[[" in document or ",[" in document


def _same(ours: Sequence[Any], theirs: Sequence[Any], kind: str, *, in_order: bool) -> bool:
    left = list(theirs)
    for each in ours:
        places = range(min(1, len(left)) if in_order else len(left))
        found = next((at for at in places if _is_same(each, left[at], kind)), None)
        if found is None:
            return False
        del left[found]
    return not left


def _is_same(ours: Any, theirs: Any, kind: str) -> bool:
    """Return whether a value equals the server's value.

    The index of the server is less precise for some types, while the source keeps the value of the
    document: sub-millisecond digits of a date, digits of a half_float, and the notation of an IP
    address.
    """
    if kind == "half_float":
        return bool(np.float16(ours) == np.float16(theirs))
    if kind == "float":
        return bool(np.float32(ours) == np.float32(theirs))
    if kind == "ip":
        return _address(ours) == _address(theirs)
    if kind == "binary":
        return bool(ours == base64.b64decode(theirs))
    if kind == "date":
        return bool(ours // 1000 == _microseconds(theirs) // 1000)
    if kind == "date_nanos":
        return bool(ours == _microseconds(theirs))
    return type(ours) is type(theirs) and bool(ours == theirs)


def _address(text: str) -> Any:
    found = ipaddress.ip_address(text)
    return getattr(found, "ipv4_mapped", None) or found


def _microseconds(text: str) -> int:
    """Return the microseconds of a timestamp of any year.

    Python supports only four-digit years, but the calendar repeats every 400 years.
    """
    year = int(text[: text.index("-", 1)])
    shifted = 2000 + year % 400
    rest = text[text.index("-", 1) :]
    at = datetime.fromisoformat(f"{shifted}{rest[:-4]}").replace(tzinfo=UTC)
    days = (year - shifted) // 400 * _DAYS_OF_400_YEARS
    return (at - datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)) // timedelta(
        microseconds=1
    )


def _has_no_place(reason: str, theirs: Mapping[str, list[Any]]) -> bool:
    """Return whether no row can represent the document, as the reason says."""
    if "surrogate" in reason:
        return any("\ud800" <= char <= "\udfff" for char in json.dumps(theirs, ensure_ascii=False))
    if theirs["_ignored"]:
        return True  # the server does not understand the value either
    if any(part in reason for part in ("date value out of range", "year", "ISO 8601")):
        return any(
            isinstance(each, str) and (each[0] in "+-" or each.startswith("0000"))
            for path, values in theirs.items()
            if "date" in path
            for each in values
        )
    return False
