# SPDX-License-Identifier: Apache-2.0
"""Routers: the route of each row, and the sink of each route."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.sink.sink import Sink

__all__ = ["ColumnRouter", "SinkRouter", "rows_by_route"]


class SinkRouter(ABC):
    """Chooses a route for each row, and creates the sink of a route. Driver and executor; pickled.

    A route is a text that names one target, such as a topic or a folder. Decisions store routes, so
    a later driver must create the same sink for the same route.
    """

    @abstractmethod
    def routes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the route of each row, as texts. A row with a null has no route. Executor."""

    @abstractmethod
    def create_sink(self, route: str) -> Sink | None:
        """Return the sink of a route; None if the route is unknown.

        An executor calls it at the first row of a route in a task, and the driver at its first
        commit.
        """

    def known_routes(self) -> Sequence[str]:
        """Return routes that exist without any rows. Driver.

        The driver opens their committers at the start, which checks their targets, and removes
        staged data that a former driver left there. It learns all other routes from their commits.
        """
        return ()

    def keys(self) -> Sequence[str]:
        """Return the columns that determine the route, if columns do.

        If the number of writers is fixed, the rows of a route then go to one writer.
        """
        return ()

    def validate(self, schema: pa.Schema) -> None:
        """Reject rows that have no routes, when the pipeline is built. Driver.

        Raises:
            ConfigurationError: The schema does not match.
        """


class ColumnRouter(SinkRouter):
    """Routes rows by the value of a column, as text.

    Args:
        column: The column.
        create: Returns the sink of a value; None if the value is unknown. Picklable.
        known: Values that exist without any rows.
    """

    def __init__(
        self, column: str, create: Callable[[str], Sink | None], *, known: Sequence[str] = ()
    ) -> None:
        self._column = column
        self._create = create
        self._known = tuple(known)

    def routes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column as text."""
        return pc.cast(batch.column(self._column), pa.string())

    def create_sink(self, route: str) -> Sink | None:
        """Call the function of the constructor."""
        return self._create(route)

    def known_routes(self) -> Sequence[str]:
        """Return the values of the constructor."""
        return self._known

    def keys(self) -> Sequence[str]:
        """Return the column."""
        return (self._column,)

    def validate(self, schema: pa.Schema) -> None:
        """Reject rows without the column, or with values that have no text."""
        if self._column not in schema.names:
            raise ConfigurationError(
                f"the rows have no column {self._column!r}, which names their route",
                expected=self._column,
                found=", ".join(schema.names),
            )
        try:
            pc.cast(pa.nulls(0, schema.field(self._column).type), pa.string())
        except pa.ArrowNotImplementedError as error:
            raise ConfigurationError(
                f"the values of column {self._column!r} cannot name routes",
                expected="a type that Arrow converts to text",
                found=str(schema.field(self._column).type),
            ) from error


def rows_by_route(
    batch: pa.RecordBatch, routes: pa.Array
) -> Iterator[tuple[str | None, pa.RecordBatch, np.ndarray]]:
    """Divide a batch by routes, in a few Arrow and NumPy calls. The order within a route stays.

    Args:
        batch: The rows.
        routes: The route of each row.

    Yields:
        A route, its rows, and their positions in the batch. None is the route of rows without one.

    Raises:
        FatalError: There are more or fewer routes than rows.
    """
    if len(routes) != batch.num_rows:
        raise FatalError(
            "a router must return a route for each row",
            expected=str(batch.num_rows),
            found=str(len(routes)),
            hint="return null for rows without a route",
        )
    encoded = pc.cast(routes, pa.string()).dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = pc.fill_null(encoded.indices, len(names)).to_numpy(zero_copy_only=False)
    counts = np.bincount(codes, minlength=len(names) + 1)
    order = np.argsort(codes, kind="stable")
    rows = batch if np.count_nonzero(counts) <= 1 else batch.take(pa.array(order))
    start = 0
    for name, count in zip([*names, None], counts.tolist(), strict=True):
        if count:
            yield name, rows.slice(start, count), order[start : start + count]
            start += count
