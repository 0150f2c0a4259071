# SPDX-License-Identifier: Apache-2.0
"""Functions that search the documents nearest to a batch of vectors. Executor."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from connector_elasticsearch.client import AsyncElasticsearchClient, ElasticsearchClient
from connector_elasticsearch.vector_search.searches import VectorSearches
from connectors_core.lookup import (
    AsyncVectorSearchFunction,
    FunctionContext,
    VectorMatches,
    VectorSearchFunction,
)

__all__ = ["ElasticsearchAsyncVectorSearchFunction", "ElasticsearchVectorSearchFunction"]


class ElasticsearchVectorSearchFunction(VectorSearchFunction):
    """Sends requests and waits for each response.

    Args:
        searches: The builder of the requests.
    """

    def __init__(self, searches: VectorSearches) -> None:
        self._searches = searches
        self._client: ElasticsearchClient | None = None

    def open(self, context: FunctionContext) -> None:
        """Create the client."""
        self._client = ElasticsearchClient(self._searches.connection)

    def vector_search(self, top_k: int, vectors: pa.ListArray) -> VectorMatches:
        """Return the documents nearest to some vectors."""
        requests = self._searches.requests(vectors)
        return self._searches.joined([self._search(count, body) for count, body in requests])

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _search(self, count: int, body: bytes) -> VectorMatches:
        assert self._client is not None  # `open` created it
        searches = self._searches
        answer = self._client.request_bytes(
            "POST", searches.path, body, params=searches.parameters, doing=searches.doing
        )
        return searches.matches(count, answer)


class ElasticsearchAsyncVectorSearchFunction(AsyncVectorSearchFunction):
    """Sends several requests concurrently.

    Args:
        searches: The builder of the requests.
    """

    def __init__(self, searches: VectorSearches) -> None:
        self._searches = searches
        self._client: AsyncElasticsearchClient | None = None

    async def async_vector_search(self, top_k: int, vectors: pa.ListArray) -> VectorMatches:
        """Return the documents nearest to some vectors."""
        if self._client is None:
            self._client = AsyncElasticsearchClient(self._searches.connection)
        client = self._client
        requests = self._searches.requests(vectors)
        asked = [self._search(client, count, body) for count, body in requests]
        return self._searches.joined(await asyncio.gather(*asked))

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _search(
        self, client: AsyncElasticsearchClient, count: int, body: bytes
    ) -> VectorMatches:
        searches = self._searches
        answer = await client.request_bytes(
            "POST", searches.path, body, params=searches.parameters, doing=searches.doing
        )
        return searches.matches(count, answer)
