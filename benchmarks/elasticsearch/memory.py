# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a reader against the number of documents."""

from __future__ import annotations

import sys

from benchmarks.elasticsearch.clients import parallel_bulk
from benchmarks.elasticsearch.documents import Documents, new_index
from benchmarks.memory import peak_of, print_peak_reading
from connector_elasticsearch.testing import ElasticsearchServer


def peak(server: ElasticsearchServer, documents: Documents, times: int) -> float:
    """Return the peak resident memory of a process that reads an index in one slice, in MB.

    Args:
        server: The server of the index.
        documents: The documents in the index.
        times: The number of copies of each document.
    """
    with new_index(server, documents) as index:
        for _ in range(times):
            parallel_bulk(server, index, documents.table().to_pylist(), ids=False)
        server.request("POST", f"/{index}/_refresh")
        return peak_of("benchmarks.elasticsearch.memory", server.url, index)


def main(url: str, index: str) -> None:
    """Read the index as a task does, and print the peak memory."""
    from connector_elasticsearch import ElasticsearchSource

    print_peak_reading(ElasticsearchSource(url, index, slices=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
