# SPDX-License-Identifier: Apache-2.0
"""Columns of messages that a JSON Schema describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
import pyarrow as pa

__all__ = ["columns_of_json_schema"]

# What no type describes is the text of its JSON, as the JSON format reads it.
_TEXT: Final = pa.string()
_PLAIN: Final = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
}
_FORMATS: Final = {"date": pa.date32(), "date-time": pa.timestamp("us", tz="UTC")}
_LOCAL: Final = "#/"


def columns_of_json_schema(text: str) -> pa.Schema:
    """Return the columns of objects that match a JSON Schema; driver.

    A property of several types, or without one, is the text of its JSON.

    Raises:
        ValueError: It is not the schema of an object with properties.
    """
    root = orjson.loads(text)
    found = _Types(root).of(root, ()) if isinstance(root, dict) else _TEXT
    if not pa.types.is_struct(found):
        raise ValueError("the JSON Schema is not that of an object with properties")
    return pa.schema(list(found))


class _Types:
    """The types of the parts of one JSON Schema.

    Args:
        root: The whole schema, to whose parts others refer.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def of(self, schema: Any, within: tuple[str, ...]) -> pa.DataType:
        """Return the type of a part; ``within`` has the references that lead to it."""
        if not isinstance(schema, dict):
            return _TEXT
        reference = schema.get("$ref")
        if isinstance(reference, str):
            # A type that contains itself has no end.
            target = None if reference in within else self._referred(reference)
            return self.of(target, (*within, reference))
        for key in ("oneOf", "anyOf"):
            if isinstance(schema.get(key), list):
                present = [each for each in schema[key] if each != {"type": "null"}]
                return self.of(present[0], within) if len(present) == 1 else _TEXT
        match _one_type(schema.get("type")):
            case "object":
                return self._object(schema, within)
            case "array":
                return pa.list_(self.of(schema.get("items"), within))
            case "string":
                return _FORMATS.get(str(schema.get("format")), _TEXT)
            case kind:
                return _PLAIN.get(kind, _TEXT)

    def _object(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> pa.DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            return pa.struct([(name, self.of(each, within)) for name, each in properties.items()])
        values = schema.get("additionalProperties")
        return pa.map_(pa.string(), self.of(values, within)) if isinstance(values, dict) else _TEXT

    def _referred(self, reference: str) -> Any:
        found: Any = self._root if reference.startswith(_LOCAL) else None
        for name in reference.removeprefix(_LOCAL).split("/"):
            key = name.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found


def _one_type(given: Any) -> str:
    """Return the only type besides null; nothing if there are several, or none."""
    kinds = [each for each in (given if isinstance(given, list) else [given]) if each != "null"]
    return str(kinds[0]) if len(kinds) == 1 else ""
