# SPDX-License-Identifier: Apache-2.0
"""Request entries that stay columns, for sinks that send many small ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.text import data_of

__all__ = ["EntryColumns"]


class EntryColumns(Sequence[bytes]):
    """Entries of many rows: the bytes of each in one column, their keys in another.

    An `ElementConverter` returns it where it makes bytes of rows column by column; its writer is
    then given such sequences to send. A Python object is made of an entry only when it is looked
    at, by its number, and the same one each time. The writer's ``get_size_in_bytes`` and
    ``get_key`` are not asked: the columns say both.

    Args:
        bodies: Bytes or texts, one for each entry, none of them null.
        keys: Entries of the same key are sent one after the other, those of null in any order.
            Of one type in all that a converter returns. None where no order matters.

    Raises:
        ValueError: A body is null, or there is another number of keys.
    """

    def __init__(self, bodies: pa.Array | pa.ChunkedArray, keys: pa.Array | None = None) -> None:
        if bodies.null_count:
            raise ValueError(f"{bodies.null_count} entries are null")
        if keys is not None and len(keys) != len(bodies):
            raise ValueError(f"{len(bodies)} entries have {len(keys)} keys")
        is_one = isinstance(bodies, pa.Array)
        self._bodies = pa.chunked_array([bodies]) if is_one else bodies
        self._seen: dict[int, bytes] = {}
        self.keys = keys

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """All entries of some, in order; at least one is given."""
        if len(parts) == 1:
            return parts[0]
        keys = [each.keys for each in parts if each.keys is not None]
        chunks = [chunk for each in parts for chunk in each._bodies.chunks]
        return cls(pa.chunked_array(chunks), pa.concat_arrays(keys) if keys else None)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of each entry."""
        sizes: npt.NDArray[np.int64] = pc.binary_length(self._bodies).to_numpy().astype(np.int64)
        return sizes

    def joined(self, start: int = 0, stop: int | None = None) -> bytes:
        """The bytes of some entries, end to end.

        Args:
            start: Number of the first one.
            stop: Number of the first that does not belong to them; None for all.
        """
        stop = len(self) if stop is None else stop
        return b"".join(map(data_of, self._bodies.slice(start, stop - start).chunks))

    def select(self, numbers: npt.NDArray[np.int64]) -> Self:
        """Some of the entries, in the order given."""
        chosen = pa.array(numbers)
        keys = None if self.keys is None else self.keys.take(chosen)
        return type(self)(self._bodies.take(chosen), keys)

    def seen(self) -> Iterator[tuple[int, bytes]]:
        """The entries that were looked at, each with its number, in order."""
        return iter(sorted(self._seen.items()))

    def __len__(self) -> int:
        return len(self._bodies)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | slice) -> bytes | Self:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                return self.select(np.arange(start, stop, step))
            length = max(stop - start, 0)
            keys = None if self.keys is None else self.keys.slice(start, length)
            return type(self)(self._bodies.slice(start, length), keys)
        number = range(len(self))[at]
        if number not in self._seen:
            self._seen[number] = self.joined(number, number + 1)
        return self._seen[number]
