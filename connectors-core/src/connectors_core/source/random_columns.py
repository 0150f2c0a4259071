# SPDX-License-Identifier: Apache-2.0
"""Columns of random values that depend only on a seed and the numbers of the rows.

A value is a hash of the seed and the number (SplitMix64), so a row can be generated again, alone
or with others. No object of Python is created for a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "ColumnGenerator",
    "RandomBooleans",
    "RandomDecimals",
    "RandomFloats",
    "RandomIntegers",
    "RandomLists",
    "RandomNulls",
    "RandomStructs",
    "RandomTexts",
    "RandomWords",
    "RowGenerator",
    "SequenceColumn",
    "most_bytes",
]

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_CHARACTERS: Final = 8  # of a word
_PLAIN_BYTES: Final = 16


class ColumnGenerator(Protocol):
    """Generates the values of a column. Executor; picklable."""

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return the values of the rows with these numbers."""
        ...


@dataclass(frozen=True)
class RandomWords:
    """Independent sequences of random bits for the values of one column.

    Args:
        seed: The seed of the table.
        column: The path of the column.
    """

    seed: int
    column: str

    def __call__(self, numbers: Numbers, purpose: str = "") -> Words:
        """Return 64 random bits for each number."""
        text = f"{self.seed}\0{self.column}\0{purpose}"
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        salt = np.uint64(int.from_bytes(digest, "little"))
        words: Words = numbers.view(np.uint64) * _GOLDEN + salt
        words = (words ^ (words >> np.uint64(30))) * _MIX_1
        words = (words ^ (words >> np.uint64(27))) * _MIX_2
        return words ^ (words >> np.uint64(31))

    def fractions(self, numbers: Numbers, purpose: str = "") -> npt.NDArray[np.float64]:
        """Return numbers from 0 to below 1."""
        return (self(numbers, purpose) >> np.uint64(11)) * np.float64(2.0**-53)

    def between(self, numbers: Numbers, least: int, most: int, purpose: str = "") -> Numbers:
        """Return whole numbers of 64 bits, both bounds included."""
        words, count = self(numbers, purpose), most - least + 1
        if count < 2**64:
            words %= np.uint64(count)
        return words.view(np.int64) + np.int64(least)


@dataclass(frozen=True)
class SequenceColumn:
    """Consecutive numbers in the type of the column."""

    type: pa.DataType
    start: int

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return the number of each row plus the start."""
        values = pa.array(numbers + np.int64(self.start))
        if pa.types.is_decimal(self.type):
            return values.cast(pa.decimal128(38, 0)).cast(self.type)
        return values.cast(self.type)


@dataclass(frozen=True)
class RandomIntegers:
    """Whole numbers, or times as whole numbers of their unit."""

    type: pa.DataType
    least: int
    most: int
    words: RandomWords

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return numbers between the bounds."""
        values = self.words.between(numbers, self.least, self.most)
        if pa.types.is_date32(self.type):
            return pa.array(values.astype(np.int32)).cast(self.type)
        return pa.array(values).cast(self.type)


@dataclass(frozen=True)
class RandomDecimals:
    """Decimals, of which 18 digits differ at most."""

    type: pa.Decimal128Type
    least: int
    most: int
    words: RandomWords

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return decimals between the bounds, which are without the decimal point."""
        low = self.words.between(numbers, self.least, self.most)
        values = np.column_stack([low, low >> np.int64(63)])  # 128 bits, with the sign
        return pa.Array.from_buffers(self.type, len(low), [None, pa.py_buffer(values)])


@dataclass(frozen=True)
class RandomFloats:
    """Numbers with a fraction."""

    type: pa.DataType
    least: float
    most: float
    words: RandomWords

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return numbers between the bounds."""
        share = self.words.fractions(numbers)
        return pa.array(self.least * (1 - share) + self.most * share).cast(self.type)


@dataclass(frozen=True)
class RandomBooleans:
    """True or false."""

    words: RandomWords

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return a value for each number."""
        return pa.array(self.words(numbers) >> np.uint64(63) == 1)


@dataclass(frozen=True)
class RandomTexts:
    """Texts or bytes of hexadecimal digits."""

    type: pa.DataType
    length: int
    varies: bool
    words: RandomWords

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return texts of the length, or up to it."""
        blocks = -(-self.length // _CHARACTERS)
        words = np.column_stack([self.words(numbers, str(each)) for each in range(blocks)])
        digits = _DIGITS[words.view(np.uint8) & 0x0F][:, : self.length]
        lengths = np.full(len(numbers), self.length)
        if self.varies:
            lengths = self.words.between(numbers, 1, self.length, "length")
        data = digits[np.arange(self.length) < lengths[:, None]]
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(self.type, len(numbers), buffers)


@dataclass(frozen=True)
class RandomLists:
    """Lists of one length."""

    type: pa.ListType
    length: int
    elements: ColumnGenerator

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return a list for each number. Its elements have numbers of their own."""
        own = numbers[:, None] * np.int64(self.length) + np.arange(self.length)
        starts = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(self.length)
        values = self.elements(own.ravel())
        return pa.ListArray.from_arrays(pa.array(starts), values, type=self.type)


@dataclass(frozen=True)
class RandomStructs:
    """Structs."""

    type: pa.StructType
    fields: Sequence[ColumnGenerator]

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return a struct for each number."""
        arrays = [each(numbers) for each in self.fields]
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))


@dataclass(frozen=True)
class RandomNulls:
    """The values of a column, of which some are null."""

    values: ColumnGenerator
    rate: float
    words: RandomWords

    def __call__(self, numbers: Numbers) -> pa.Array:
        """Return the values, or nulls in their place."""
        values = self.values(numbers)
        missing = pa.array(self.words.fractions(numbers, "null") < self.rate)
        return pc.if_else(missing, pa.scalar(None, values.type), values)


@dataclass(frozen=True)
class RowGenerator:
    """Generates rows for a `DataGeneratorSource` from a generator for each column."""

    schema: pa.Schema
    columns: Sequence[ColumnGenerator]

    def __call__(self, numbers: pa.Int64Array) -> pa.RecordBatch:
        """Return the rows of these numbers."""
        plain = numbers.to_numpy()
        arrays = [each(plain) for each in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def most_bytes(column: ColumnGenerator) -> int:
    """Return about how many bytes a value of a column has at most."""
    match column:
        case RandomTexts():
            return column.length
        case RandomLists():
            return column.length * most_bytes(column.elements)
        case RandomStructs():
            return sum(map(most_bytes, column.fields))
        case RandomNulls():
            return most_bytes(column.values)
        case _:
            return _PLAIN_BYTES
