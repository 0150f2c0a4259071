# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of OpenLineage's events and facets.

OpenLineage generates the classes of its client from the JSON Schemas that it publishes. This module
turns the classes into schemas again, so that the client's version is that of the schemas. In two
points, they are stricter than the published ones: they refuse properties that the client does not
know, and versions of a facet that it does not know.
"""

from __future__ import annotations

import enum
import sys
import types
import typing
from collections import ChainMap
from datetime import datetime
from urllib.parse import urlsplit

import attr
from jsonschema import Draft202012Validator, FormatChecker
from openlineage.client import event_v2, facet_v2
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    schema_dataset,
    tags_run,
)

# The facets of the events, by the class of their kind. The client adds the tags.
FACETS = {
    facet_v2.RunFacet: {
        "errorMessage": error_message_run.ErrorMessageRunFacet,
        "tags": tags_run.TagsRunFacet,
    },
    facet_v2.JobFacet: {"jobType": job_type_job.JobTypeJobFacet},
    facet_v2.DatasetFacet: {
        "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet,
        "schema": schema_dataset.SchemaDatasetFacet,
    },
    facet_v2.InputDatasetFacet: {},
    facet_v2.OutputDatasetFacet: {
        "outputStatistics": (output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet),
    },
}
_CLASSES = {each for facets in FACETS.values() for each in facets.values()}
# The client fills these in, so they are optional in its classes. The spec requires them.
_FILLED_IN = {"_producer": "uri", "_schemaURL": "uri", "producer": "uri", "schemaURL": "uri"}
_FORMATS = _FILLED_IN | {"eventTime": "date-time", "runId": "uuid"}
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_FORMAT_CHECKER = FormatChecker(["uuid"])


@_FORMAT_CHECKER.checks("date-time", raises=ValueError)
def _is_time(value):
    return "T" in value and datetime.fromisoformat(value).tzinfo is not None


@_FORMAT_CHECKER.checks("uri", raises=ValueError)
def _is_uri(value):
    return bool(urlsplit(value).scheme)


def validator():
    """Return a validator of run events."""
    definitions = _Definitions()
    schema = {**definitions.reference(event_v2.RunEvent), "$defs": definitions.found}
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=_FORMAT_CHECKER)


class _Definitions:
    """The schemas of classes, by name, each of which may refer to others and to itself."""

    def __init__(self):
        self.found = {}

    def reference(self, kind):
        name = f"{kind.__module__}.{kind.__name__}"
        if name not in self.found:
            self.found[name] = None
            self.found[name] = self._of_class(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _of_class(self, kind):
        modules = [vars(sys.modules[base.__module__]) for base in reversed(kind.__mro__)]
        hints = typing.get_type_hints(kind, dict(ChainMap(*reversed(modules))))
        fields = attr.fields(kind)
        properties = {
            field.name: self._of(hints[field.name])
            | ({"format": _FORMATS[field.name]} if field.name in _FORMATS else {})
            for field in fields
        }
        if kind in _CLASSES:
            properties["_schemaURL"]["const"] = kind._get_schema()
        return {
            "type": "object",
            "properties": properties,
            "required": [
                field.name
                for field in fields
                if field.default is attr.NOTHING or field.name in _FILLED_IN
            ],
            "additionalProperties": hasattr(kind, "with_additional_properties"),
        }

    def _of(self, hint):
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):  # without None, which is never written
            (hint,) = (each for each in arguments if each is not types.NoneType)
            return self._of(hint)
        if origin is list:
            return {"type": "array", "items": self._of(*arguments)}
        if origin is dict:
            known = FACETS.get(arguments[1], {})
            return {
                "type": "object",
                "properties": {name: self.reference(each) for name, each in known.items()},
                "additionalProperties": self._of(arguments[1]),
            }
        if issubclass(hint, enum.Enum):
            return {"enum": [each.value for each in hint]}
        return self.reference(hint) if attr.has(hint) else {"type": _TYPES[hint]}
