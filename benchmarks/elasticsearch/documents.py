# SPDX-License-Identifier: Apache-2.0
"""The documents: the flights table, with a number as the ID."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connector_elasticsearch.testing import ElasticsearchServer

FILES = 4
SHARDS = 2
_TYPES = {pa.int64(): "long", pa.string(): "keyword", pa.float64(): "double"}


@dataclass(frozen=True)
class Documents:
    """Files of rows to write as documents.

    Attributes:
        folder: The folder of the files.
        schema: The schema of the rows. `id` is a unique number.
        count: The number of rows.
    """

    folder: Path
    schema: pa.Schema
    count: int

    def table(self) -> pa.Table:
        """Return all rows."""
        return pq.read_table(self.folder)

    @property
    def mapping(self) -> dict[str, Any]:
        """Return the index mapping of the rows."""
        kinds = {field.name: _TYPES.get(field.type, "date") for field in self.schema}
        return {"properties": {name: {"type": kind} for name, kind in kinds.items()}}


def prepared(folder: Path, flights: pa.Table) -> Documents:
    """Write the files once."""
    folder.mkdir(parents=True)
    table = flights.add_column(0, "id", pa.array(range(flights.num_rows), pa.int64()))
    rows = table.num_rows // FILES
    for number in range(FILES):
        pq.write_table(table.slice(number * rows, rows), folder / f"{number}.parquet")
    return Documents(folder, table.schema, rows * FILES)


@contextmanager
def new_index(
    server: ElasticsearchServer, documents: Documents, *, shards: int = SHARDS
) -> Iterator[str]:
    """Create an empty index for the documents, and delete it at the end."""
    index = f"bench-{time.monotonic_ns()}"
    settings = {"number_of_shards": shards, "number_of_replicas": 0}
    server.request("PUT", f"/{index}", {"settings": settings, "mappings": documents.mapping})
    try:
        yield index
    finally:
        server.request("DELETE", f"/{index}")


def seconds_to_write(
    server: ElasticsearchServer,
    documents: Documents,
    write: Callable[[str], None],
    clock: Callable[[], float],
) -> float:
    """Write all documents to a new index, check their number, and return the time by a clock."""
    with new_index(server, documents) as index:
        began = clock()
        write(index)
        elapsed = clock() - began
        found = server.count(index)
    assert found == documents.count, f"{found} of {documents.count} documents were written"
    return elapsed
