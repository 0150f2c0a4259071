# SPDX-License-Identifier: Apache-2.0
"""Request entries as columns, for sinks that send many small ones."""

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
    """Entries of many rows: their bytes in one column, their keys in another.

    An `ElementConverter` that builds bytes by column returns this class, and its writer then
    receives such sequences to send. A Python object is created for an entry only when you access it
    by its number, and the same object is returned each time. The core does not call the writer's
    ``get_size_in_bytes`` and ``get_key``, because the columns contain both.

    Args:
        bodies: Bytes or strings, one for each entry, without nulls.
        keys: Entries with the same key are sent one after another, and entries with a null key
            in any order. All keys of a converter have the same type. None if order does not matter.

    Raises:
        ValueError: A body is null, or the number of keys differs.
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
        """Concatenate entries in order; at least one is given."""
        if len(parts) == 1:
            return parts[0]
        chunks = [chunk for each in parts for chunk in each._bodies.chunks]
        kind = next((each.keys.type for each in parts if each.keys is not None), None)
        if kind is None:
            return cls(pa.chunked_array(chunks))
        keys = [pa.nulls(len(each), kind) if each.keys is None else each.keys for each in parts]
        return cls(pa.chunked_array(chunks), pa.concat_arrays(keys))

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of each entry."""
        sizes: npt.NDArray[np.int64] = pc.binary_length(self._bodies).to_numpy().astype(np.int64)
        return sizes

    def joined(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return the concatenated bytes of some entries.

        Args:
            start: Number of the first one.
            stop: Number after the last one; None for all.
        """
        stop = len(self) if stop is None else stop
        return b"".join(map(data_of, self._bodies.slice(start, stop - start).chunks))

    def select(self, numbers: npt.NDArray[np.int64]) -> Self:
        """Return some of the entries, in the given order."""
        chosen = pa.array(numbers)
        keys = None if self.keys is None else self.keys.take(chosen)
        return type(self)(self._bodies.take(chosen), keys)

    def seen(self) -> Iterator[tuple[int, bytes]]:
        """The accessed entries, each with its number, in order."""
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
