# SPDX-License-Identifier: Apache-2.0
"""The core's test suites for the Elasticsearch source, with their test data and capabilities."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from elasticsearch_system import (
    PASSWORD,
    OnElasticsearch,
    connection_to,
    login_options,
    server_at,
)

from connector_elasticsearch import ElasticsearchSource
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core.formats import JsonFormat
from connectors_core.source import Boundedness
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    SourceExternalContext,
    SourceFormatTestSuite,
    SourceTestSuite,
    SplitDataWriter,
)

_BOUNDED = "it reads one point in time"
SOURCE = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.POISON_READS,
            Capability.MISFITS,
            Capability.REPLAYABLE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
        Capability.UNBOUNDED: _BOUNDED,
        Capability.DISCOVERY: _BOUNDED,
        Capability.GROWING_SPLITS: _BOUNDED,
        Capability.LATE_COMMITS: _BOUNDED,
        Capability.ACKNOWLEDGED_READS: _BOUNDED,
        Capability.REFUSALS: "a block of an index does not stop searches in a point in time",
        Capability.CUT_SPLITS: "a point in time keeps its documents",
        Capability.INPUT_VERSION: "no version of an index tells what a search finds",
        Capability.REPLACED_SPLITS: "without a version, nothing is noticed",
        Capability.SKIPPED_SPLITS: "no option skips what cannot be read",
    },
    cannot_carry={
        "float": "JSON has no infinity",
        "double": "JSON has no infinity",
        "day-time interval": "JSON has no lengths of time",
        "long: a fraction": "the server cuts fractions, and the source reads values as it does",
    },
)
_AT_A_TIME = 2000
_TYPES = {
    "split": {"type": "long"},
    # This lets the server accept a value that the source cannot read.
    "seq": {"type": "long", "ignore_malformed": True},
    "at": {"type": "date"},
    "text": {"type": "keyword"},
}


_POISON = b'{"split": 1, "seq": "not a number"}'


def _documents(rows: pa.RecordBatch) -> list[bytes]:
    documents: list[bytes] = JsonFormat().encode(rows).messages.to_pylist()
    return documents


class IndexWriter(SplitDataWriter):
    """Writes rows as documents to an index."""

    def __init__(self, server: ElasticsearchServer, index: str) -> None:
        self._server = server
        self._index = index

    def write(self, rows: pa.Table) -> None:
        for batch in rows.to_batches():
            self._write(_documents(batch))

    def write_poison(self) -> None:
        self._write([_POISON])

    def write_around_poison(self, *parts: pa.Table) -> None:
        documents: list[bytes] = []
        for part in parts:
            documents += [_POISON] if documents else []
            documents += [each for batch in part.to_batches() for each in _documents(batch)]
        # A single request keeps the order. The server can merge several requests in any order.
        self._write(documents)

    def _write(self, documents: Sequence[bytes]) -> None:
        for at in range(0, len(documents), _AT_A_TIME):
            some = documents[at : at + _AT_A_TIME]
            lines = b"".join(b'{"create":{}}\n%s\n' % document for document in some)
            answer = self._server.request("POST", f"/{self._index}/_bulk?refresh=true", lines)
            assert not answer["errors"], answer


class SourceIndices(SourceExternalContext):
    """The indices of one test case. Each index is a split of the suite."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._server = server_at(address)
        self._name = f"suite-{uuid.uuid4().hex}"
        self._numbers = itertools.count()
        self._indices = 0

    def create_split(self) -> IndexWriter:
        self._indices += 1
        index = f"{self._name}-{next(self._numbers):05}"
        self._server.request("PUT", f"/{index}", {"mappings": {"properties": _TYPES}})
        return IndexWriter(self._server, index)

    def create_source(self, boundedness: Boundedness) -> ElasticsearchSource:
        assert boundedness is Boundedness.BOUNDED
        return ElasticsearchSource(
            connection_to(self._address),
            f"{self._name}-*",
            schema=ROWS,
            slices=max(self._indices, 1),  # each slice is then one shard, the only one of its index
            # With this size, a split needs many pages, but not thousands.
            page_size=7 if self._server.count(f"{self._name}-*") < _AT_A_TIME else _AT_A_TIME,
        )

    def format_options(self, boundedness: Boundedness) -> Mapping[str, str]:
        assert boundedness is Boundedness.BOUNDED
        return {
            **login_options(self._address),
            "index": f"{self._name}-*",
            "schema": "split BIGINT, seq BIGINT, at TIMESTAMP, text STRING",
            "source.slices": str(max(self._indices, 1)),
        }

    def create_typed_source(self, rows: pa.Table) -> ElasticsearchSource:
        return self.create_misfit_source(rows.schema, [rows])

    def create_misfit_source(
        self, schema: pa.Schema, parts: Sequence[pa.Table]
    ) -> ElasticsearchSource:
        index = f"{self._name}-typed"
        self._server.request("PUT", f"/{index}", {"mappings": {"dynamic": False}})
        for part in parts:
            IndexWriter(self._server, index).write(part)
        return ElasticsearchSource(connection_to(self._address), index, schema=schema)

    def secrets(self) -> Sequence[str]:
        return [PASSWORD]

    def close(self) -> None:
        self._server.request("DELETE", f"/{self._name}-*")


class OfSource(OnElasticsearch):
    """Settings that the suites of the source and of its parts share."""

    capabilities = SOURCE

    def external_context(self, folder: Path) -> SourceIndices:
        return SourceIndices(self.address)


class ElasticsearchSourceSuite(OfSource, SourceTestSuite):
    pass


class ElasticsearchSourceFormatSuite(OfSource, SourceFormatTestSuite):
    format = "connector_elasticsearch"
