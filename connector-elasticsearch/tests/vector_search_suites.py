# SPDX-License-Identifier: Apache-2.0
"""The core's test suite for vector searches, with its test data and capabilities."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from elasticsearch_system import PASSWORD, OnElasticsearch, connection_to, server_at
from source_suites import IndexWriter

from connector_elasticsearch import ElasticsearchTable
from connectors_core.lookup import LookupOptions, LookupRequestConfiguration
from connectors_core.testing import (
    Capabilities,
    Capability,
    VectorSearchExternalContext,
    VectorSearchTestSuite,
)
from connectors_core.testing.servers import FaultyNetwork

VECTORS = Capabilities(
    can=frozenset(
        {
            Capability.VECTOR_SEARCH,
            Capability.ASYNC_VECTOR_SEARCH,
            Capability.OUTAGES,
            Capability.SECRETS,
        }
    )
)
# Vectors that are not quantized, so that their scores are exact.
_TYPES = {
    "number": {"type": "long"},
    "text": {"type": "keyword"},
    "embedding": {
        "type": "dense_vector",
        "dims": 8,
        "similarity": "cosine",
        "index_options": {"type": "hnsw"},
    },
}
_REQUESTS = LookupRequestConfiguration(
    timeout=timedelta(seconds=5),
    initial_backoff=timedelta(milliseconds=10),
    max_backoff=timedelta(milliseconds=50),
)


class VectorIndex(VectorSearchExternalContext):
    """An index for one test case, behind a network that can fail."""

    def __init__(self, address: str) -> None:
        self._server = server_at(address)
        self._network = FaultyNetwork()
        self._network.__enter__()
        self._network.forward_to(self._server.port)
        self._connection = connection_to(f"http://{self._network.address}")
        self._name = f"suite-{uuid.uuid4().hex}"

    def create_table(self, options: Mapping[str, str]) -> ElasticsearchTable:
        given = LookupOptions.from_options(options)
        return ElasticsearchTable(
            self._connection,
            self._name,
            cache=given.cache,
            requests=_REQUESTS.replaced(max_retries=given.requests.max_retries),
            asynchronous=given.asynchronous,
            num_candidates=500,
        )

    def write(self, rows: pa.Table) -> None:
        with contextlib.suppress(Exception):
            self._server.request("DELETE", f"/{self._name}")
        self._server.request("PUT", f"/{self._name}", {"mappings": {"properties": _TYPES}})
        if rows.num_rows:
            IndexWriter(self._server, self._name).write(rows)

    def scores(
        self, query: npt.NDArray[np.float32], vectors: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float64]:
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
        return (1 + (vectors @ query) / lengths).astype(np.float64) / 2

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self._network.refuse()
        yield
        self._network.restore()

    def secrets(self) -> Sequence[str]:
        return [PASSWORD]

    def close(self) -> None:
        self._network.__exit__(None, None, None)
        self._server.request("DELETE", f"/{self._name}*")


class ElasticsearchVectorSuite(OnElasticsearch, VectorSearchTestSuite):
    capabilities = VECTORS

    def external_context(self, folder: Path) -> VectorIndex:
        return VectorIndex(self.address)
