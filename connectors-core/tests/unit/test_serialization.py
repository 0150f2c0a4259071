# SPDX-License-Identifier: Apache-2.0
"""Tests that stored objects are read back equal, or rejected with a reason."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, StrEnum
from typing import Any, Literal, NewType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import StateCorruptedError, StateVersionError, UnsupportedError
from connectors_core.secrets import Secret
from connectors_core.serialization import (
    JsonDataclassSerializer,
    VersionedSerializer,
    decode_versioned,
    encode_versioned,
)

Offset = NewType("Offset", int)


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Inner:
    name: str
    offset: Offset
    parent: Inner | None = None


inners = st.recursive(
    st.builds(Inner, st.text(), st.integers(), st.none()),
    lambda deeper: st.builds(Inner, st.text(), st.integers(), deeper),
    max_leaves=3,
)
offsets = st.timedeltas(timedelta(hours=-20), timedelta(hours=20)).map(timezone)
times = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=offsets)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(st.text(), deeper, max_size=3),
    max_leaves=5,
)
SUPPORTED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, st.text(st.characters(exclude_categories=[]))),
    (int, st.integers()),
    (float, st.floats(allow_nan=False)),
    (bool, st.booleans()),
    (bytes, st.binary()),
    (datetime, times),
    (timedelta, st.timedeltas()),
    (timedelta | None, st.none() | st.timedeltas()),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (Inner, inners),
    (tuple[Inner, ...], st.lists(inners, max_size=2).map(tuple)),
    (tuple[int, str | None], st.tuples(st.integers(), st.none() | st.text())),
    (list[str], st.lists(st.text(), max_size=3)),
    (set[int], st.sets(st.integers(), max_size=3)),
    (frozenset[str], st.frozensets(st.text(), max_size=3)),
    (dict[str, Inner], st.dictionaries(st.text(), inners, max_size=2)),
    (dict[int, bytes], st.dictionaries(st.integers(), st.binary(), max_size=2)),
    (dict[Color, int], st.dictionaries(st.sampled_from(Color), st.integers())),
    (
        str | int | bool | None,
        st.text() | st.integers(-(2**63), 2**63) | st.booleans() | st.none(),
    ),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (Any, json_values),
]


@pytest.mark.parametrize(("hint", "values"), SUPPORTED, ids=[str(hint) for hint, _ in SUPPORTED])
def test_every_supported_type_is_read_back_equal(hint: Any, values: st.SearchStrategy[Any]) -> None:
    box = make_dataclass("Box", [("value", hint)], frozen=True)
    serializer: JsonDataclassSerializer[Any] = JsonDataclassSerializer(box, 3)

    @settings(max_examples=30, deadline=None, database=None)
    @given(values)
    def check(value: Any) -> None:
        assert serializer.deserialize(3, serializer.serialize(box(value))) == box(value)
        embedded = json.loads(json.dumps(encode_versioned(serializer, box(value))))
        assert decode_versioned(serializer, embedded) == box(value)

    check()


def test_fractional_seconds_of_a_utc_offset_are_kept() -> None:
    box = make_dataclass("Box", [("value", datetime)], frozen=True)
    serializer: JsonDataclassSerializer[Any] = JsonDataclassSerializer(box, 1)
    moment = datetime(2000, 1, 1, tzinfo=timezone(timedelta(microseconds=1)))
    assert serializer.deserialize(1, serializer.serialize(box(moment))).value == moment


@given(st.frozensets(st.text()))
def test_equal_sets_produce_equal_bytes(values: frozenset[str]) -> None:
    @dataclass(frozen=True)
    class Names:
        names: frozenset[str]

    serializer = JsonDataclassSerializer(Names)
    other = frozenset(reversed(list(values)))
    assert serializer.serialize(Names(values)) == serializer.serialize(Names(other))


def test_nan_is_read_back() -> None:
    @dataclass(frozen=True)
    class Measure:
        value: float

    serializer = JsonDataclassSerializer(Measure)
    assert math.isnan(serializer.deserialize(1, serializer.serialize(Measure(math.nan))).value)


def test_a_serializer_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(JsonDataclassSerializer(Inner, 2)))
    assert copy.version == 2
    assert copy.deserialize(2, copy.serialize(Inner("a", Offset(1)))) == Inner("a", Offset(1))


@dataclass(frozen=True)
class Grown:
    topic: str
    partition: int
    labels: tuple[str, ...] = ()
    extras: dict[str, str] = field(default_factory=dict)


def test_former_layouts_are_migrated_step_by_step() -> None:
    serializer = JsonDataclassSerializer(
        Grown,
        3,
        {
            1: lambda old: {"name": old["id"]},
            2: lambda old: dict(
                zip(("topic", "partition"), (old["name"][:-2], int(old["name"][-1])), strict=True)
            ),
        },
    )
    assert serializer.deserialize(1, b'{"id":"t-4"}') == Grown("t", 4)
    assert serializer.deserialize(2, b'{"name":"t-4"}') == Grown("t", 4)


def test_a_new_field_with_a_default_needs_no_migration() -> None:
    serializer = JsonDataclassSerializer(Grown)
    assert serializer.deserialize(1, b'{"topic":"t","partition":1}') == Grown("t", 1)


def test_a_newer_layout_is_refused_with_a_hint() -> None:
    with pytest.raises(StateVersionError, match="newer"):
        JsonDataclassSerializer(Grown, 2).deserialize(3, b"{}")


def test_a_layout_without_migration_is_refused() -> None:
    with pytest.raises(StateVersionError, match="no longer"):
        JsonDataclassSerializer(Grown, 2).deserialize(1, b"{}")


@pytest.mark.parametrize(
    "data",
    [
        b'{"topic":"t"',
        b"[]",
        b"{}",
        b'{"topic":"t"}',
        b'{"topic":3,"partition":1}',
        b'{"topic":"t","partition":true}',
        b'{"topic":"t","partition":"x"}',
        b'{"topic":"t","partition":1,"labels":"ab"}',
        b'{"topic":"t","partition":1,"labels":[1]}',
        b'{"topic":"t","partition":1,"unknown":1}',
    ],
)
def test_data_that_does_not_match_the_dataclass_is_corrupted_state(data: bytes) -> None:
    with pytest.raises(StateCorruptedError):
        JsonDataclassSerializer(Grown).deserialize(1, data)


def test_a_value_that_the_dataclass_refuses_is_corrupted_state() -> None:
    @dataclass(frozen=True)
    class Positive:
        value: int

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError("negative")

    with pytest.raises(StateCorruptedError, match="negative"):
        JsonDataclassSerializer(Positive).deserialize(1, b'{"value":-1}')


@pytest.mark.parametrize(
    "hint", [object, complex, dict[bytes, int], Inner | Grown, Secret, tuple, list]
)
def test_a_type_without_a_json_representation_is_named_with_its_field(hint: Any) -> None:
    @dataclass(frozen=True)
    class Strange:
        value: Any

    Strange.__annotations__["value"] = hint
    with pytest.raises(UnsupportedError) as caught:
        JsonDataclassSerializer(Strange).serialize(Strange(1))
    assert any("Strange.value" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    "value",
    [Grown("t", "1"), Grown("t", True), Grown("t", 1, ["a"]), Grown("t", 1, (), {"\ud800": ""})],  # type: ignore[arg-type]
)
def test_a_value_that_violates_its_type_hint_is_refused(value: Grown) -> None:
    with pytest.raises(UnsupportedError, match=r"Grown\."):
        JsonDataclassSerializer(Grown).serialize(value)


def test_a_time_without_a_zone_is_refused() -> None:
    @dataclass(frozen=True)
    class Timed:
        at: datetime

    serializer = JsonDataclassSerializer(Timed)
    with pytest.raises(UnsupportedError, match="at cannot be stored"):
        serializer.serialize(Timed(datetime(2024, 1, 1)))
    with pytest.raises(StateCorruptedError):
        serializer.deserialize(1, b'{"at":"2024-01-01T00:00:00"}')
    assert serializer.serialize(Timed(datetime(2024, 1, 1, tzinfo=UTC)))


def test_a_subclass_is_refused_because_its_fields_would_be_lost() -> None:
    @dataclass(frozen=True)
    class More(Inner):
        extra: int = 0

    with pytest.raises(UnsupportedError):
        JsonDataclassSerializer(Inner).serialize(More("a", Offset(1)))


def test_only_dataclasses_are_accepted() -> None:
    with pytest.raises(UnsupportedError):
        JsonDataclassSerializer(int)


class Reversed(VersionedSerializer[bytes]):
    @property
    def version(self) -> int:
        return 7

    def serialize(self, obj: bytes) -> bytes:
        return obj[::-1]

    def deserialize(self, version: int, data: bytes) -> bytes:
        assert version == 7
        return data[::-1]


def test_binary_serializers_are_embedded_as_text() -> None:
    envelope = encode_versioned(Reversed(), b"\x00ab")
    assert envelope == {"v": 7, "d": "YmEA"}
    assert decode_versioned(Reversed(), envelope) == b"\x00ab"


@pytest.mark.parametrize("envelope", [{}, {"v": "1", "d": ""}, {"v": 1}, {"v": 7, "d": "?"}])
def test_a_malformed_envelope_is_corrupted_state(envelope: dict[str, Any]) -> None:
    with pytest.raises(StateCorruptedError):
        decode_versioned(Reversed(), envelope)
