# SPDX-License-Identifier: Apache-2.0
"""Joins rows with the most similar rows of a table, as a lookup join whose keys are vectors.

The key of a vector is the bytes of its elements, as 32-bit floats. So requests, caches, and the
join itself are those of lookups, and no object per element is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import BadRecordError, ConfigurationError, FatalError
from connectors_core.lookup.function import AsyncLookupFunction, FunctionContext, LookupFunction
from connectors_core.lookup.join import JoinType, LookupJoin, pairs_of
from connectors_core.lookup.lookup_table_source import LookupRuntimeProvider
from connectors_core.lookup.provider import provider_of
from connectors_core.lookup.vector_search import (
    AsyncVectorSearchFunction,
    VectorMatches,
    VectorSearchContext,
    VectorSearchFunction,
    VectorSearchRuntimeProvider,
)
from connectors_core.options import Option, positive

__all__ = ["VectorJoin", "keys_of", "vectors_of"]

# No column of a table has these names.
_KEY: Final = "\0vector"
_SCORE: Final = "\0score"
_FLOAT_BYTES: Final = 4
_MOST_ROWS: Final = 256
# The rows of a request carry copies of its vectors, one for each match.
_MOST_KEY_BYTES: Final = 16 << 20
_TOP_K: Final = Option("top_k", int, validator=positive, doc="The number of rows for a vector.")


@dataclass(frozen=True, kw_only=True)
class VectorJoin(LookupJoin):
    """A join of rows with the most similar rows of a table; created by :meth:`searching`.

    Attributes:
        search_column: The column of the table whose vectors are compared.
        top_k: The maximum number of rows for a vector.
        dimensions: The number of elements of each vector, or None if it is unknown.
    """

    search_column: str
    top_k: int
    dimensions: int | None = None

    @classmethod
    def searching(
        cls,
        rows: pa.Schema,
        table: pa.Schema,
        *,
        vector_column: str,
        search_column: str | None = None,
        top_k: int,
        how: JoinType = "left",
        columns: Sequence[str] | Mapping[str, str] | None = None,
        score: str = "score",
    ) -> VectorJoin:
        """Validate and complete the arguments of a search.

        Args:
            rows: Schema of the rows.
            table: Schema of the whole table.
            vector_column: The column of the rows with vectors.
            search_column: The column of the table with vectors, by default that of the same name.
            top_k: The maximum number of rows for a vector.
            how: "left" keeps rows without a match, "inner" does not.
            columns: Columns of the table to add, or a mapping from these to their names in the
                result; by default all but the searched one.
            score: Name of the result's column with the score.

        Raises:
            ConfigurationError: Columns are missing, duplicate, or have no vectors, or ``top_k`` is
                not above zero.
        """
        searched = search_column or vector_column
        for schema, name, where, option in (
            (rows, vector_column, "the rows", "vector_column"),
            (table, searched, "the table", "search_column"),
        ):
            _check_vectors(schema, name, where, option)
        if columns is None:
            columns = [name for name in table.names if name != searched]
        keyed = pa.schema(
            pa.field(vector_column, pa.binary()) if field.name == vector_column else field
            for field in rows
        )
        found = LookupJoin.of(
            keyed,
            pa.schema([pa.field(_KEY, pa.binary()), *table, pa.field(_SCORE, pa.float64())]),
            on={vector_column: _KEY},
            columns={**dict(pairs_of(columns, "columns")), _SCORE: score},
            how=how,
        )
        return cls(
            rows=rows,
            table=found.table,
            on=found.on,
            columns=found.columns,
            how=found.how,
            search_column=searched,
            top_k=_TOP_K.accept(top_k),
        )

    @property
    def context(self) -> VectorSearchContext:
        """The parameters of the search that the table needs."""
        needed = [field for field in self.table if field.name not in (_KEY, _SCORE)]
        return VectorSearchContext(
            search_column=self.search_column, schema=pa.schema(needed), top_k=self.top_k
        )

    def origin_of(self, name: str) -> str:
        """See `LookupJoin.origin_of`. The score comes from the searched column."""
        return self.search_column if name in (_KEY, _SCORE) else name

    def provider(self, search: VectorSearchRuntimeProvider) -> LookupRuntimeProvider:
        """Return a search as a lookup by key. Driver."""
        function = search.function
        return provider_of(
            _AsyncSearch(function, self)
            if isinstance(function, AsyncVectorSearchFunction)
            else _Search(function, self),
            search.cache,
            search.requests,
        )

    def pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """See `LookupJoin.pieces`. Limits the memory for the matches of a request."""
        longest = pc.max(pc.list_value_length(rows.column(self.on[0]))).as_py() or 1
        fitting = _MOST_KEY_BYTES // (longest * _FLOAT_BYTES * self.top_k)
        most = max(1, min(_MOST_ROWS, fitting))
        for first in range(0, rows.num_rows, most):
            yield rows.slice(first, most)

    def key_columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """See `LookupJoin.key_columns`.

        Raises:
            BadRecordError: A vector has another number of elements than those of the table, or a
                null or infinite element, or one that is not a number.
        """
        (name,) = self.on
        vectors = rows.column(name)
        if self.dimensions is not None:
            lengths = pc.list_value_length(vectors)
            other = lengths.filter(pc.not_equal(lengths, self.dimensions))
            if len(other):
                raise _bad_vector(
                    name,
                    f"it has {other[0].as_py()} elements, and those of the table have "
                    f"{self.dimensions}",
                )
        return [keys_of(vectors, name)]

    def found(self, keys: pa.RecordBatch, matches: VectorMatches) -> pa.Table:
        """Return the matches of some keys as rows of `table`.

        Raises:
            FatalError: The matches do not fit the keys.
        """
        counts = np.asarray(matches.counts)
        rows, scores = matches.rows, matches.scores
        found = rows.num_rows if rows.num_columns else len(scores)
        fits = len(counts) == keys.num_rows and counts.sum() == found == len(scores)
        if not fits or counts.max(initial=0) > self.top_k:
            raise FatalError(
                "the vector search returned matches that do not fit its request",
                expected=f"at most {self.top_k} rows for each of {keys.num_rows} vectors",
                found=f"{found} rows and {len(scores)} scores for {len(counts)} vectors, "
                f"at most {counts.max(initial=0)} for one",
                hint="this is a bug in the connector: report it",
            )
        key = keys.column(0).take(pa.array(np.repeat(np.arange(keys.num_rows), counts)))
        names = [_KEY, *rows.column_names, _SCORE]
        return pa.Table.from_arrays([key, *rows.columns, scores], names)


@dataclass
class _Search(LookupFunction):
    """Looks up the bytes of vectors."""

    function: VectorSearchFunction
    join: VectorJoin

    def open(self, context: FunctionContext) -> None:
        self.function.open(context)

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        matches = self.function.vector_search(self.join.top_k, vectors_of(keys.column(0)))
        return self.join.found(keys, matches)

    def close(self) -> None:
        self.function.close()


@dataclass
class _AsyncSearch(AsyncLookupFunction):
    """Looks up the bytes of vectors, several batches concurrently."""

    function: AsyncVectorSearchFunction
    join: VectorJoin

    def open(self, context: FunctionContext) -> None:
        self.function.open(context)

    async def async_lookup(self, keys: pa.RecordBatch) -> pa.Table:
        vectors = vectors_of(keys.column(0))
        return self.join.found(
            keys, await self.function.async_vector_search(self.join.top_k, vectors)
        )

    async def close(self) -> None:
        await self.function.close()


# --- Vectors as bytes -----------------------------------------------------------------------------


def keys_of(vectors: pa.ListArray, name: str) -> pa.BinaryArray:
    """Return the elements of vectors as bytes. A null vector stays null.

    Args:
        vectors: Lists of floats.
        name: The column, for errors.

    Raises:
        BadRecordError: An element is null, infinite as a 32-bit float, or not a number.
    """
    elements = vectors.flatten()
    if elements.null_count:
        raise _bad_vector(name, "an element is null")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(elements.to_numpy(zero_copy_only=False), np.float32)
    if not np.isfinite(values).all():
        raise _bad_vector(name, "an element is not a finite 32-bit float")
    lengths = pc.fill_null(pc.list_value_length(vectors), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(vectors) + 1, np.int32)
    np.cumsum(lengths * _FLOAT_BYTES, out=offsets[1:])
    valid = np.packbits(np.asarray(vectors.is_valid()), bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), len(vectors), buffers)


def vectors_of(keys: pa.BinaryArray) -> pa.ListArray:
    """Return the vectors of keys without nulls, as lists of 32-bit floats."""
    _, offsets, values = keys.buffers()
    places = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    first, end = int(places[0]), int(places[-1])
    elements = np.frombuffer(values, np.float32, (end - first) // _FLOAT_BYTES, first)
    return pa.ListArray.from_arrays(pa.array((places - first) // _FLOAT_BYTES), pa.array(elements))


def _check_vectors(schema: pa.Schema, name: str, where: str, option: str) -> None:
    if schema.names.count(name) != 1:
        raise ConfigurationError(
            f"{where} of a vector search must have exactly one column {name!r}",
            expected=f"one of {', '.join(schema.names)}",
            found=name,
            option=option,
        )
    kind = schema.field(name).type
    if not (pa.types.is_list(kind) and kind.value_type in (pa.float32(), pa.float64())):
        raise ConfigurationError(
            f"the column {name!r} of {where} has no vectors",
            expected="ARRAY<FLOAT> or ARRAY<DOUBLE>",
            found=str(kind),
            option=option,
        )


def _bad_vector(name: str, reason: str) -> BadRecordError:
    return BadRecordError(
        f"a vector of the column {name!r} cannot be searched: {reason}",
        option="vector_column",
        hint="remove such rows before the search, or set their vector to null",
    )
