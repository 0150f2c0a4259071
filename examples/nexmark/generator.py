# SPDX-License-Identifier: Apache-2.0
"""The events of Nexmark as a table: `'connector' = 'nexmark'`.

Of 50 events, one is a new person, three are auctions, and 46 are bids. Each event depends only on
its number. Half of the bids go to a hot auction, and three of four bids come from a hot bidder.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core import DataGeneratorSource
from connectors_core.options import Configured, Setting, at_least, option, positive
from connectors_core.table import (
    ConfiguredTableFactory,
    DynamicTableContext,
    ScanTableSource,
    refuse_metadata,
)

Numbers = npt.NDArray[np.int64]

PERSON, AUCTION, BID = 0, 1, 2
_GROUP: Final = 50
_AUCTIONS: Final = 3
_FIRST_ID: Final = 1000
_FIRST_CATEGORY: Final = 10
_CATEGORIES: Final = 5
_HOT: Final = 100  # one of so many persons and auctions is hot
_ACTIVE: Final = 1000  # the newest persons, which sell and bid
_IN_FLIGHT: Final = 100  # the newest auctions, which receive bids
_FIRST_TIME: Final = datetime(2015, 7, 15, tzinfo=UTC)
_SECOND: Final = 1_000_000

_STATES: Final = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_CITIES: Final = pa.array(
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Redmond", "Seattle", "Kent"]
)
_FIRST_NAMES: Final = pa.array(
    ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
)
_LAST_NAMES: Final = pa.array(
    ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
)
_HOT_CHANNELS: Final = pa.array(["Google", "Facebook", "Baidu", "Apple"])

TIME: Final = pa.timestamp("us", tz="UTC")
PERSONS: Final = pa.struct(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "email_address": pa.string(),
        "credit_card": pa.string(),
        "city": pa.string(),
        "state": pa.string(),
        "extra": pa.string(),
    }
)
AUCTIONS: Final = pa.struct(
    {
        "id": pa.int64(),
        "item_name": pa.string(),
        "description": pa.string(),
        "initial_bid": pa.int64(),
        "reserve": pa.int64(),
        "expires": TIME,
        "seller": pa.int64(),
        "category": pa.int64(),
        "extra": pa.string(),
    }
)
BIDS: Final = pa.struct(
    {
        "auction": pa.int64(),
        "bidder": pa.int64(),
        "price": pa.int64(),
        "channel": pa.string(),
        "url": pa.string(),
        "extra": pa.string(),
    }
)
EVENTS: Final = pa.schema(
    {
        "event_type": pa.int32(),
        "person": PERSONS,
        "auction": AUCTIONS,
        "bid": BIDS,
        "date_time": TIME,
    }
)


class NexmarkOptions(Configured, scope="Nexmark table", since="1.1.0"):
    """The options of a table of events."""

    number_of_rows: Setting[int] = option(
        "number-of-rows", int, default=10_000, validator=at_least(0), doc="Number of events."
    )
    events_per_second: Setting[int] = option(
        "events-per-second",
        int,
        default=100,
        validator=positive,
        doc="Number of events in a second of their event time.",
    )
    disorder: Setting[timedelta] = option(
        "disorder",
        timedelta,
        default=timedelta(seconds=2),
        validator=at_least(timedelta(0)),
        doc="Greatest difference between an event time and the order of the events.",
    )
    split_rows: Setting[int] = option(
        "split.rows", int, default=4_000, validator=positive, doc="Events in a split."
    )


class NexmarkTableFactory(ConfiguredTableFactory):
    """Tables of the events of Nexmark."""

    identifier = "nexmark"
    parts = (NexmarkOptions,)

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """Return the source of the events."""
        refuse_metadata(context, context.table.schema.metadata)
        options = NexmarkOptions.from_options(context.options)
        generator = NexmarkGenerator(options.events_per_second, options.disorder)
        source = DataGeneratorSource(
            generator,
            options.number_of_rows,
            EVENTS,
            lower_bound=generator.earliest,
            split_rows=options.split_rows,
        )
        return ScanTableSource(source=source)


@dataclass(frozen=True)
class NexmarkGenerator:
    """Generates events from their numbers.

    Args:
        events_per_second: Number of events in a second of their event time.
        disorder: Greatest difference between an event time and the order of the events.
    """

    events_per_second: int = 100
    disorder: timedelta = timedelta(seconds=2)

    def __call__(self, numbers: pa.Int64Array) -> pa.RecordBatch:
        """Return the events with these numbers."""
        plain = numbers.to_numpy()
        place = plain % _GROUP
        kinds = np.where(place == 0, PERSON, np.where(place <= _AUCTIONS, AUCTION, BID))
        times = self._times(plain)
        columns = [
            pa.array(kinds.astype(np.int32)),
            _only(kinds == PERSON, _persons(plain)),
            _only(kinds == AUCTION, _auctions(plain, times)),
            _only(kinds == BID, _bids(plain)),
            pa.array(times).cast(TIME),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=EVENTS)

    def earliest(self, number: int) -> datetime:
        """Return the lowest event time from a number on."""
        return _FIRST_TIME + timedelta(seconds=number / self.events_per_second) - self.disorder

    def _times(self, numbers: Numbers) -> Numbers:
        """Return the event times in microseconds, as whole milliseconds like Flink's."""
        first = int(_FIRST_TIME.timestamp()) * 1000
        most = self.disorder // timedelta(milliseconds=1)
        return 1000 * (
            first + -(-numbers * 1000 // self.events_per_second) - _below(most + 1, numbers, "time")
        )


def _persons(numbers: Numbers) -> pa.StructArray:
    first, last = _one_of(_FIRST_NAMES, numbers, "first"), _one_of(_LAST_NAMES, numbers, "last")
    name = pc.binary_join_element_wise(first, last, " ")
    cards = [_text(_below(9000, numbers, f"card {each}") + 1000) for each in range(4)]
    columns = [
        pa.array(_last_person(numbers)),
        name,
        pc.binary_join_element_wise(
            pc.utf8_lower(last), _text(_below(1000, numbers, "mail")), "@example.com", ""
        ),
        pc.binary_join_element_wise(*cards, " "),
        _one_of(_CITIES, numbers, "city"),
        _one_of(_STATES, numbers, "state"),
        _extra(numbers),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(PERSONS))


def _auctions(numbers: Numbers, times: Numbers) -> pa.StructArray:
    last, price = _last_person(numbers), _price(numbers, "first")
    is_hot = _below(4, numbers, "hot seller") > 0
    columns = [
        pa.array(_last_auction(numbers)),
        _hexadecimal(numbers, "item"),
        _hexadecimal(numbers, "description"),
        pa.array(price),
        pa.array(price + _price(numbers, "reserve")),
        pa.array(times + (_below(20, numbers, "expires") + 1) * _SECOND).cast(TIME),
        pa.array(np.where(is_hot, last // _HOT * _HOT, _recent(last, _ACTIVE, numbers, "seller"))),
        pa.array(_below(_CATEGORIES, numbers, "category") + _FIRST_CATEGORY),
        _extra(numbers),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(AUCTIONS))


def _bids(numbers: Numbers) -> pa.StructArray:
    auction, person = _last_auction(numbers), _last_person(numbers)
    hot_auction = _below(2, numbers, "hot auction") > 0
    hot_bidder = _below(4, numbers, "hot bidder") > 0
    number = _text(_below(10_000, numbers, "channel"))
    is_hot = pa.array(_below(2, numbers, "hot channel") > 0)
    folders = [_text(_below(100, numbers, f"folder {each}")) for each in range(3)]
    page = pc.binary_join_element_wise("https://www.nexmark.com", *folders, "item.htm?query=1", "/")
    columns = [
        pa.array(
            np.where(
                hot_auction,
                auction // _HOT * _HOT,
                _recent(auction, _IN_FLIGHT, numbers, "auction"),
            )
        ),
        pa.array(
            np.where(
                hot_bidder,
                np.minimum(person // _HOT * _HOT + 1, person),
                _recent(person, _ACTIVE, numbers, "bidder"),
            )
        ),
        pa.array(_price(numbers, "bid")),
        pc.if_else(
            is_hot,
            _one_of(_HOT_CHANNELS, numbers, "name"),
            pc.binary_join_element_wise("channel", number, "-"),
        ),
        pc.if_else(is_hot, page, pc.binary_join_element_wise(page, number, "&channel_id=")),
        _extra(numbers),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(BIDS))


# --- ids and values -------------------------------------------------------------------------------


def _last_person(numbers: Numbers) -> Numbers:
    """Return the id of the newest person at each event."""
    return _FIRST_ID + numbers // _GROUP


def _last_auction(numbers: Numbers) -> Numbers:
    """Return the id of the newest auction at each event; before the first one, the first one."""
    groups, place = numbers // _GROUP, numbers % _GROUP
    newest = groups * _AUCTIONS + np.minimum(place, _AUCTIONS) - 1
    return _FIRST_ID + np.maximum(newest, 0)


def _recent(last: Numbers, count: int, numbers: Numbers, purpose: str) -> Numbers:
    """Return one of the newest ids."""
    known = np.minimum(last - _FIRST_ID + 1, count)
    return last - (_words(numbers, purpose) % known.astype(np.uint64)).astype(np.int64)


def _price(numbers: Numbers, purpose: str) -> Numbers:
    """Return a price in cents, of which each order of magnitude is equally likely."""
    share = (_words(numbers, f"price {purpose}") >> np.uint64(11)) * 2.0**-53
    return np.rint(100 * 10 ** (6 * share)).astype(np.int64)


def _only(which: npt.NDArray[np.bool_], values: pa.StructArray) -> pa.Array:
    return pc.if_else(pa.array(which), values, pa.scalar(None, values.type))


def _one_of(values: pa.Array, numbers: Numbers, purpose: str) -> pa.Array:
    return values.take(pa.array(_below(len(values), numbers, purpose)))


def _text(numbers: Numbers) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _extra(numbers: Numbers) -> pa.Array:
    return _hexadecimal(numbers, "extra")


def _hexadecimal(numbers: Numbers, purpose: str) -> pa.Array:
    """Return texts of 16 digits."""
    words = np.ascontiguousarray(_words(numbers, purpose)).view(np.uint8).reshape(-1, 8)
    digits = np.column_stack([words >> 4, words & 0x0F])
    data = np.frombuffer(b"0123456789abcdef", np.uint8)[digits]
    starts = np.arange(len(numbers) + 1, dtype=np.int32) * 16
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.string(), len(numbers), buffers)


def _below(count: int, numbers: Numbers, purpose: str) -> Numbers:
    return (_words(numbers, purpose) % np.uint64(count)).astype(np.int64)


def _words(numbers: Numbers, purpose: str) -> npt.NDArray[np.uint64]:
    """Return 64 bits for each number that look random (SplitMix64)."""
    salt = np.uint64(int.from_bytes(purpose.encode().ljust(16, b"\1")[:16], "little") % (2**61 - 1))
    words = (numbers.view(np.uint64) + salt) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
