# SPDX-License-Identifier: Apache-2.0
"""The settings of vector searches."""

from __future__ import annotations

from typing import Final

from connector_elasticsearch.vector_search.vector_field import MOST_CANDIDATES
from connectors_core.errors import InvalidOptionError
from connectors_core.options import MEMORY_SIZE, Configured, Setting, between, option, positive

__all__ = ["VectorSearchOptions"]

_SINCE: Final = "3.0.0"


class VectorSearchOptions(Configured, scope="Elasticsearch vector search", since=_SINCE):
    """The settings of a table for vector searches.

    Raises:
        InvalidOptionError: A value is out of range, or has no effect with the others.
    """

    num_candidates: Setting[int | None] = option(
        "vector-search.num-candidates",
        int,
        unit="documents",
        default=None,
        doc="Number of candidates that each shard considers in an approximate search. A larger "
        "number finds more of the nearest documents and is slower. The default is the server's: "
        "one and a half times the number of rows for a vector.",
        validator=between(1, MOST_CANDIDATES),
    )
    exact: Setting[bool] = option(
        "vector-search.exact",
        bool,
        default=False,
        doc="Whether a script compares a vector with those of all documents. The result is "
        "exact, and a search takes time in proportion to the number of documents.",
    )
    max_searches: Setting[int] = option(
        "vector-search.max-searches",
        int,
        unit="vectors",
        default=64,
        doc="Maximum number of vectors in a request.",
        validator=positive,
    )
    max_request_size: Setting[int, int | str] = option(
        "vector-search.max-size",
        MEMORY_SIZE,
        default=5 << 20,
        doc="Maximum size of a request. A single larger vector has a request of its own.",
        validator=positive,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exact and self.num_candidates is not None:
            raise InvalidOptionError(
                "'vector-search.num-candidates' has no effect on an exact search",
                found=self.num_candidates,
                option="vector-search.num-candidates",
                hint="remove it, or set vector-search.exact=false",
            )
