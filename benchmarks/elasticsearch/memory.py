# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a reader against the number of documents."""

from __future__ import annotations

import sys

from benchmarks.elasticsearch.clients import parallel_bulk
from benchmarks.elasticsearch.documents import Documents, new_index
from benchmarks.memory import peak_of, print_peak_reading
from connector_elasticsearch.testing import ElasticsearchServer


def peak(server: ElasticsearchServer, documents: Documents, times: int) -> float:
    """Peak resident megabytes of a process that reads an index in one slice.

    Args:
        server: Where the index is.
        documents: What it is filled with.
        times: How often.
    """
    with new_index(server, documents) as index:
        for _ in range(times):
            parallel_bulk(server, index, documents.table().to_pylist(), ids=False)
        server.request("POST", f"/{index}/_refresh")
        return peak_of("benchmarks.elasticsearch.memory", server.url, index)


def main(url: str, index: str) -> None:
    """Read the index as a task would, and say how much memory that took."""
    from connector_elasticsearch import ElasticsearchSource

    print_peak_reading(ElasticsearchSource(url, index, slices=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
