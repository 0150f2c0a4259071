# SPDX-License-Identifier: Apache-2.0
"""Tests that keywords, keys, attributes, help, and errors derive from a single declaration."""

from __future__ import annotations

import enum
import inspect
import pickle
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import InvalidOptionError, MissingOptionError, UnknownOptionError
from connectors_core.options import (
    DURATION,
    MEMORY_SIZE,
    Configured,
    Option,
    Setting,
    format_duration,
    format_memory_size,
    list_of,
    option,
    option_like,
    optional,
    part,
    positive,
)
from connectors_core.secrets import Secret

PASSWORD = "open-sesame"  # pragma: allowlist secret


class Level(enum.Enum):
    """What is read."""

    COMMITTED = "read-committed"
    ALL = "read-all"


class Rolling(Configured, scope="rolling"):
    """When a file ends."""

    rows: Setting[int | None] = option(
        "rolling.rows", int, default=None, validator=positive, doc="Most rows of a file."
    )
    size: Setting[int, int | str] = option(
        "rolling.size", MEMORY_SIZE, default=128, validator=positive, doc="Most bytes of a file."
    )


MODE: Option[str] = Option("start.mode", str, doc="Where reading starts.")
TIME: Option[int] = Option("start.time", int, doc="The time of `start.mode`.")


class Pump(
    Configured, scope="pump", elsewhere={"maxoffsets": "limit the rows", "kafka.*": "see servers"}
):
    """Reads.

    Raises:
        ConfigurationError: It cannot be used.
    """

    servers: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "properties.servers", list_of(str), kw_only=False, doc="Servers."
    )
    level: Setting[Level, Level | Literal["read-committed", "read-all"]] = option(
        "scan.level", Level, default=Level.ALL, doc="What is read, see `scan.look-interval`."
    )
    declared_schema: Setting[str | None] = option(
        "schema", str, default=None, alias="schema", doc="Columns."
    )
    look_interval: Setting[timedelta | None, timedelta | str | None] = option(
        "scan.look-interval",
        optional(DURATION, off="0 s"),
        default=timedelta(minutes=5),
        doc="Time between looks.",
    )
    password: Setting[Secret | None, Secret | str | None] = option(
        "password", Secret, default=None, doc="Password."
    )
    start: Setting[str] = part(
        None,
        MODE,
        TIME,
        build=lambda options: options.get(MODE) and f"{options[MODE]}@{options.get(TIME)}",
        default="earliest",
        doc="Where reading starts.",
    )
    rolling: Setting[Rolling] = part(Rolling, default=Rolling, doc="When a file ends.")
    properties: Setting[dict[str, Any]] = option(
        "properties.*", dict, default=None, secret=True, doc="Others."
    )

    def __post_init__(self) -> None:
        if self.level is Level.COMMITTED and self.look_interval is None:
            raise InvalidOptionError("looks are needed", option="scan.look-interval")
        self._where = ",".join(self.servers)

    def schema(self) -> str | None:
        """The columns."""
        return self.declared_schema


def test_a_keyword_is_parsed_and_an_attribute_returns_the_canonical_value() -> None:
    pump = Pump("a, b", level="read-committed", schema="x INT", look_interval="5 s")
    assert (pump.servers, pump.level, pump.schema()) == (("a", "b"), Level.COMMITTED, "x INT")
    assert pump.look_interval == timedelta(seconds=5)
    assert Pump(["a"], look_interval=None).look_interval is None, "None turns it off"
    assert Pump(["a"]).look_interval == timedelta(minutes=5)
    assert pump.rolling.size == 128
    with pytest.raises(AttributeError, match="cannot be changed"):
        pump.level = Level.ALL


@given(
    servers=st.lists(st.text("abc:1", min_size=1), min_size=1),
    level=st.sampled_from(Level),
    seconds=st.integers(1, 10**6),
    rows=st.none() | st.integers(1, 10**9),
    size=st.integers(1, 1 << 40),
    password=st.none() | st.text(),
)
def test_keywords_and_keys_produce_equal_configurations(
    servers: list[str],
    level: Level,
    seconds: int,
    rows: int | None,
    size: int,
    password: str | None,
) -> None:
    interval = timedelta(seconds=seconds)
    by_keyword = Pump(
        servers,
        level=level,
        look_interval=interval,
        password=password,
        rolling=Rolling(rows=rows, size=size),
        properties={"acks": "all"},
    )
    by_key = Pump.from_options(
        {
            "PROPERTIES.SERVERS": ",".join(servers),
            "scan.level": level.value,
            "scan.look-interval": format_duration(interval),
            "rolling.rows": None if rows is None else str(rows),
            "rolling.size": format_memory_size(size),
            "password": password,
            "properties.acks": "all",
        }
    )
    assert by_keyword == by_key
    assert hash(by_keyword) == hash(pickle.loads(pickle.dumps(by_key)))
    assert pickle.loads(pickle.dumps(by_key)) == by_keyword
    assert vars(pickle.loads(pickle.dumps(by_key)))["_where"] == ",".join(servers)


@pytest.mark.parametrize("made", [Pump, Rolling])
def test_defaults_are_canonical(made: type[Configured]) -> None:
    for each in made.OPTIONS:
        if each.default is not None:
            assert each.parse(each.show(each.default)) == each.default


def test_a_copy_can_change_values() -> None:
    pump = Pump("a", schema="x INT", password=PASSWORD)
    copy = pump.replaced(servers="b", look_interval=None)
    assert (copy.servers, copy.look_interval, copy.schema()) == (("b",), None, "x INT")
    assert copy.replaced(servers="a", look_interval="5 min") == pump


def test_a_configuration_is_created_from_its_options() -> None:
    pump = Pump.from_options(
        {"properties.servers": "a", "start.mode": "time", "start.time": "5", "rolling.rows": "3"}
    )
    assert (pump.start, pump.rolling) == ("time@5", Rolling(rows=3))
    assert Pump.from_options({"properties.servers": "a"}).start == "earliest"


def test_repr_shows_the_given_values_without_secrets() -> None:
    pump = Pump(
        "a", password=PASSWORD, properties={"ssl.password": PASSWORD}, level=Level.COMMITTED
    )
    assert repr(pump) == (
        "Pump(servers=('a',), level='read-committed', password=******, properties=******)"
    )


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: Pump("a", level="none"), "'level'"),
        (lambda: Pump("a", rolling=Rolling(rows=0)), "'rows'"),
        (lambda: Pump("a", rolling=3), "'rolling'"),
        (lambda: Pump("a", level="read-committed", look_interval=None), "look_interval"),
        (
            lambda: Pump.from_options({"properties.servers": "a", "rolling.rows": "0"}),
            "rolling.rows",
        ),
        (lambda: Pump.from_options({"properties.servers": "a", "scan.level": "x"}), "scan.level"),
    ],
)
def test_an_error_names_the_setting_as_the_caller_spelled_it(make: Any, shown: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        make()
    assert shown in str(refused.value)
    assert refused.value.expected or "looks" in str(refused.value)


def test_missing_and_unknown_settings_are_named() -> None:
    with pytest.raises(TypeError, match=r"Pump\(\) missing a required argument: 'servers'"):
        Pump()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'look_interval'"):
        Pump("a", look_intervall=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="too many positional"):
        Pump("a", "b")  # type: ignore[misc, arg-type]
    with pytest.raises(MissingOptionError, match=r"'properties\.servers' for pump"):
        Pump.from_options({})
    with pytest.raises(UnknownOptionError, match=r"did you mean 'scan\.look-interval'"):
        Pump.from_options({"properties.servers": "a", "look_interval": "1 s"})
    with pytest.raises(UnknownOptionError, match="limit the rows"):
        Pump.from_options({"properties.servers": "a", "maxOffsets": "1"})
    with pytest.raises(UnknownOptionError, match="see servers"):
        Pump.from_options({"properties.servers": "a", "kafka.acks": "1"})


def test_help_and_tables_derive_from_the_declarations() -> None:
    text = inspect.getdoc(Pump) or ""
    assert "    level: What is read, see `look_interval`.\n" in text
    assert text.index("Args:") < text.index("Raises:")
    assert list(inspect.signature(Pump).parameters)[:3] == ["servers", "level", "schema"]
    table = Pump.OPTIONS.markdown()
    assert "| `rolling.size` | `rolling.size` | memory size, above 0 | `128` |" in table
    assert "| `start.time` | `start` | integer |" in table


class Sluice(Configured, scope="sluice", since="2.0"):
    """Writes what `Rolling` limits under other keys."""

    rows: Setting[int | None] = option_like(Rolling.rows, "sluice.rows", default=9)
    size: Setting[int, int | str] = option_like(Rolling.size, since="2.1")


def test_an_option_is_declared_once_and_reused_with_changes() -> None:
    rows, size = Sluice.OPTIONS
    assert (rows.key, rows.default, rows.since) == ("sluice.rows", 9, "2.0")
    assert (size.key, size.default, size.since) == ("rolling.size", 128, "2.1")
    assert {each.since for each in Rolling.OPTIONS} == {None}
    with pytest.raises(UnknownOptionError, match=r"sluice\.rows"):
        Sluice.from_options({"rolling.rows": 1})
    with pytest.raises(InvalidOptionError):
        Sluice(rows=0)


class Gate(Configured, scope="gate"):
    """Two limits that may contradict each other."""

    least: Setting[int] = option("gate.least", int, default=0, doc="Minimum.")
    most: Setting[int] = option("gate.most", int, default=9, validator=positive, doc="Maximum.")

    def __post_init__(self) -> None:
        if self.most < self.least:
            raise InvalidOptionError(
                "'gate.most' is less than 'gate.least'", option="gate.most", hint="set gate.most"
            )


_LEAST = option_like(Gate.least, "lock.from", aliases=("begin",))
_MOST = option_like(Gate.most, "lock.to", validator=None)


class Lock(Configured, scope="lock"):
    """Sets the limits of `Gate` under other keys."""

    gate: Setting[Gate] = part(
        Gate,
        _LEAST,
        _MOST,
        build=lambda parsed: Gate(least=parsed[_LEAST], most=parsed[_MOST]),
        default=Gate(),
        doc="The limits.",
    )


@pytest.mark.parametrize("most", [3, 0])
def test_errors_of_a_part_name_the_keys_under_which_its_options_are_reused(most: int) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Lock.from_options({"lock.from": 5, "lock.to": most})
    error: InvalidOptionError = pickle.loads(pickle.dumps(refused.value))
    assert error.option == "lock.to"
    assert "'lock.to'" in error.message
    assert "gate" not in str(error)
    assert error.args == (error.message,)


def test_errors_of_a_part_that_was_created_by_keyword_name_its_keywords() -> None:
    with pytest.raises(InvalidOptionError, match="'most' is less than") as refused:
        Lock(gate=Gate(least=5, most=3))
    assert refused.value.option == "gate.most"
    assert refused.value.keyword == "most"


class Lift(Configured, since="7.0"):
    """Declares an option in another package."""

    __module__ = "elsewhere.lifts"

    height: Setting[int] = option("lift.height", int, default=1, doc="Height.")


class Wall(Configured, since="7.0"):
    """Declares an option in another package."""

    __module__ = "elsewhere.walls"

    width: Setting[int] = option("wall.width", int, default=1, doc="Width.")


class Canal(Lift, scope="canal", since="3.0"):
    """Offers options of its own and of another package."""

    depth: Setting[int] = option("canal.depth", int, default=2, doc="Depth.")
    wall: Setting[Wall] = part(Wall, default=Wall, doc="The wall.")
    sluice: Setting[Sluice] = part(Sluice, default=Sluice, doc="The sluice.")
    start: Setting[int] = part(
        None, TIME, build=lambda parsed: parsed.get(TIME), default=0, doc="The start."
    )


class WideCanal(Canal):
    """Adds nothing."""


def test_hints_about_foreign_options_are_those_of_all_bases() -> None:
    class Both(Gate, Pump, scope="both", elsewhere={"minoffsets": "remove it"}):
        """Has two bases, of which one has hints."""

    assert Both.OPTIONS.elsewhere == {**Pump.OPTIONS.elsewhere, "minoffsets": "remove it"}


def test_a_removed_keyword_of_any_base_is_refused_with_its_replacement() -> None:
    class Turbine(Pump, former={"servers_list": "use servers"}):
        """Has replaced a keyword."""

    class Wheel(Gate, Turbine, former={"speed": "remove it"}):
        """Has removed another one."""

    for keyword, instead in {"servers_list": "use servers", "speed": "remove it"}.items():
        with pytest.raises(TypeError, match=rf"keyword argument '{keyword}'; {instead}$"):
            Wheel("a", **{keyword: 1})


@pytest.mark.parametrize("made", [Canal, WideCanal])
def test_an_option_has_the_version_of_the_package_that_offers_it(made: type[Canal]) -> None:
    assert {each.key: each.since for each in made.OPTIONS} == {
        "lift.height": "3.0",
        "canal.depth": "3.0",
        "wall.width": "3.0",
        "sluice.rows": "2.0",
        "rolling.size": "2.1",
        "start.time": "3.0",
    }
    assert [each.since for each in (*Lift.OPTIONS, *Wall.OPTIONS, TIME)] == ["7.0", "7.0", None]
    assert made(height=4).height == 4
    assert made.from_options({"wall.width": "5", "start.time": "6"}).wall.width == 5
