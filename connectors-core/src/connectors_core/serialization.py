# SPDX-License-Identifier: Apache-2.0
"""Versioned serialization of splits, enumerator state, committables, and writer state.

Stored state is never a pickle: later releases must be able to read it, and reading it must not run
code.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Final, Generic, TypeVar

import orjson

from connectors_core.errors import StateCorruptedError, StateVersionError, UnsupportedError

__all__ = [
    "JsonDataclassSerializer",
    "VersionedSerializer",
    "decode_versioned",
    "encode_versioned",
]

T = TypeVar("T")

# The range that orjson writes as numbers; larger integers are stored as text.
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1
_SURROGATES: Final = "surrogates"
_MICROSECOND: Final = timedelta(microseconds=1)


class VersionedSerializer(ABC, Generic[T]):
    """Converts objects to bytes of a numbered layout, and bytes of any supported layout back.

    This is the counterpart of Flink's `SimpleVersionedSerializer`. A serializer must be picklable,
    because the driver and executors use it.
    """

    produces_json: ClassVar[bool] = False
    """Whether `serialize` returns a JSON object, which `encode_versioned` embeds unchanged."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Number of the layout that `serialize` writes."""

    @abstractmethod
    def serialize(self, obj: T) -> bytes:
        """Return the object in the layout `version`."""

    @abstractmethod
    def deserialize(self, version: int, data: bytes) -> T:
        """Read an object.

        Args:
            version: Number of the layout of the data, not above `self.version`.
            data: The bytes from `serialize`.

        Raises:
            StateVersionError: If the layout is newer than this release or no longer supported.
            StateCorruptedError: If the data cannot be parsed.
        """


class JsonDataclassSerializer(VersionedSerializer[T]):
    """Serializes a frozen dataclass as JSON, based on its type hints.

    It supports nested dataclasses, str, int of any size, float (with NaN and infinities),
    bool, None, bytes, aware `datetime` and `timedelta` in microseconds, enums with str or int
    values, tuples, lists, sets, frozensets, dicts with str, int or enum keys, `Optional`, unions
    of str, int, float, bool and None, `Literal`, and `Any` for plain JSON values. A field with a
    default may be missing in stored data, so adding one needs no new version.

    Args:
        cls: The dataclass.
        version: Number of the current layout, from 1.
        migrations: For each former layout, a function that converts its JSON object to the next
            layout (`{1: one_to_two, 2: two_to_three}`).
    """

    produces_json: ClassVar[bool] = True

    def __init__(
        self,
        cls: type[T],
        version: int = 1,
        migrations: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
    ) -> None:
        if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
            raise UnsupportedError(f"{cls!r} is not a dataclass", expected="a dataclass")
        self._cls: type[T] = cls
        self._version = version
        self._migrations = dict(migrations or {})

    @property
    def version(self) -> int:
        """Number of the current layout."""
        return self._version

    def serialize(self, obj: T) -> bytes:
        """Return the object as a JSON object.

        Raises:
            UnsupportedError: If a field has a type or value that has no JSON form.
        """
        value = _codec_of(self._cls).encode(obj, self._cls.__name__)
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

    def deserialize(self, version: int, data: bytes) -> T:
        """Read an object of the current layout or, with migrations, of a former one.

        Raises:
            StateVersionError: If the layout is newer, or there is no migration from it.
            StateCorruptedError: If the data does not match the dataclass.
        """
        name = self._cls.__name__
        if version > self._version:
            raise StateVersionError(
                f"{name} was stored by a newer release",
                expected=f"layout {self._version} or older",
                found=f"layout {version}",
            )
        try:
            payload = orjson.loads(data)
        except orjson.JSONDecodeError as exc:
            raise StateCorruptedError(f"stored {name} is not JSON", found=str(exc)) from exc
        for step in range(version, self._version):
            migrate = self._migrations.get(step)
            if migrate is None:
                raise StateVersionError(
                    f"{name} of layout {version} can no longer be read",
                    expected=f"a layout of {sorted({*self._migrations, self._version})}",
                    found=f"layout {version}",
                    hint="restart once with an earlier release that can still read it",
                )
            payload = migrate(payload)
        result: T = _codec_of(self._cls).decode(payload, name)
        return result

    def __repr__(self) -> str:
        return f"JsonDataclassSerializer({self._cls.__name__}, version={self._version})"


def encode_versioned(serializer: VersionedSerializer[T], obj: T) -> dict[str, Any]:
    """Encode an object with its layout number as a small dict, for a document.

    Args:
        serializer: The serializer of the object.
        obj: The object.

    Returns:
        `{"v": layout, "d": data}`. The data is a JSON object if the serializer writes one,
        otherwise base64 text.
    """
    data = serializer.serialize(obj)
    body: Any = orjson.loads(data) if serializer.produces_json else _to_base64(data)
    return {"v": serializer.version, "d": body}


def decode_versioned(serializer: VersionedSerializer[T], envelope: Mapping[str, Any]) -> T:
    """Read the result of `encode_versioned`.

    Raises:
        StateCorruptedError: If the envelope is malformed.
        StateVersionError: If the layout is newer than this release.
    """
    version = envelope.get("v")
    body = envelope.get("d")
    if not isinstance(version, int) or not isinstance(body, (str, dict)):
        raise StateCorruptedError(
            "a stored object has no layout number or no data",
            expected="{'v': number, 'd': data}",
            found=f"keys {sorted(envelope)}",
        )
    data = _from_base64(body, "d") if isinstance(body, str) else orjson.dumps(body)
    return serializer.deserialize(version, data)


# --- Codecs by type hint -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Codec:
    """Encodes to and decodes from plain JSON values; messages contain `where`."""

    encode: Callable[[Any, str], Any]
    decode: Callable[[Any, str], Any]


def _wrong(where: str, expected: str, found: object) -> UnsupportedError:
    # Show only the type: messages must not contain user data.
    return UnsupportedError(
        f"{where} cannot be stored", expected=expected, found=type(found).__qualname__
    )


def _corrupted(where: str, expected: str, found: object) -> StateCorruptedError:
    return StateCorruptedError(
        f"stored {where} does not match", expected=expected, found=type(found).__qualname__
    )


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(text: Any, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as exc:
        raise _corrupted(where, "base64 text", text) from exc


def _encode_str(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        raise _wrong(where, "str", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        # The operating system returns file names that are not UTF-8 with lone surrogates.
        return {_SURROGATES: _to_base64(value.encode("utf-8", "surrogatepass"))}
    return str(value)


def _decode_str(value: Any, where: str) -> str:
    if isinstance(value, dict) and value.keys() == {_SURROGATES}:
        return _from_base64(value[_SURROGATES], where).decode("utf-8", "surrogatepass")
    if not isinstance(value, str):
        raise _corrupted(where, "text", value)
    return value


def _encode_int(value: Any, where: str) -> int | str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(where, "int", value)
    return int(value) if _MIN_INT <= value <= _MAX_INT else str(int(value))


def _decode_int(value: Any, where: str) -> int:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError as exc:
            raise _corrupted(where, "a whole number", value) from exc
    if not isinstance(value, int) or isinstance(value, bool):
        raise _corrupted(where, "a whole number", value)
    return value


def _encode_float(value: Any, where: str) -> float | str:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _wrong(where, "float", value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _decode_float(value: Any, where: str) -> float:
    if value in ("nan", "inf", "-inf"):
        return float(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _corrupted(where, "a number", value)
    return float(value)


def _encode_bool(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "bool", value)
    return value


def _decode_bool(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _corrupted(where, "true or false", value)
    return value


def _encode_none(value: Any, where: str) -> None:
    if value is not None:
        raise _wrong(where, "None", value)


def _decode_none(value: Any, where: str) -> None:
    if value is not None:
        raise _corrupted(where, "null", value)


def _encode_bytes(value: Any, where: str) -> str:
    if not isinstance(value, bytes):
        raise _wrong(where, "bytes", value)
    return _to_base64(value)


def _encode_datetime(value: Any, where: str) -> str:
    if not isinstance(value, datetime):
        raise _wrong(where, "datetime", value)
    offset = value.utcoffset()
    if offset is None:
        raise UnsupportedError(
            f"{where} cannot be stored",
            expected="a datetime with a time zone",
            found="a datetime without one",
            hint="use datetime.now(timezone.utc) or set tzinfo",
        )
    # `fromisoformat` may lose parts of a second of an offset.
    moment: datetime = value.astimezone(UTC) if offset.microseconds else value
    return moment.isoformat()


def _decode_datetime(value: Any, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError) as exc:
        raise _corrupted(where, "a time with a zone", value) from exc
    if moment.utcoffset() is None:
        raise _corrupted(where, "a time with a zone", value)
    return moment


def _encode_timedelta(value: Any, where: str) -> int | str:
    if not isinstance(value, timedelta):
        raise _wrong(where, "timedelta", value)
    return _encode_int(value // _MICROSECOND, where)


def _decode_timedelta(value: Any, where: str) -> timedelta:
    try:
        return timedelta(microseconds=_decode_int(value, where))
    except OverflowError as exc:
        raise _corrupted(where, "microseconds", value) from exc


def _encode_any(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if type(value) is str:
        return value
    if type(value) is int and _MIN_INT <= value <= _MAX_INT:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is list:
        return [_encode_any(item, f"{where}[{at}]") for at, item in enumerate(value)]
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _encode_any(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise _wrong(where, "a plain JSON value, or a precise type hint", value)


_SCALARS: Final[Mapping[Any, _Codec]] = {
    str: _Codec(_encode_str, _decode_str),
    int: _Codec(_encode_int, _decode_int),
    float: _Codec(_encode_float, _decode_float),
    bool: _Codec(_encode_bool, _decode_bool),
    type(None): _Codec(_encode_none, _decode_none),
    bytes: _Codec(_encode_bytes, _from_base64),
    datetime: _Codec(_encode_datetime, _decode_datetime),
    timedelta: _Codec(_encode_timedelta, _decode_timedelta),
    Any: _Codec(_encode_any, lambda value, _: value),
}
_UNION_MEMBERS: Final = frozenset({str, int, float, bool})


def _codec_of(cls: Any) -> _Codec:
    return _codec(cls)


@lru_cache(maxsize=1024)
def _codec(hint: Any) -> _Codec:
    if hint in _SCALARS:
        return _SCALARS[hint]
    supertype = getattr(hint, "__supertype__", None)
    if supertype is not None:  # NewType
        return _codec(supertype)
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is typing.Annotated:
        return _codec(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return _union_codec(hint, arguments)
    if origin is typing.Literal:
        return _literal_codec(arguments)
    if origin is tuple:
        return _tuple_codec(arguments)
    if origin in (list, set, frozenset):
        return _collection_codec(origin, _codec(arguments[0]))
    if origin in (dict, Mapping):
        return _dict_codec(_key_codec(arguments[0]), _codec(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_codec(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass_codec(hint)
    raise UnsupportedError(
        f"the type {hint!r} has no JSON form",
        expected="a dataclass, scalar, enum, tuple, list, set, dict, or Optional of these",
        hint="give the field one of these types or write a VersionedSerializer",
    )


def _union_codec(hint: Any, arguments: tuple[Any, ...]) -> _Codec:
    others = tuple(argument for argument in arguments if argument is not type(None))
    if len(others) == 1:
        inner = _codec(others[0])
        if others[0] is Any:
            return inner

        def encode(value: Any, where: str) -> Any:
            return None if value is None else inner.encode(value, where)

        def decode(value: Any, where: str) -> Any:
            return None if value is None else inner.decode(value, where)

        return _Codec(encode, decode)
    if not _UNION_MEMBERS.issuperset(others):
        raise UnsupportedError(
            f"the type {hint!r} has no JSON form",
            expected="a union of str, int, float, bool and None only",
            hint="use one dataclass with a field that identifies the kind",
        )
    allowed = frozenset(arguments)

    def encode_plain(value: Any, where: str) -> Any:
        if type(value) not in allowed:
            raise _wrong(where, str(hint), value)
        return _encode_any(value, where)

    def decode_plain(value: Any, where: str) -> Any:
        if type(value) not in allowed:
            raise _corrupted(where, str(hint), value)
        return value

    return _Codec(encode_plain, decode_plain)


def _literal_codec(arguments: tuple[Any, ...]) -> _Codec:
    def encode(value: Any, where: str) -> Any:
        if value not in arguments:
            raise _wrong(where, f"one of {arguments}", value)
        return _encode_any(value, where)

    def decode(value: Any, where: str) -> Any:
        if value not in arguments:
            raise _corrupted(where, f"one of {arguments}", value)
        return value

    return _Codec(encode, decode)


def _tuple_codec(arguments: tuple[Any, ...]) -> _Codec:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _collection_codec(tuple, _codec(arguments[0]))
    items = tuple(_codec(argument) for argument in arguments)

    def encode(value: Any, where: str) -> Any:
        if not isinstance(value, tuple) or len(value) != len(items):
            raise _wrong(where, f"a tuple of {len(items)}", value)
        return [
            item.encode(element, f"{where}[{at}]")
            for at, (item, element) in enumerate(zip(items, value, strict=True))
        ]

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            raise _corrupted(where, f"an array of {len(items)}", value)
        return tuple(
            item.decode(element, f"{where}[{at}]")
            for at, (item, element) in enumerate(zip(items, value, strict=True))
        )

    return _Codec(encode, decode)


def _collection_codec(kind: Any, item: _Codec) -> _Codec:
    def encode(value: Any, where: str) -> Any:
        if not isinstance(value, kind):
            raise _wrong(where, kind.__name__, value)
        encoded = [item.encode(element, f"{where}[{at}]") for at, element in enumerate(value)]
        # Sets have no order, but equal sets must give equal bytes.
        return sorted(encoded, key=orjson.dumps) if kind in (set, frozenset) else encoded

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise _corrupted(where, "an array", value)
        return kind(item.decode(element, f"{where}[{at}]") for at, element in enumerate(value))

    return _Codec(encode, decode)


def _key_codec(hint: Any) -> _Codec:
    inner = _codec(hint)
    if hint is str:
        return inner
    enum_of_str = (
        isinstance(hint, type)
        and issubclass(hint, Enum)
        and all(isinstance(member.value, str) for member in hint)
    )
    if enum_of_str:
        return inner
    if hint is int or getattr(hint, "__supertype__", None) is int:
        return _Codec(lambda value, where: str(_encode_int(value, where)), _decode_int)
    if getattr(hint, "__supertype__", None) is str:
        return inner
    raise UnsupportedError(
        f"the type {hint!r} cannot be the key of a map",
        expected="the type {hint} cannot be the key of a map",
    )


def _dict_codec(key: _Codec, item: _Codec) -> _Codec:
    def encode(value: Any, where: str) -> Any:
        if not isinstance(value, Mapping):
            raise _wrong(where, "dict", value)
        encoded = {}
        for name, element in value.items():
            text = key.encode(name, f"a key of {where}")
            if not isinstance(text, str):
                raise _wrong(f"a key of {where}", "text that is valid UTF-8", name)
            encoded[text] = item.encode(element, f"{where}[{text!r}]")
        return encoded

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _corrupted(where, "an object", value)
        return {
            key.decode(name, f"a key of {where}"): item.decode(element, f"{where}[{name!r}]")
            for name, element in value.items()
        }

    return _Codec(encode, decode)


def _enum_codec(kind: type[Enum]) -> _Codec:
    if not all(type(member.value) in (str, int) for member in kind):
        raise UnsupportedError(
            f"the enum {kind.__qualname__} has no JSON form", expected="values of str or int"
        )

    def encode(value: Any, where: str) -> Any:
        if not isinstance(value, kind):
            raise _wrong(where, kind.__qualname__, value)
        return value.value

    def decode(value: Any, where: str) -> Any:
        try:
            return kind(value)
        except ValueError as exc:
            raise _corrupted(where, f"a value of {kind.__qualname__}", value) from exc

    return _Codec(encode, decode)


_MISSING: Final = type(dataclasses.MISSING)


def _init_fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    # A class of the user's main program is pickled by value, including the markers by which
    # dataclasses.fields() recognizes a field. On Spark 3.5 it then finds no fields on executors.
    found: Any = cls.__dataclass_fields__.values()
    return tuple(each for each in found if each._field_type.name == "_FIELD" and each.init)


def _dataclass_codec(cls: type[Any]) -> _Codec:
    fields = _init_fields(cls)
    required = frozenset(
        each.name
        for each in fields
        if isinstance(each.default, _MISSING) and isinstance(each.default_factory, _MISSING)
    )
    resolved: dict[str, _Codec] | None = None

    def resolve() -> dict[str, _Codec]:
        # On first use, not while the codec is built, since a dataclass may refer to itself.
        nonlocal resolved
        if resolved is None:
            hints = typing.get_type_hints(cls, include_extras=True)
            found = {}
            for each in fields:
                try:
                    found[each.name] = _codec(hints[each.name])
                except UnsupportedError as exc:
                    exc.add_note(f"needed for the field {cls.__qualname__}.{each.name}")
                    raise
            resolved = found  # in one step, since another thread may do the same
        return resolved

    def encode(value: Any, where: str) -> Any:
        if type(value) is not cls:  # this would drop the extra fields of a subclass
            raise _wrong(where, cls.__qualname__, value)
        return {
            name: codec.encode(getattr(value, name), f"{where}.{name}")
            for name, codec in resolve().items()
        }

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _corrupted(where, "an object", value)
        known = resolve()
        missing = required - value.keys()
        unknown = value.keys() - known.keys()
        if missing or unknown:
            raise StateCorruptedError(
                f"stored {where} does not match",
                expected=f"the fields {sorted(known)}",
                found=f"missing {sorted(missing)}, unknown {sorted(unknown)}",
                hint="raise the version and add a migration when you change fields",
            )
        try:
            return cls(
                **{
                    name: known[name].decode(element, f"{where}.{name}")
                    for name, element in value.items()
                }
            )
        except (TypeError, ValueError) as exc:
            if isinstance(exc, UnsupportedError):
                raise
            raise StateCorruptedError(
                f"{cls.__qualname__} rejected stored {where}", found=str(exc)
            ) from exc

    return _Codec(encode, decode)
